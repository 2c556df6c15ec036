# SPDX-License-Identifier: Apache-2.0
"""What a result says of every site."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SiteSummary:
    """One site in the result.

    `sizes` are its rows in every cluster, if known; `members` fingerprints of whom it
    was summed with, which only the site itself knows.
    """

    name: str
    rows: int
    messages: int = 0
    bytes: int = 0
    sizes: tuple[int, ...] | None = None
    members: tuple[str, ...] = ()
    set_aside: int = 0
    gaps: dict[str, tuple[int, int]] = field(default_factory=dict)


def sites_of(result: dict[str, Any]) -> tuple[SiteSummary, ...]:
    """Return what a result says of the sites, or of the one whose result it is."""
    sites = result.get("sites")
    if sites is None and "site" in result:
        sites = [result["site"]]
    return tuple(
        SiteSummary(
            str(site["name"]),
            int(site["rows"]),
            int(site.get("messages", 0)),
            int(site.get("bytes", 0)),
            None if site.get("sizes") is None else tuple(map(int, site["sizes"])),
            tuple(map(str, site.get("members", ()))),
            int(site.get("set_aside", 0)),
            {
                str(name): (int(each["cells"]), int(each["filled"]))
                for name, each in (site.get("gaps") or {}).items()
            },
        )
        for site in sites or ()
    )
