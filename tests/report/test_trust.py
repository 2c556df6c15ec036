# SPDX-License-Identifier: Apache-2.0
"""How far a result can be believed, in sentences."""

from __future__ import annotations

import pytest

from afcl.report.trust import (
    confidence_words,
    levels_words,
    reliance,
    verdict_words,
)


@pytest.mark.parametrize(
    ("verdict", "gain", "k", "words"),
    [
        (
            "clusters",
            0.412,
            7,
            "Clusters explain the rows better than one cloud does, by 0.41 nats a row.",
        ),
        (
            "clusters",
            None,
            7,
            "Clusters explain the rows better than one cloud does.",
        ),
        (
            "none",
            -0.02,
            1,
            "Nothing parts the rows: they are one cloud as far as the sites' messages "
            "show.",
        ),
        (
            "none",
            None,
            2,
            "Nothing parts the rows: the 2 clusters are pieces of one cloud.",
        ),
        (
            "unclear",
            0.1,
            5,
            "Cannot tell whether there are clusters: what the sites said mixes rows "
            "too much; k = 5 is a guess.",
        ),
        ("of a later version", 0.1, 5, ""),
    ],
)
def test_every_verdict_has_its_sentence(
    verdict: str, gain: float | None, k: int, words: str
):
    assert verdict_words({"verdict": verdict, "gain": gain}, k) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1.0, "can be relied on"),
        (0.9, "can be relied on"),
        (0.89, "likely"),
        (0.7, "likely"),
        (0.69, "uncertain"),
        (0.5, "uncertain"),
        (0.49, "do not rely on it"),
        (0.0, "do not rely on it"),
    ],
)
def test_confidences_have_words(share: float, words: str):
    assert reliance(share) == words


@pytest.mark.parametrize(
    ("by_k", "words"),
    [
        (
            {"6": 0.02, "7": 0.93, "8": 0.05},
            "k = 7 in 93 % of resamples (can be relied on); also 8 (5 %), 6 (2 %).",
        ),
        ({"7": 1.0}, "k = 7 in 100 % of resamples (can be relied on)."),
        (
            {"7": 0.5, "12": 0.25, "6": 0.25},
            "k = 7 in 50 % of resamples (uncertain); also 6 (25 %), 12 (25 %).",
        ),
        (
            {"7": 0.996, "8": 0.004},
            "k = 7 in 100 % of resamples (can be relied on).",
        ),
        (
            {"2": 0.2, "3": 0.2, "4": 0.2, "5": 0.15, "6": 0.15, "7": 0.1},
            "k = 7 in 10 % of resamples (do not rely on it); "
            "also 2 (20 %), 3 (20 %), 4 (20 %), 5 (15 %), ….",
        ),
    ],
)
def test_other_k_come_by_how_often_they_came_out(by_k: dict[str, float], words: str):
    confidence = {"k": by_k["7"], "by_k": by_k, "clusters": [1.0] * 7}
    assert confidence_words(confidence, 7) == words


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([], ""),
        ([7], ""),
        ([3, 7, 12], "Also worth a look: k = 3, 12 (granularity coarse / fine)."),
        ([3, 7], "Also worth a look: k = 3 (granularity coarse)."),
        ([7, 12, 20], "Also worth a look: k = 12, 20 (granularity fine)."),
    ],
)
def test_other_levels_are_named_with_their_option(levels: list[int], words: str):
    assert levels_words(levels, 7) == words


def test_of_an_older_result_there_is_nothing_to_say():
    assert verdict_words(None, 3) == ""
    assert confidence_words(None, 3) == ""
    assert levels_words(None, 3) == ""
