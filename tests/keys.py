# SPDX-License-Identifier: Apache-2.0
"""Keys for tests, as 'afcl keygen' makes them."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec


def make_key(folder: Path, name: str) -> Path:
    """Write NAME and NAME.pub; return the private one."""
    folder.mkdir(parents=True, exist_ok=True)
    key, path = ec.generate_private_key(ec.SECP384R1()), folder / name
    path.write_bytes(
        key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()
        )
    )
    shown = key.public_key().public_bytes(
        form.Encoding.OpenSSH, form.PublicFormat.OpenSSH
    )
    Path(f"{path}.pub").write_bytes(shown + f" {name}\n".encode())
    return path
