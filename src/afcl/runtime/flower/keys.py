# SPDX-License-Identifier: Apache-2.0
"""A site's key pair, which proves to the coordinator who it is.

Private keys are readable by their owner only, and nothing is ever overwritten.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from afcl.exceptions import InputError


def require_flower() -> None:
    """Say what to install if the network engine is not there."""
    if any(find_spec(name) is None for name in ("flwr", "cryptography", "psutil")):
        raise InputError("federation needs Flower: pip install 'afcl[flower]'")


def make_site_key(folder: Path, name: str = "site") -> tuple[Path, Path]:
    """Make a site's key pair in `folder`; return the private and the public file.

    The private file stays at the site; the public one goes to the coordinator.
    """
    require_flower()
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    if not re.fullmatch(r"\w[\w.-]*", name):
        raise InputError(
            f"{name!r} cannot name a key: use letters, digits, '.', '_' and '-'"
        )
    private, public = folder / name, folder / f"{name}.pub"
    for path in (private, public):
        if path.exists():
            raise InputError(f"{path} is there already: use it, or choose another name")
    key = ec.generate_private_key(ec.SECP384R1())
    shown = key.public_key().public_bytes(
        form.Encoding.OpenSSH, form.PublicFormat.OpenSSH
    )
    write_new(
        private,
        key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()
        ),
        secret=True,
    )
    write_new(public, shown + f" {name}\n".encode())
    return private, public


def write_new(path: Path, content: bytes, secret: bool = False) -> None:
    """Write a new file; a secret is never readable by others, not for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600 if secret else 0o644
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"
    ) as to:
        to.write(content)
