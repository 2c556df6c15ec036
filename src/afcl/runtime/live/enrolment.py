# SPDX-License-Identifier: Apache-2.0
"""The public keys that may join, as files below a federation's folder.

A file is called like the site: ``enrolled/NAME.pub``. One that is damaged is left
aside, and hinders nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from afcl.privacy.identity import public_identity

#: The folder of the files, below the federation's.
ENROLLED = "enrolled"
#: What their names end with.
SUFFIX = ".pub"


@dataclass(frozen=True)
class EnrolledKey:
    """A public key and the file it stands in."""

    name: str
    identity: str
    path: Path


@dataclass(frozen=True)
class Enrolment:
    """The keys in a folder.

    Attributes
    ----------
    keys : tuple of EnrolledKey
        Those that can be used, by name.
    skipped : dict from Path to str
        The other files, and why they cannot.
    """

    keys: tuple[EnrolledKey, ...]
    skipped: dict[Path, str]


def enrolled_files(folder: Path) -> list[Path]:
    """Return the files of public keys below a federation's folder."""
    return sorted((folder / ENROLLED).glob(f"[!.]*{SUFFIX}"))


def enrolled(folder: Path) -> Enrolment:
    """Read the public keys below a federation's folder."""
    keys, skipped = [], {}
    for path in enrolled_files(folder):
        try:
            keys.append(read_key(path))
        except ValueError as error:
            skipped[path] = str(error)
    return Enrolment(tuple(keys), skipped)


def read_key(path: Path) -> EnrolledKey:
    """Read a public key's file; ValueError says in a few words what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except UnicodeError:
        raise ValueError("no public key of 'afcl keygen'") from None
    return EnrolledKey(path.stem, public_identity(text), path)
