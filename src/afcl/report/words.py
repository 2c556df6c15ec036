# SPDX-License-Identifier: Apache-2.0
"""The run in words: what stands on top of the page."""

from __future__ import annotations

import re

from afcl.registry import INDICES, LEVELS
from afcl.report.facts import COORDINATOR, MEMBER, Facts
from afcl.report.markup import count, number, size_of, span_of

#: Levels this close in silhouette are told apart by other indices (``band``).
BAND = 0.01
#: Kaufman and Rousseeuw's reading of a mean silhouette.
STRENGTH = (
    (0.7, "a strong structure"),
    (0.5, "a reasonable structure"),
    (0.25, "a weak structure, which may be artificial"),
)


def index_name(index: str) -> str:
    """Return an index's name for people."""
    title = INDICES[index].title if index in INDICES else index
    return title[:1].upper() + title[1:]


def higher_is_better(index: str) -> bool:
    """Whether the largest value is the best; so it is of an index nobody knows."""
    return index not in INDICES or INDICES[index].higher_is_better


def headline(facts: Facts) -> str:
    """Return the answer in one line."""
    if facts.n_clusters is None:
        return "No answer yet"
    text = count(facts.n_clusters, "cluster")
    return text if facts.done else f"{text} so far"


def scored(facts: Facts) -> list[tuple[int, float]]:
    """Return (k, goodness) of every level of the path whose index is defined.

    Goodness is the index that chose k, negated where less is better.
    """
    sign = 1.0 if higher_is_better(facts.criterion) else -1.0
    return [
        (k, sign * value)
        for k, scores in facts.path
        if (value := scores.get(facts.criterion)) is not None
    ]


def runner_up(facts: Facts) -> tuple[int, float] | None:
    """Return the best other k and how far it lies behind the chosen one."""
    levels = dict(scored(facts))
    chosen = levels.pop(facts.n_clusters, None) if facts.n_clusters else None
    if chosen is None or not levels:
        return None
    k, value = max(levels.items(), key=lambda level: (level[1], -level[0]))
    return k, chosen - value


def how_sure(facts: Facts) -> list[str]:
    """Say how clearly k stands out, and how well the clusters are parted."""
    k = facts.n_clusters
    if k == 1:
        return [
            "One cluster: nothing was found that would part the rows. No index is "
            "defined for a single cluster, so there is nothing to compare it with."
        ]
    value = facts.scores.get(facts.criterion)
    if not facts.done or k is None:
        return []
    if value is None:
        return [_told(facts)]
    name = index_name(facts.criterion)
    said = [_against(facts, f"{name} {number(value)} at k = {k}", value)]
    silhouette = facts.scores.get("silhouette")
    if silhouette is not None:
        word = next(
            (word for least, word in STRENGTH if silhouette > least),
            "no structure to speak of",
        )
        said.append(
            f"Read the usual way, a silhouette of {number(silhouette)} means {word}."
        )
    return said


def _told(facts: Facts) -> str:
    if facts.parameters.get("n_clusters"):
        return "The number of clusters was given, not found."
    return "This method gives no index to compare numbers of clusters by."


def _against(facts: Facts, text: str, value: float) -> str:
    """Compare with the best other k."""
    if facts.parameters.get("n_clusters"):
        return f"{text}. The number of clusters was given, not found."
    rival = runner_up(facts)
    if rival is None:
        return f"{text}. No other k was considered."
    k, gap = rival
    levels = dict(scored(facts))
    close = _within_band(facts, levels)
    if len(close) > 1 and facts.n_clusters in close:
        ks = ", ".join(str(k) for k in close)
        if len(close) > 6:
            ks = f"{close[0]} to {close[-1]} ({len(close)} of them)"
        return (
            f"{text}. Close: k = {ks} lie within {BAND:g} of the best, too near for "
            "the silhouette to tell apart; BIC and the simplified silhouette chose "
            f"k = {facts.n_clusters} among them. Look at the others too."
        )
    if gap < 0:
        return (
            f"{text}. k = {k} would score {number(-gap, 2)} better; the choice was "
            "made on the figures as they stood when the sites were asked."
        )
    how = "clear" if gap >= 0.05 * max(1.0, abs(value)) else "narrow"
    less = "less" if higher_is_better(facts.criterion) else "more"
    other = number(abs(levels[k]) if facts.criterion == "db" else levels[k])
    return (
        f"{text}. The runner-up, k = {k}, has {other}, {number(gap, 2)} {less}: "
        f"the choice is {how}."
    )


def _within_band(facts: Facts, levels: dict[int, float]) -> list[int]:
    if facts.criterion != "silhouette" or facts.parameters.get("criterion") not in (
        None,
        "auto",
    ):
        return []
    best = max(levels.values())
    return sorted(k for k, value in levels.items() if value >= best - BAND)


def tiles(facts: Facts) -> list[tuple[str, str]]:
    """Return the run's figures: name and value."""
    course = facts.course
    said = []
    if facts.kind == MEMBER:
        own = facts.sites[0] if facts.sites else None
        if own is not None:
            said.append(("own rows", f"{own.rows:,}"))
    else:
        said.append(("sites", f"{len(facts.sites):,}"))
    if facts.rows:
        said.append(("rows in all", f"{facts.rows:,}"))
    if facts.columns:
        said.append(("columns", f"{len(facts.columns):,}"))
    if facts.rounds is not None:
        said.append(("rounds", f"{facts.rounds:,}"))
    messages = sum(site.messages for site in facts.sites)
    if messages:
        said.append(("messages", f"{messages:,}"))
        said.append(("sent by sites", size_of(sum(s.bytes for s in facts.sites))))
    if course.seconds is not None:
        said.append(("duration", span_of(course.seconds)))
    said.append(("method", facts.method))
    return said


def privacy(facts: Facts) -> tuple[str, str]:
    """Return the run's privacy level and what it means."""
    level = str(facts.parameters.get("privacy") or "")
    if not level and not facts.done:
        return "not known yet", "The level is written down with the result."
    if not level:
        return "not recorded", "The run's folder does not say what the sites sent."
    said = [_meaning(part, facts) for part in level.split("+")]
    return level, " ".join(said)


def _meaning(level: str, facts: Facts) -> str:
    family, _, inside = level.partition("(")
    inside = inside.rstrip(")")
    family = family.strip()
    if family == "rival":
        return (
            "This method is not AFCL and uploads what its paper says; docs/methods.md "
            "lists it. Do not take it for private."
        )
    if family not in LEVELS:
        return f"Level '{level}': docs/privacy.md says what it means."
    least = facts.parameters.get("min_cell", 5)
    if not inside:
        inside = "5" if family == "grouped" else "?"
    return LEVELS[family].promise.format(inside=inside, min_cell=least)


def cautions(facts: Facts) -> list[str]:
    """Return what a reader should know before believing the page."""
    said = []
    silent = [s.name for s in facts.sites if s.messages == 0]
    if facts.done and facts.kind != MEMBER and silent:
        said.append(
            f"{_listed(silent)} sent nothing: the rows there had no say in the answer, "
            "they were only labelled."
            if facts.kind != COORDINATOR
            else f"{_listed(silent)} sent nothing and had no say in the answer."
        )
    reason = (facts.course.end or {}).get("reason")
    if reason == "max_rounds":
        said.append("The run ended at its limit of rounds, not because it was settled.")
    if reason == "patience":
        said.append("The run ended because nothing arrived any more.")
    alone = _alone(facts)
    if alone:
        said.append(
            f"{alone} of {count(facts.n_clusters or 0, 'cluster')} "
            f"{'lives' if alone == 1 else 'live'} at one site alone."
        )
    return said


def _alone(facts: Facts) -> int:
    known = [site.sizes for site in facts.sites if site.sizes is not None]
    if facts.kind == MEMBER or len(known) < 2:
        return 0
    return sum(sum(1 for n in at if n) == 1 for at in zip(*known, strict=False))


def _listed(names: list[str], most: int = 5) -> str:
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def subtitle(facts: Facts) -> str:
    """Say whose page this is."""
    name = facts.name
    if facts.kind == MEMBER:
        return f"What {name} takes home from a run with other sites"
    if facts.kind == COORDINATOR:
        return f"Coordinator's view of the run {name}"
    return f"Simulated federation in {name}"


def tidy(text: str) -> str:
    """Return a reason from a file as one short line."""
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= 200 else text[:199] + "…"
