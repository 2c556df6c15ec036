# SPDX-License-Identifier: Apache-2.0
"""Privacy levels: what a client may send, by name.

`summary` sends cells of at least `min_cell` rows; `exact` is the published upload,
from which every row can be read off.
"""

from __future__ import annotations

from afcl.exceptions import InputError

__all__ = ["EXACT_WARNING", "LEVELS", "level_for"]

EXACT_WARNING = (
    "privacy level 'exact' uploads every row in a form the server can invert; "
    "use the default preset for data that must not leave a site"
)

#: The levels each preset knows, its default first.
LEVELS = {"default": ("summary",), "paper": ("exact",), "matlab": ("exact",)}


def level_for(preset: str, privacy: str | None) -> str:
    """Return the level a preset runs at, or say which ones there are."""
    known = LEVELS[preset]
    if privacy is None:
        return known[0]
    if privacy not in known:
        raise InputError(
            f"privacy {privacy!r} is not available with preset {preset!r}; "
            f"choose {' or '.join(repr(level) for level in known)}"
        )
    return privacy
