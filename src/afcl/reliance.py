# SPDX-License-Identifier: Apache-2.0
"""How far an answer can be believed: from where on, and how it is said.

Warnings, the terminal and the page take thresholds and sentences from here. A share is
compared as it is shown, in whole percent, so that 70% is never called less than 70%.
Functions that have nothing to say return "".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

# Verdicts, as they stand in result.json.
CLUSTERS = "clusters"
NO_CLUSTERS = "none"
#: It cannot be told.
UNCLEAR = "unclear"

#: A k that comes out of so many of the resamples can be relied on,
SURE = 0.9
#: of so many is likely,
LIKELY = 0.7
#: of so many uncertain; of less is warned.
DOUBTFUL = 0.5
#: The words for it.
RELIANCE = ((SURE, "can be relied on"), (LIKELY, "likely"), (DOUBTFUL, "uncertain"))
#: What is said below all of them.
UNRELIABLE = "do not rely on it"
#: What is said instead of "likely" and better where the path ended at the answer,
THERE_MAY_BE_MORE = "there may be more"
#: where one column made most of the clusters,
ONE_COLUMN = "one column decides it"
#: and where the data look wrong.
LOOK_FIRST = "look at the data first"
#: The kind of finding that says that a column did, as it stands in result.json,
SPLITS = "splits the clusters"
#: and those of data that look wrong.
SPOILING = frozenset({"ids", "sentinel", "zero", "extreme", "unit", "mostly empty"})
#: What a note says of who stretches columns alone, and is not listened to there.
NO_SAY = "no say there"
#: Clusters of which less comes back are not stable.
STABLE = 0.8

#: What other believable k are headed by.
ALSO = "Also worth a look"
#: At most so many other k that came out are named.
OTHERS = 4


def percent(share: float) -> str:
    """Return a share in whole percent; only nothing is 0%, only all is 100%.

    Examples
    --------
    >>> percent(0.934), percent(0.002), percent(0.999), percent(1.0)
    ('93%', '<1%', '>99%', '100%')
    """
    if 0 < share <= 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 else f"{round(100 * share)}%"


def reaches(share: float, least: float) -> bool:
    """Whether a share is at least `least`, both in whole percent."""
    return round(100 * share) >= round(100 * least)


def reliance(share: float) -> str:
    """Say in a few words what a confidence means."""
    words = (word for least, word in RELIANCE if reaches(share, least))
    return next(words, UNRELIABLE)


def reliance_of(
    verdict: str,
    share: float,
    n_clusters: int,
    note: str = "",
    flaw: str = "",
) -> str:
    """Return what a confidence means beside a verdict and the answer's note.

    That clusters come out again says nothing where a test does not see them, nor where
    a larger k was not allowed, nor where the data have a flaw (:func:`flaw_of`): it is
    the same in every resample.
    """
    if verdict == UNCLEAR or (verdict == NO_CLUSTERS and n_clusters != 1):
        return ""
    if reaches(share, LIKELY) and flaw:
        return flaw
    if reaches(share, LIKELY) and is_path_end(note, n_clusters):
        return THERE_MAY_BE_MORE
    return reliance(share)


def flaw_of(
    suspicions: Iterable[Mapping[str, object]], notes: Iterable[str] = ()
) -> str:
    """Return what a result's suspicions and notes make of its k; "" if nothing.

    Examples
    --------
    >>> flaw_of([{"kind": "sentinel"}]), flaw_of([{"kind": "few values"}])
    ('look at the data first', '')
    """
    kinds = {str(each.get("kind")) for each in suspicions}
    if SPLITS in kinds:
        return ONE_COLUMN
    if SPOILING & kinds or any(NO_SAY in note for note in notes):
        return LOOK_FIRST
    return ""


def path_end_words(n_clusters: int) -> str:
    """Say that the path ended at the answer although it could have gone on."""
    return (
        f"{n_clusters} is the largest number of clusters that was looked at: there may "
        "be more. Allow them with max_clusters (--max-clusters)."
    )


def is_path_end(note: str, n_clusters: int) -> bool:
    """Whether the note of an answer says that the path ended there."""
    return path_end_words(n_clusters) in note


def verdict_words(verdict: str, gain: float | None, n_clusters: int) -> str:
    """Say whether there are clusters at all; `gain` is in nats a row."""
    if verdict == UNCLEAR:
        return (
            "Cannot tell whether there are clusters: what the sites said is too coarse "
            f"or too noisy; k = {n_clusters} is a guess."
        )
    if verdict == NO_CLUSTERS:
        text = "Nothing parts the rows: "
        if n_clusters == 1:
            return f"{text}they are one cloud as far as the sites' messages show."
        return f"{text}the {n_clusters} clusters are pieces of one cloud."
    if verdict != CLUSTERS:
        return ""
    text = "Clusters explain the rows better than one cloud does"
    return f"{text}." if gain is None else f"{text}, by {gain:.2f} nats a row."


def is_wish(share: float, n_clusters: int, by_k: Mapping[int, float]) -> bool:
    """Whether k is one that `granularity` asked for, and not what the rule chose.

    Then its share is not how often it came out, but how often its clusters came back.
    """
    return bool(by_k) and share != by_k.get(n_clusters, 0.0)


def often_words(share: float, n_clusters: int, by_k: Mapping[int, float]) -> str:
    """Say how often the answer came again, without capital and full stop."""
    if is_wish(share, n_clusters, by_k):
        what = f"the clusters of k = {n_clusters} all came back in"
    else:
        what = f"k = {n_clusters} came out of"
    return f"{what} {percent(share)} of the resamples"


def confidence_words(
    share: float,
    n_clusters: int,
    meaning: str,
    by_k: Mapping[int, float],
    others: int = OTHERS,
) -> str:
    """Say how often the answer came again, and at most so many other k."""
    wish = is_wish(share, n_clusters, by_k)
    often = often_words(share, n_clusters, by_k)
    text = often.replace("the", "The", 1) if wish else often
    text += f" ({meaning})" if meaning else ""
    came = sorted(
        (-part, k) for k, part in by_k.items() if part > 0 and (wish or k != n_clusters)
    )
    if came and others:
        named = [f"{k} ({percent(-part)})" for part, k in came[:others]]
        more = ", …" if len(came) > others else ""
        also = "left to itself the rule gave k =" if wish else "also"
        text += f"; {also} {', '.join(named)}{more}"
    return f"{text}."


def levels_words(levels: Sequence[int], n_clusters: int) -> str:
    """Name the other k that can be believed, and the options that ask for them."""
    others = [k for k in levels if k != n_clusters]
    if not others:
        return ""
    options = ["coarse"] if min(others) < n_clusters else []
    options += ["fine"] if max(others) > n_clusters else []
    named = ", ".join(str(k) for k in others)
    return f"{ALSO}: k = {named} (granularity {' / '.join(options)})."


def no_part_words(n_rows: int) -> str:
    """Say what becomes of a site that takes no part and has so many rows."""
    if n_rows:
        return "it takes no part, and its rows are labelled by the others' clusters"
    return "it takes no part, and has no row that could be labelled"


def filled_words(gaps: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
    """Say how many cells of every site had no value, and how many of them were filled.

    Examples
    --------
    >>> filled_words({"north": {"age": {"cells": 3, "filled": 2}}, "south": {}})
    '2 of 3 cells without a value were filled (north 2 of 3).'
    >>> filled_words({"north": {"age": {"cells": 1, "filled": 0}}})
    ''
    """
    sites = {
        name: [sum(each[what] for each in own.values()) for what in ("filled", "cells")]
        for name, own in gaps.items()
    }
    filled = sum(some for some, _ in sites.values())
    if not filled:
        return ""
    every = sum(cells for _, cells in sites.values())
    told = [f"{name} {n:,} of {of:,}" for name, (n, of) in sites.items() if of]
    where = ", ".join(told[:OTHERS]) + (", …" if told[OTHERS:] else "")
    are = "cells without a value were" if every > 1 else "cell without a value was"
    return f"{filled:,} of {every:,} {are} filled ({where})."


def set_aside_words(rows: Mapping[str, int]) -> str:
    """Say how many rows of every site had no say because of their gaps.

    Examples
    --------
    >>> set_aside_words({"north": 0, "south": 12, "west": 1})
    '13 rows have gaps that cannot be filled well and had no say; they are labelled by \
the nearest centre (south 12, west 1).'
    >>> set_aside_words({"north": 0})
    ''
    """
    some = [f"{name} {n:,}" for name, n in rows.items() if n]
    total = sum(rows.values())
    if not total:
        return ""
    where = ", ".join(some[:OTHERS]) + (", …" if some[OTHERS:] else "")
    rest = "and had no say; they are" if total > 1 else "and had no say; it is"
    return (
        f"{total:,} {'rows have' if total > 1 else 'row has'} gaps that cannot be "
        f"filled well {rest} labelled by the nearest centre ({where})."
    )
