# SPDX-License-Identifier: Apache-2.0
"""The public keys that may join a run, as files below its folder."""

from __future__ import annotations

from pathlib import Path

#: The folder of the files, below the run's.
ENROLLED = "enrolled"


def enrolled_files(folder: Path) -> set[Path]:
    """Return the public keys that were enrolled for the run in a folder so far."""
    return set((folder / ENROLLED).glob("*.pub"))


def enrolled_keys(folder: Path) -> frozenset[str]:
    """Return the same as identities: the second word of every file."""
    lines = (path.read_text(encoding="utf-8") for path in enrolled_files(folder))
    return frozenset(word for line in lines for word in line.split()[1:2])
