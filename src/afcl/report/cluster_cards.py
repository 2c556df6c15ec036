# SPDX-License-Identifier: Apache-2.0
"""A card for every cluster: why it is one, in words, figures and a small picture."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats
from afcl.reliance import STABLE, percent, reaches
from afcl.report.markup import Html, count, join, note, number, shortened, tag
from afcl.report.profile_facts import ClusterProfile
from afcl.report.run_folder import RunFolder
from afcl.report.svg import (
    WIDTH,
    Scale,
    colour,
    figure,
    mark,
    marks,
    shape,
    swatch,
    text,
)

#: Cards that are shown at once; the others are folded away.
SHOWN = 12
#: Height of a column's strip.
STRIP = 52.0
#: Where its line is.
LINE = 34.0
#: Characters of a column's name above its strip.
NAME = 20
#: Characters of a value above it.
VALUE = 22


def cards_of(run: RunFolder) -> Html | None:
    """Return the cards; None where nothing is known to write on them."""
    if not run.profiles:
        return None
    made = [_card(run, each) for each in run.profiles]
    more = made[SHOWN:]
    legend = (
        "One card a cluster. A strip is the range of a column over all rows: the mark "
        "is the cluster's centre, the band one spread to either side (about two thirds "
        "of its rows), the tick the mean of all rows that are not in it. Spreads, "
        "silhouettes and rules are estimates from the groups of rows that sites told "
        "of, not from rows."
    )
    folded = None
    if more:
        name = f"{count(len(more), 'more cluster')}, smaller ones"
        folded = tag("details", tag("summary", name), tag("div", more, class_="why"))
    return join(
        tag("h3", "Why these clusters", id="why"),
        tag("p", legend),
        tag("div", made[:SHOWN], class_="why"),
        folded,
    )


def _card(run: RunFolder, profile: ClusterProfile) -> Html:
    head = f"{count(profile.rows, 'row')}, {percent(profile.part)}"
    sites = profile.sites_words() or _unknown_sites(run)
    return tag(
        "article",
        tag("h4", swatch(profile.cluster), " ", head),
        _strips(run, profile),
        tag("p", profile.apart_words()) if profile.apart_words() else None,
        tag("p", profile.rule_words()) if profile.rule_words() else None,
        tag(
            "dl", [tag("div", tag("dt", n), tag("dd", v)) for n, v in _details(profile)]
        ),
        note(sites) if sites else None,
        class_="card",
        aria_label=f"Cluster {profile.cluster}",
    )


def _unknown_sites(run: RunFolder) -> str:
    if len(run.sites) < 2:
        return ""
    return "Which sites hold it is not known here: labels stay with them."


def _details(profile: ClusterProfile) -> list[tuple[str, str]]:
    """Return the figures of a card: name and value."""
    found = []
    if profile.nearest is not None:
        found.append(("nearest", profile.separation_words()))
    if profile.silhouette is not None:
        found.append(("silhouette", number(profile.silhouette, 2)))
    if profile.stability is not None:
        weak = "" if reaches(profile.stability, STABLE) else " (!)"
        found.append(("comes back", f"{percent(profile.stability)}{weak}"))
    return found


def _strips(run: RunFolder, profile: ClusterProfile) -> Html | None:
    """Draw where the cluster lies in the columns that set it apart."""
    if not profile.telling:
        return None
    low, high = _ranges(run, profile)
    parts = [
        _strip(profile, j, row * STRIP, float(low[j]), float(high[j]))
        for row, j in enumerate(profile.telling)
    ]
    names = ", ".join(profile.columns[j] for j in profile.telling)
    return figure(
        f"Cluster {profile.cluster} beside the others",
        f"Centre and spread in {names}, on the range of all rows.",
        marks(parts, label="columns that set the cluster apart"),
        height=STRIP * len(parts),
        class_="strips",
    )


def _ranges(run: RunFolder, profile: ClusterProfile) -> tuple[Floats, Floats]:
    """Return the ends of every column's strip; centres and others lie on it."""
    center, others = np.array(profile.center), np.array(profile.others)
    low, high = np.minimum(center, others), np.maximum(center, others)
    if run.low is not None and run.span is not None:
        low, high = np.minimum(low, run.low), np.maximum(high, run.low + run.span)
    shares = np.array([name in profile.categories for name in profile.columns])
    return np.where(shares, 0.0, low), np.where(shares, 1.0, high)


def _strip(
    profile: ClusterProfile, j: int, top: float, low: float, high: float
) -> Html:
    x = Scale(low, high, 10.0, WIDTH - 10.0)
    name, spread = profile.columns[j], profile.spread(j)
    here, there = (
        profile.value(j, profile.center[j]),
        profile.value(j, profile.others[j]),
    )
    value = f"{here} ± {spread}" if spread else here
    tip = (
        f"{name}: {value}, the others {there}; {percent(profile.shares[j])} of what "
        "sets the cluster apart"
    )
    y, at = top + LINE, x(profile.center[j])
    parts: list[object] = [
        text([shortened(name, NAME), tag("title", name)], 10.0, top + 18, "tick"),
        text(shortened(value, VALUE), WIDTH - 10, top + 18, "end label"),
        tag("line", x1=x.start, x2=x.stop, y1=y, y2=y, class_="axis"),
    ]
    if spread:
        wide = profile.spreads[j]
        left = max(x.start, x(profile.center[j] - wide))
        right = min(x.stop, x(profile.center[j] + wide))
        long = max(2.0, right - left)
        box = {"x": left, "y": y - 5, "width": long, "height": 10.0}
        parts.append(tag("rect", **box, class_=f"band fill {colour(profile.cluster)}"))
    other = x(profile.others[j])
    parts.append(tag("line", x1=other, x2=other, y1=y - 9, y2=y + 9, class_="others"))
    look = f"point fill {colour(profile.cluster)}"
    parts.append(mark("path", tip, look, d=shape(profile.cluster, at, y, 6.0)))
    return join(parts)
