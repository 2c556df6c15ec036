# SPDX-License-Identifier: Apache-2.0
"""Who a site is: its enrolled key, what it signs with it, and how others check that.

A site's identity is the public half of the key it was enrolled with, as it stands in
its file (the second word of ``NAME.pub``). With the private half the site signs two
things: that a name is its own (to the coordinator, who asks with a challenge), and that
a mask key is its own (to the members of its cohort, whom the coordinator could give
another one). What is signed begins with what it is for and names the run, so that no
signature does for anything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from afcl.exceptions import InputError

#: How the kind of every key of a site begins.
KIND = "ecdsa-sha2-"
#: Longest identity or signature, in characters.
LONGEST = 300
#: Hexadecimal digits of a list of members that people compare. Half as many bits are
#: needed to find two lists that look alike: 64.
DIGITS = 32
#: Digits of a group of them, as people read them.
GROUP = 4
# What is signed names what it is for: a signature must not serve elsewhere.
ANNOUNCEMENT = "afcl announcement"
MASK_KEY = "afcl mask key"


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise InputError(
            "a site's key needs cryptography: pip install 'afcl[privacy]'"
        ) from None
    return hashes, serialization, ec


# ------------------------------------------------------------------ what is signed


def announcement(run: str, challenge: str, name: str) -> bytes:
    """Return what a site signs to show that a name is its own."""
    return _text(ANNOUNCEMENT, run, challenge, name)


def mask_key(run: str, client: int, name: str, key: str) -> bytes:
    """Return what a site signs to show that a mask key (hexadecimal) is its own."""
    return _text(MASK_KEY, run, client, name, key)


def _text(*parts: str | int) -> bytes:
    """Write parts so that no others are written alike."""
    return json.dumps(parts).encode()


# ------------------------------------------------------------------ keys


def private_key(path: Path) -> Any:
    """Read the private key of 'afcl keygen'; the error names no path."""
    _, serialization, ec = _library()
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(
            "the private key of this site cannot be read: give --key the file of "
            "'afcl keygen' that has no .pub at its end"
        )
    return key


def identity_of(private: Any) -> str:
    """Return the public half of a private key, as it stands in its file."""
    return _written(private.public_key())


def _written(public: Any) -> str:
    _, form, _ = _library()
    line = public.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return str(line.split()[1].decode())


def identity_of_pem(content: bytes) -> str:
    """Return the identity of a public key in PEM, "" of what is none."""
    _, serialization, ec = _library()
    try:
        key = serialization.load_pem_public_key(content)
    except Exception:  # whatever the library makes of garbage
        return ""
    return _written(key) if isinstance(key, ec.EllipticCurvePublicKey) else ""


def sign(private: Any, message: bytes) -> str:
    """Return the signature of a message, in hexadecimal."""
    hashes, _, ec = _library()
    return str(private.sign(message, ec.ECDSA(hashes.SHA384())).hex())


def verify(identity: str, message: bytes, signature: str) -> bool:
    """Whether the owner of an identity has signed a message; garbage has nobody."""
    if max(len(identity), len(signature)) > LONGEST:
        return False
    hashes, _, ec = _library()
    try:
        public = _public(identity)
        public.verify(bytes.fromhex(signature), message, ec.ECDSA(hashes.SHA384()))
    except Exception:  # whatever the library makes of garbage
        return False
    return True


def _public(identity: str) -> Any:
    """Return the key behind an identity; ValueError if it is written otherwise."""
    _, serialization, ec = _library()
    content = base64.b64decode(identity, validate=True)
    kind = content[4 : 4 + int.from_bytes(content[:4], "big")]
    key = serialization.load_ssh_public_key(kind + b" " + identity.encode())
    if not isinstance(key, ec.EllipticCurvePublicKey) or _written(key) != identity:
        raise ValueError("no key of a site")
    return key


def public_identity(text: str) -> str:
    """Return the identity in the text of a public key's file.

    Raises
    ------
    ValueError
        If it is none, or not whole.
    """
    lines = text.strip().splitlines() or [""]
    words = lines[0].split()
    if len(lines) > 1 or not words or not words[0].startswith(KIND):
        raise ValueError("no public key of 'afcl keygen'")
    try:
        _public("".join(words[1:2]))
    except Exception:  # whatever the library makes of garbage
        raise ValueError("cut off or damaged") from None
    return words[1]


def key_fingerprint(identity: str) -> str:
    """Return what people compare of a key, as ``ssh-keygen -l`` writes it."""
    digest = hashlib.sha256(base64.b64decode(identity)).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


# ------------------------------------------------------------------ lists of members


def read_public(text: str) -> dict[str, str]:
    """Return identities by name, from lines of public keys.

    A line is one of a ``.pub`` file, where the name comes last, or begins with the name
    instead. Empty ones and those that begin with # do not count.

    Raises
    ------
    InputError
        If a line is no such line, or a name has two keys.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        at = next((i for i, word in enumerate(words) if word.startswith(KIND)), None)
        key = words[at + 1 : at + 2] if at is not None else []
        name = " ".join(words[:at] or words[2:])
        if not key or not name:
            raise InputError(
                f"line {number} of the public keys is no name with a key: give lines "
                "of .pub files"
            )
        if found.setdefault(name, key[0]) != key[0]:
            raise InputError(f"{name} has two public keys: leave the wrong one out")
    return found


def fingerprint(members: Iterable[tuple[str, str]]) -> str:
    """Return what people compare of names and identities: the same for the same."""
    content = _text(*(part for member in sorted(members) for part in member))
    digits = hashlib.sha256(content).hexdigest()[:DIGITS]
    return " ".join(digits[i : i + GROUP] for i in range(0, DIGITS, GROUP))
