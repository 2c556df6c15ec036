# SPDX-License-Identifier: Apache-2.0
"""How far a result can be believed, in sentences; terminal and page say the same.

Every function takes what ``result.json`` has (None or nothing where a method does not
judge itself, or an older version wrote it) and returns a sentence, or "" where there
is nothing to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: What a confidence means, down to which share of the resamples.
RELIANCE = (
    (0.9, "can be relied on"),
    (0.7, "likely"),
    (0.5, "uncertain"),
    (0.0, "do not rely on it"),
)
#: At most so many other k are named.
OTHERS = 4


def verdict_words(structure: Mapping[str, Any] | None, n_clusters: int) -> str:
    """Say whether there are clusters at all."""
    verdict = None if structure is None else structure["verdict"]
    if structure is None or verdict not in ("clusters", "none", "unclear"):
        return ""
    if verdict == "unclear":
        return (
            "Cannot tell whether there are clusters: what the sites said mixes rows "
            f"too much; k = {n_clusters} is a guess."
        )
    if verdict == "none":
        text = "Nothing parts the rows: "
        if n_clusters == 1:
            return f"{text}they are one cloud as far as the sites' messages show."
        return f"{text}the {n_clusters} clusters are pieces of one cloud."
    text = "Clusters explain the rows better than one cloud does"
    gain = structure.get("gain")
    return f"{text}." if gain is None else f"{text}, by {gain:.2f} nats a row."


def reliance(share: float) -> str:
    """Say in a few words what a confidence means."""
    return next(word for least, word in RELIANCE if share >= least)


def confidence_words(confidence: Mapping[str, Any] | None, n_clusters: int) -> str:
    """Say how often the answer's k, and which others, came out of resamples."""
    if confidence is None:
        return ""
    share = confidence["k"]
    text = f"k = {n_clusters} in {_percent(share)} of resamples ({reliance(share)})"
    others = sorted(
        (-other, int(k))
        for k, other in confidence["by_k"].items()
        if int(k) != n_clusters and round(100 * other) > 0
    )
    if others:
        named = [f"{k} ({_percent(-other)})" for other, k in others[:OTHERS]]
        more = ", …" if len(others) > OTHERS else ""
        text += f"; also {', '.join(named)}{more}"
    return f"{text}."


def levels_words(levels: Sequence[int] | None, n_clusters: int) -> str:
    """Name the other k that can be believed, and the options that ask for them."""
    others = [k for k in levels or () if k != n_clusters]
    if not others:
        return ""
    options = ["coarse"] if min(others) < n_clusters else []
    options += ["fine"] if max(others) > n_clusters else []
    named = ", ".join(str(k) for k in others)
    return f"Also worth a look: k = {named} (granularity {' / '.join(options)})."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
