# SPDX-License-Identifier: Apache-2.0
"""Privacy levels: what a client may send, by name; and how much that gives away.

`summary` sends cells of at least `min_cell` rows; `grouped`, `secure` and `dp` send
less; `exact` is the published upload, from which every row can be read off. See
docs/privacy.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from afcl.privacy.levels import (
    EXACT_WARNING,
    Level,
    default_level,
    level_for,
    parse_level,
    small_sites,
    too_fine,
    too_small,
)

__all__ = [
    "EXACT_WARNING",
    "Level",
    "audit",
    "default_level",
    "level_for",
    "parse_level",
    "small_sites",
    "too_fine",
    "too_small",
]


def __getattr__(name: str) -> Any:
    """Fetch the audit, which runs whole federations and so stands above them."""
    if name == "audit":
        return import_module("afcl.audit").audit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
