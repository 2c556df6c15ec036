# SPDX-License-Identifier: Apache-2.0
"""How far an answer can be believed: a fitted model's attributes, and the warning."""

from __future__ import annotations

from typing import Any

import numpy as np

from afcl.core.protocol import Clustering, Trust
from afcl.exceptions import TrustWarning
from afcl.reliance import (
    DOUBTFUL,
    NO_CLUSTERS,
    UNCLEAR,
    is_path_end,
    is_wish,
    often_words,
    percent,
    reaches,
)


def attributes(trust: Trust | None) -> dict[str, Any]:
    """Return what a fitted model says of it; None or empty where nothing is known."""
    stabilities = () if trust is None else trust.stabilities
    levels = () if trust is None else trust.levels
    structure = None
    if trust is not None:
        structure = {"verdict": trust.verdict, "gain": trust.gain}
    return {
        "k_confidence_": None if trust is None else trust.confidence,
        "k_confidences_": {} if trust is None else dict(trust.shares),
        "cluster_stability_": np.array(stabilities, dtype=np.float64),
        "structure_": structure,
        "levels_": np.array(levels, dtype=np.int64),
    }


def doubts(clustering: Clustering) -> list[Warning]:
    """Return the warning that an answer deserves, the gravest one, if it does.

    A single cluster is no surprise where there was nothing to part: equal rows, or a
    largest k of one.
    """
    trust, k = clustering.trust, clustering.k
    if trust is None or trust.gain is None:
        return []
    if trust.verdict == NO_CLUSTERS:
        return [TrustWarning(_nothing(k))]
    if trust.verdict == UNCLEAR:
        return [TrustWarning(_unclear(k))]
    if not reaches(trust.confidence, DOUBTFUL):
        return [TrustWarning(_unsure(k, trust))]
    return []


def ended(clustering: Clustering) -> list[Warning]:
    """Return a warning if the answer is the largest k although nobody asked for that.

    Resamples stop there too, so that their agreeing says nothing.
    """
    k = clustering.k
    if not is_path_end(clustering.note, k):
        return []
    return [
        TrustWarning(
            f"k = {k} is the largest number of clusters that was looked at: there may "
            f"be more, max_clusters={2 * k} looks further"
        )
    ]


def _nothing(k: int) -> str:
    text = "no clusters found: nothing parts the rows"
    if k > 1:
        return f"{text}, the {k} clusters are pieces of one cloud; see structure_"
    return (
        f"{text}; path_ has other k all the same, cut(k) their labels, and "
        "allow_one=False asks for two clusters at least"
    )


def _unclear(k: int) -> str:
    return (
        f"cannot tell whether there are clusters, k = {k} is a guess: what the clients "
        "said is too coarse or too noisy; look at path_ and at other k with cut(k)"
    )


def _unsure(k: int, trust: Trust) -> str:
    by_k = dict(trust.shares)
    text = f"{often_words(trust.confidence, k, by_k)} only"
    others = [(share, -other) for other, share in by_k.items() if other != k]
    if others and not is_wish(trust.confidence, k, by_k):
        share, other = max(others)
        text += f", k = {-other} of {percent(share)}"
    return f"{text}: look at path_ and at other k with cut(k) before you rely on it"
