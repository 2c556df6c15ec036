# SPDX-License-Identifier: Apache-2.0
"""The run in words: what stands on top of the page."""

from __future__ import annotations

from afcl.registry import INDICES, LEVELS, OF_CONNECTED
from afcl.reliance import (
    LIKELY,
    NO_CLUSTERS,
    UNCLEAR,
    is_path_end,
    reaches,
    reliance_of,
    set_aside_words,
)
from afcl.report.levels import n_columns
from afcl.report.markup import count, number, shortened, size_of, span_of
from afcl.report.run_folder import COORDINATOR, MEMBER, RunFolder

#: Levels this close in silhouette are told apart by other indices (``band``).
BAND = 0.01
#: Kaufman and Rousseeuw's bounds of a mean silhouette, soberly worded.
PARTED = (
    (0.7, "well parted"),
    (0.5, "fairly well parted"),
    (0.25, "weakly parted, perhaps by chance"),
)
#: Where k is a wish.
GIVEN = "The number of clusters was given, not found."


def index_name(index: str) -> str:
    """Return an index's name for people."""
    known = INDICES.get(index)
    title = OF_CONNECTED.get(index, index) if known is None else known.title
    return title[:1].upper() + title[1:]


def higher_is_better(index: str) -> bool:
    """Whether the largest value is the best; so it is of an index nobody knows."""
    return index not in INDICES or INDICES[index].higher_is_better


def headline(run: RunFolder) -> str:
    """Return the answer in one line, no louder than it can be believed."""
    k = run.n_clusters
    if k is None:
        return "No answer yet"
    text = count(k, "cluster")
    if not run.done:
        return f"{text} so far"
    verdict = "" if run.trust is None else run.trust.verdict
    if verdict == NO_CLUSTERS:
        all_the_same = f"{k:,} asked for" if is_given(run) else f"cut into {k:,}"
        return "No clusters found" + ("" if k == 1 else f" ({all_the_same})")
    if verdict == UNCLEAR:
        return f"Cannot tell: {text} at best"
    return f"Perhaps {text}" if in_doubt(run) else text


def is_given(run: RunFolder) -> bool:
    """Whether the number of clusters was a wish."""
    return bool(run.parameters.get("n_clusters"))


def reliance_on(run: RunFolder) -> str:
    """Return what the confidence means; "" where it is not known or no use.

    A k that was asked for comes out by itself.
    """
    trust = run.trust
    if trust is None or trust.confidence is None or is_given(run):
        return ""
    k = run.n_clusters or 0
    return reliance_of(trust.verdict, trust.confidence, k, run.note, run.flaw)


def in_doubt(run: RunFolder) -> bool:
    """Whether the answer is one that should not be shown as a success."""
    trust = run.trust
    if trust is None or trust.verdict in (NO_CLUSTERS, UNCLEAR):
        return trust is not None
    sure = trust.confidence
    if is_given(run):
        return False
    if run.flaw or is_path_end(run.note, run.n_clusters or 0):
        return True
    return sure is not None and not reaches(sure, LIKELY)


def scored(run: RunFolder) -> list[tuple[int, float]]:
    """Return (k, goodness) of every level of the path whose index is defined.

    Goodness is the index that chose k, negated where less is better.
    """
    sign = 1.0 if higher_is_better(run.criterion) else -1.0
    return [
        (k, sign * value)
        for k, scores in run.path
        if (value := scores.get(run.criterion)) is not None
    ]


def runner_up(run: RunFolder) -> tuple[int, float] | None:
    """Return the best other k and how far it lies behind the chosen one."""
    levels = dict(scored(run))
    chosen = levels.pop(run.n_clusters, None) if run.n_clusters else None
    if chosen is None or not levels:
        return None
    k, value = max(levels.items(), key=lambda level: (level[1], -level[0]))
    return k, chosen - value


def how_sure(run: RunFolder) -> list[str]:
    """Say how k compares with the best other one, and how the clusters are parted.

    Where it is known how far the answer can be believed the figures stand alone: what
    they are worth is said there.
    """
    k, is_known = run.n_clusters, run.trust is not None
    if not run.done or k is None:
        return []
    value = run.scores.get(run.criterion)
    if k == 1 or value is None:
        sentence = _without_index(run)
        return [] if is_known and sentence != GIVEN else [sentence]
    name = index_name(run.criterion)
    sentences = [_against(run, f"{name} {number(value)} at k = {k}", value)]
    if run.shape is not None:
        sentences.insert(0, not_round(run.shape.reason))
    silhouette = run.scores.get("silhouette")
    if silhouette is not None and not is_known and run.shape is None:
        word = next(
            (word for least, word in PARTED if silhouette > least),
            "hardly parted",
        )
        sentences.append(
            f"Read the usual way, a silhouette of {number(silhouette)} means clusters "
            f"that are {word}. Whether they would come out again was not tested."
        )
    return sentences


def not_round(reason: str) -> str:
    """Say what clusters look like that need not be round, and why."""
    why = f": {reason}" if reason else ""
    return (
        f"The clusters need not be round{why}. A row belongs to the cluster that is "
        "nearest to it somewhere, not to the nearest centre."
    )


def _without_index(run: RunFolder) -> str:
    if is_given(run):
        return GIVEN
    if run.n_clusters == 1:
        return (
            "One cluster: nothing was found that would part the rows. No index is "
            "defined for a single cluster, so there is nothing to compare it with."
        )
    return "This method gives no index to compare numbers of clusters by."


def _against(run: RunFolder, text: str, value: float) -> str:
    """Compare with the best other k."""
    if is_given(run):
        return f"{text}. {GIVEN}"
    rival = runner_up(run)
    if rival is None:
        return f"{text}. No other k was considered."
    k, gap = rival
    levels = dict(scored(run))
    other = number(abs(levels[k]) if run.criterion == "db" else levels[k])
    if run.trust is not None:
        return f"{text}; the best other k, {k}, has {other}."
    close = _within_band(run, levels)
    if len(close) > 1 and run.n_clusters in close:
        ks = ", ".join(str(k) for k in close)
        if len(close) > 6:
            ks = f"{close[0]} to {close[-1]} ({len(close)} of them)"
        return (
            f"{text}. Close: k = {ks} lie within {BAND:g} of the best, too near for "
            "the silhouette to tell apart; BIC and the simplified silhouette chose "
            f"k = {run.n_clusters} among them. Look at the others too."
        )
    if gap < 0:
        return (
            f"{text}. k = {k} would score {number(-gap, 2)} better; the choice was "
            "made by BIC and the valleys between clusters, or on the figures as they "
            "stood when the sites were asked."
        )
    less = "less" if higher_is_better(run.criterion) else "more"
    narrow = "" if gap >= 0.05 * max(1.0, abs(value)) else ": a narrow lead"
    return (
        f"{text}. The runner-up, k = {k}, has {other}, {number(gap, 2)} {less}{narrow}."
    )


def _within_band(run: RunFolder, levels: dict[int, float]) -> list[int]:
    if run.criterion != "silhouette" or run.parameters.get("criterion") not in (
        None,
        "auto",
    ):
        return []
    best = max(levels.values())
    return sorted(k for k, value in levels.items() if value >= best - BAND)


def tiles(run: RunFolder) -> list[tuple[str, str]]:
    """Return the run's figures: name and value."""
    history = run.history
    figures = []
    if run.kind == MEMBER:
        own = run.sites[0] if run.sites else None
        if own is not None:
            figures.append(("own rows", f"{own.rows:,}"))
    else:
        figures.append(("sites", f"{len(run.sites):,}"))
    if run.rows:
        figures.append(("rows in all", f"{run.rows:,}"))
    if run.columns:
        figures.append(("columns", f"{n_columns(run.columns, run.categories):,}"))
    if run.rounds is not None:
        figures.append(("rounds", f"{run.rounds:,}"))
    messages = sum(site.messages for site in run.sites)
    if messages:
        figures.append(("messages", f"{messages:,}"))
        figures.append(("sent by sites", size_of(sum(s.bytes for s in run.sites))))
    if history.seconds is not None:
        figures.append(("duration", span_of(history.seconds)))
    figures.append(("method", run.method))
    return figures


def privacy(run: RunFolder) -> tuple[str, str]:
    """Return the run's privacy level and what it means."""
    written = run.parameters.get("privacy") or run.history.parameters.get("privacy")
    level = str(written or "")
    if not level and not run.done:
        return "not known yet", "The level is written down with the result."
    if not level:
        return "not recorded", "The run's folder does not say what the sites sent."
    secure, _, shown = level.rpartition("+")
    meanings = [_meaning(secure, run)] if secure else []
    if secure and shown == "summary":
        least = run.parameters.get("min_cell", 5)
        meanings.append(
            f"The first message holds groups of at least {least} rows of the site, "
            "each as count, mean and scatter; no row leaves its site."
        )
    else:
        meanings.append(_meaning(shown, run))
    reason = run.parameters.get("privacy_reason")
    if reason:
        meanings.append(f"Nobody named a level, so it was chosen: {reason}.")
    meanings += [
        f"The members of its sums, signed: {mark}; every site that it was summed with "
        "shows the same digits, unless somebody stood between them."
        for site in run.sites
        for mark in site.members
    ]
    return level, " ".join(meanings)


def _meaning(level: str, run: RunFolder) -> str:
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
    least = run.parameters.get("min_cell", 5)
    if family == "secure" and inside == "plain":
        return (
            "Simulated: sums over sites were not masked; between machines they are "
            "(secure+summary), and the answer is the same."
        )
    if not inside:
        inside = "5" if family == "grouped" else "?"
    return LEVELS[family].promise.format(inside=inside, min_cell=least)


def cautions(run: RunFolder) -> list[str]:
    """Return what a reader should know before believing the page."""
    found = []
    # A simulated site without rows has a note of its own; a server may not know them.
    known = run.kind != COORDINATOR
    silent = [s.name for s in run.sites if s.messages == 0 and (s.rows or not known)]
    if run.done and run.kind != MEMBER and silent:
        found.append(
            f"{_listed(silent)} sent nothing: the rows there had no say in the answer, "
            "they were only labelled."
            if run.kind != COORDINATOR
            else f"{_listed(silent)} sent nothing and had no say in the answer."
        )
    found.append(set_aside_words({s.name: s.set_aside for s in run.sites}))
    reason = (run.history.end or {}).get("reason")
    if reason == "max_rounds":
        found.append(
            "The run ended at its limit of rounds, not because it was settled."
        )
    if reason == "patience":
        found.append("The run ended because nothing arrived any more.")
    found += [f"{text[:1].upper()}{text[1:]}." for text in run.warnings]
    if run.note:
        found.append(run.note)
    alone = _alone(run)
    if alone:
        found.append(
            f"{alone} of {count(run.n_clusters or 0, 'cluster')} "
            f"{'lives' if alone == 1 else 'live'} at one site alone: all rows of such "
            "a cluster come from there. It may be real, a kind that only this site "
            "sees; or that site measures or codes something differently. Which site it "
            "is says the cluster's card; afcl check compares units and codes of the "
            "files."
        )
    return [text for text in found if text]


def _alone(run: RunFolder) -> int:
    known = [site.sizes for site in run.sites if site.sizes is not None]
    if run.kind == MEMBER or len(known) < 2:
        return 0
    return sum(sum(1 for n in at if n) == 1 for at in zip(*known, strict=False))


def _listed(names: list[str], most: int = 5) -> str:
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def subtitle(run: RunFolder) -> str:
    """Say whose page this is."""
    name = run.name
    if run.kind == MEMBER:
        return f"What {name} takes home from a run with other sites"
    if run.kind == COORDINATOR:
        return f"Coordinator's view of the run {name}"
    return f"Simulated federation in {name}"


def tidy(text: str) -> str:
    """Return a reason from a file as one short line."""
    return shortened(" ".join(text.split()), 200)
