# SPDX-License-Identifier: Apache-2.0
"""Why every cluster is one, as ``result.json`` says it, and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afcl.reliance import percent
from afcl.report.levels import categories_of, share
from afcl.report.markup import count, number

#: Columns that are named: until they have so much of what parts a cluster from others,
ENOUGH = 0.8
#: but no more than so many,
MOST = 3
#: and none that has less than this.
LEAST = 0.05
#: A column in which the others are less than so many spreads away sets nothing apart.
NOTICED = 0.5
#: Centres so many spreads apart, both added, hardly overlap;
CLEAR = 2.0
#: from here on they touch.
TOUCHING = 1.0


@dataclass(frozen=True)
class NamedRule:
    """A short rule: what has to hold, of how much of the cluster it does, and if right.

    `conditions` are (column, whether at least, value).
    """

    conditions: tuple[tuple[str, bool, float], ...]
    covers: float
    right: float


@dataclass(frozen=True)
class ClusterProfile:
    """What makes one cluster; in the units of the data.

    Attributes
    ----------
    cluster, rows, part
        Its number, its rows, and their share of all rows.
    columns
        Names of the columns.
    center, spreads, others
        By column: its centre, how far its rows spread around that, and the mean of all
        rows that are not in it.
    apart, shares
        By column: how far the other centres are (root mean square), and what the column
        has of the squared distances to them; these add up to 1.
    nearest, separation
        The nearest other cluster and how far it is, in spreads of both; where clusters
        are not round (`is_round`), in steps between its own cells. None: not known.
    silhouette, stability
        The mean silhouette of its cells; how much of it comes back in resamples.
    rule
        What tells it from the others in short; None where nothing short does.
    sites, site, site_share
        How many sites hold rows of it, the one that holds most, and its share; None,
        "" and None where labels stay with the sites.
    """

    cluster: int
    rows: int
    part: float
    columns: tuple[str, ...]
    center: tuple[float, ...]
    spreads: tuple[float, ...]
    others: tuple[float, ...]
    apart: tuple[float, ...]
    shares: tuple[float, ...]
    nearest: int | None = None
    separation: float | None = None
    silhouette: float | None = None
    stability: float | None = None
    rule: NamedRule | None = None
    sites: int | None = None
    site: str = ""
    site_share: float | None = None
    is_round: bool = True
    #: Which columns are levels of a category, and levels of those that have an order.
    categories: Mapping[str, str] = field(default_factory=dict, repr=False)
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @property
    def telling(self) -> tuple[int, ...]:
        """The columns that set it apart, the most telling first."""
        order = sorted(range(len(self.shares)), key=lambda j: -self.shares[j])
        found: list[int] = []
        for j in order[:MOST]:
            known = sum(self.shares[i] for i in found)
            if known >= ENOUGH or self.shares[j] < LEAST:
                break
            if self.apart[j] >= NOTICED * self.spreads[j]:
                found.append(j)
        return tuple(found)

    def value(self, j: int, value: float) -> str:
        """Return a value of a column as people read it."""
        return written(self.columns[j], value, self.categories, self.orders)

    def spread(self, j: int) -> str:
        """Return how far a column spreads, as text; of a share it says nothing."""
        if self.columns[j] in self.categories:
            return ""
        return number(self.spreads[j], 2)

    @property
    def in_words(self) -> str:
        """Why it is a cluster, in a few sentences."""
        sentences = [self.apart_words(), self.rule_words(), self.sites_words()]
        many = count(self.rows, "row")
        return " ".join(
            [f"{many}, {percent(self.part)} of all.", *filter(None, sentences)]
        )

    def apart_words(self) -> str:
        """Say which columns set it apart."""
        columns = [self._column_words(j) for j in self.telling]
        if columns or not any(self.shares):
            return f"Set apart by {_listed(columns)}." if columns else ""
        return "No column by itself sets it apart."

    def _column_words(self, j: int) -> str:
        name, spread = self.columns[j], self.spread(j)
        around = f" ± {spread}" if spread else ""
        here, there = self.value(j, self.center[j]), self.value(j, self.others[j])
        return f"{name} ({here}{around}, the others {there})"

    def rule_words(self) -> str:
        """Say what tells it from the others in short."""
        if self.rule is None:
            alone = not any(self.shares)
            return "" if alone else "No short rule tells it from the others."
        return (
            f"{self.rule_text}: {percent(self.rule.covers)} of this cluster; "
            f"{percent(self.rule.right)} of such rows are in it."
        )

    @property
    def rule_text(self) -> str:
        """The rule's conditions, as text; "" where there is none."""
        if self.rule is None:
            return ""
        conditions = [self._condition(*each) for each in self.rule.conditions]
        return " and ".join(conditions)

    def _condition(self, column: str, at_least: bool, value: float) -> str:
        if column in self.categories:
            name = self.categories[column]
            level = column[len(name) + 1 :]
            return f"{name} is {level}" if at_least else f"{name} is not {level}"
        levels = self.orders.get(column)
        if levels:
            # Ranks are whole numbers: from the next one on, or up to the one before.
            first = min(max(math.ceil(value), 0), len(levels) - 1)
            if at_least:
                return f"{column} at least {levels[first]}"
            return f"{column} below {levels[first]}"
        return f"{column} {'≥' if at_least else '<'} {number(value, 12)}"

    def sites_words(self) -> str:
        """Say which sites hold it, where that is known."""
        if self.sites is None or self.site_share is None:
            return ""
        name = f"site {self.site}" if self.site.isdigit() else self.site
        if self.sites == 1:
            return f"Only {name} has rows of it."
        most = f"most at {name} ({percent(self.site_share)})"
        return f"{count(self.sites, 'site')} have rows of it, {most}."

    def separation_words(self) -> str:
        """Say how far the nearest other cluster is."""
        if self.nearest is None:
            return "there is no other cluster"
        if self.separation is None:
            return f"cluster {self.nearest} is nearest"
        far = f"cluster {self.nearest}, {number(self.separation, 2)}"
        if not self.is_round:
            return f"{far} steps between its own cells away"
        word = "overlapping"
        if self.separation >= TOUCHING:
            word = "well apart" if self.separation >= CLEAR else "touching"
        return f"{far} spreads away: {word}"


def written(
    column: str,
    value: float,
    categories: Mapping[str, str],
    orders: Mapping[str, tuple[str, ...]],
    digits: int = 3,
) -> str:
    """Return a centre's value as people read it.

    Of ranks that is the nearest level and the mean rank, of a level its share.
    """
    if column in categories:
        return share(value)
    levels = orders.get(column)
    if not levels:
        return number(value, digits)
    nearest = round(min(max(value, 0.0), len(levels) - 1.0))
    return f"{levels[nearest]} ({number(value, digits)})"


def _listed(texts: Sequence[str]) -> str:
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def profiles_of(result: Mapping[str, Any]) -> tuple[ClusterProfile, ...]:
    """Return the clusters of a ``result.json``; nothing where it does not say it."""
    known, centers = result.get("profiles") or (), result.get("centers")
    if not known or centers is None:
        return ()
    sizes = [int(size) for size in result.get("sizes") or ()]
    stabilities = (result.get("confidence") or {}).get("clusters") or ()
    if len(stabilities) != len(known):
        stabilities = [None] * len(known)
    shape = (result.get("shape") or {}).get("name")
    common: dict[str, Any] = {
        "columns": tuple(map(str, result["columns"])),
        "categories": categories_of(dict(result)),
        "orders": orders_of(result),
        "is_round": shape != "connected",
    }
    return tuple(
        ClusterProfile(
            cluster=c,
            rows=sizes[c],
            part=sizes[c] / max(sum(sizes), 1),
            center=_floats(centers[c]),
            spreads=_floats(each["spreads"]),
            others=_floats(each["others"]),
            apart=_floats(each["apart"]),
            shares=_floats(each["shares"]),
            nearest=each.get("nearest"),
            separation=_maybe(each.get("separation")),
            silhouette=_maybe(each.get("silhouette")),
            stability=_maybe(stabilities[c]),
            rule=_rule(each.get("rule")),
            **_held(result.get("sites") or (), c),
            **common,
        )
        for c, each in enumerate(known)
    )


def orders_of(result: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the levels of the columns whose centres are mean ranks of these."""
    return {
        str(each["name"]): tuple(map(str, each["levels"]))
        for each in result.get("features") or ()
        if each.get("ordered")
    }


def _floats(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple(map(float, values))


def _maybe(value: Any) -> float | None:
    return None if value is None else float(value)


def _rule(rule: Mapping[str, Any] | None) -> NamedRule | None:
    if rule is None:
        return None
    conditions = tuple(
        (str(c["column"]), bool(c["at_least"]), float(c["value"]))
        for c in rule["conditions"]
    )
    return NamedRule(conditions, float(rule["covers"]), float(rule["right"]))


def _held(sites: Sequence[Mapping[str, Any]], cluster: int) -> dict[str, Any]:
    """Return which of several sites hold a cluster; nothing unless all are known."""
    if len(sites) < 2 or any(site.get("sizes") is None for site in sites):
        return {}
    rows = [int(site["sizes"][cluster]) for site in sites]
    most = max(range(len(rows)), key=lambda i: rows[i])
    return {
        "sites": sum(1 for n in rows if n),
        "site": str(sites[most]["name"]),
        "site_share": rows[most] / max(sum(rows), 1),
    }
