# SPDX-License-Identifier: Apache-2.0
"""What a site says when it is asked who it is: no more than it has promised to say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from afcl.core.terms import CLEAR, DECLARED, HASHED, AskAnnouncement
from afcl.exceptions import RejectedMessage
from afcl.gaps import KEEPING
from afcl.privacy.identity import announcement, identity_of, private_key, sign
from afcl.privacy.ledger import groups_of
from afcl.privacy.levels import parse_level
from afcl.runtime.live.announcement import Announcement, announce, check, plain_units
from afcl.runtime.live.level_names import mark_of, names_key, strictest
from afcl.runtime.live.membership import Membership
from afcl.runtime.live.own_rows import SiteRows
from afcl.runtime.live.views import Views


def introduction(
    member: Membership, own: SiteRows, asked: AskAnnouncement, views: Views
) -> Announcement:
    """Return what the site says of itself, no more than its level allows."""
    insists = parse_level(member.privacy)
    if asked.extremes and insists.private:
        raise RejectedMessage(
            f"{member.name} takes part at {insists} and tells no extremes: give public "
            "bounds (--ranges)"
        )
    group = max(asked.group, insists.group)

    def make() -> Announcement:
        rows, shown = own.shown(group)
        empty = set(own.source.columns) - set(own.held)
        units = {c: unit for c, unit in member.units.items() if c not in empty}
        arguments = member.name, own.held, rows, units, asked.extremes, shown
        return announce(*arguments, categories=own.kinds())

    if not asked.extremes:
        return _with_levels(member, own, asked, make())
    # Once for all runs and in one way: groups of other sizes differ by single rows.
    of = groups_of(group) if group > 1 else "rows"
    announcement = replace(views, run="")(f"extremes and medians of {of}", make)
    units = plain_units(announcement.columns, member.units)
    announcement = replace(announcement, name=member.name, units=units)
    return _with_levels(member, own, asked, announcement)


def _with_levels(
    member: Membership,
    own: SiteRows,
    asked: AskAnnouncement,
    announcement: Announcement,
) -> Announcement:
    """Return the announcement with what the site tells of its categories.

    It is told by how many rows have a level *here*: by the site's own least number, so
    that nobody can ask for another one every time.
    """
    insists = parse_level(member.privacy)
    ways = [asked.names, HASHED if insists.secure or member.names_key else CLEAR]
    names = strictest(*ways, DECLARED if insists.private else CLEAR)
    key = names_key(member.names_key)
    least = max(member.min_cell, asked.group, insists.group)
    categories = own.categories(asked.categories, least, names, key)
    kinds = {each.name for each in categories}
    blank = np.array([column in kinds for column in announcement.columns])[
        : announcement.low.shape[0]
    ]
    low, high, middle = (
        np.where(blank, np.nan, part)
        for part in (announcement.low, announcement.high, announcement.middle)
    )
    mark = mark_of(member.names_key, key, asked.run) if names == HASHED else ""
    return check(
        replace(
            announcement,
            low=low,
            high=high,
            middle=middle,
            categories=categories,
            names_key=mark if categories else "",
            may_lack=member.missing in KEEPING,
        ),
        asked.extremes,
    )


def signed(
    member: Membership, asked: AskAnnouncement, unsigned: Announcement
) -> Announcement:
    """Return the announcement that shows by the site's key that the name is its own."""
    if not member.key:
        return unsigned
    private = private_key(Path(member.key))
    message = announcement(asked.run, asked.challenge, member.name)
    signature = sign(private, message)
    return replace(unsigned, identity=identity_of(private), signature=signature)
