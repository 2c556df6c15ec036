# SPDX-License-Identifier: Apache-2.0
"""How far a result can be believed: thresholds and sentences."""

from __future__ import annotations

import pytest

from afcl.data import suspicion
from afcl.data.suspicion import FEW_VALUES, IDS, TWO_VALUES
from afcl.reliance import (
    LOOK_FIRST,
    ONE_COLUMN,
    SPOILING,
    confidence_words,
    flaw_of,
    levels_words,
    path_end_words,
    percent,
    reaches,
    reliance,
    reliance_of,
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
            "Cannot tell whether there are clusters: what the sites said is too coarse "
            "or too noisy; k = 5 is a guess.",
        ),
        ("of a later version", 0.1, 5, ""),
        ("", None, 5, ""),
    ],
)
def test_every_verdict_has_its_sentence(
    verdict: str, gain: float | None, k: int, words: str
):
    assert verdict_words(verdict, gain, k) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1.0, "can be relied on"),
        (0.9, "can be relied on"),
        (0.89, "likely"),
        (0.7, "likely"),
        (0.696, "likely"),
        (0.69, "uncertain"),
        (0.5, "uncertain"),
        (0.49, "do not rely on it"),
        (0.0, "do not rely on it"),
    ],
)
def test_confidences_have_words(share: float, words: str):
    assert reliance(share) == words


@pytest.mark.parametrize("least", [0.5, 0.7, 0.8, 0.9])
def test_a_share_is_compared_as_it_is_shown(least: float):
    for thousandths in range(6, 995):
        share = thousandths / 1000
        shown = int(percent(share).removesuffix("%"))
        assert reaches(share, least) == (shown >= 100 * least), share


def test_only_nothing_is_nothing_and_only_all_is_all():
    shares = (0.0, 1e-9, 0.005, 0.0051, 0.9949, 0.995, 1 - 1e-9, 1.0)
    shown = ["0%", "<1%", "<1%", "1%", "99%", ">99%", ">99%", "100%"]
    assert [percent(share) for share in shares] == shown


@pytest.mark.parametrize(
    ("verdict", "k", "words"),
    [
        ("clusters", 3, "can be relied on"),
        ("", 3, "can be relied on"),
        ("none", 1, "can be relied on"),
        ("none", 3, ""),
        ("unclear", 3, ""),
    ],
)
def test_nobody_relies_on_clusters_that_no_test_sees(verdict: str, k: int, words: str):
    assert reliance_of(verdict, 0.95, k) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1.0, "there may be more"),
        (0.7, "there may be more"),
        (0.69, "uncertain"),
        (0.49, "do not rely on it"),
    ],
)
def test_nobody_relies_on_the_largest_k_that_was_allowed(share: float, words: str):
    note = f"{path_end_words(18)} A sum could not be true."
    assert reliance_of("clusters", share, 18, note) == words
    assert reliance_of("unclear", share, 18, note) == ""
    assert reliance_of("clusters", 1.0, 18, "Else.") == "can be relied on"


@pytest.mark.parametrize("flaw", [ONE_COLUMN, LOOK_FIRST])
@pytest.mark.parametrize(
    ("share", "words"),
    [(1.0, ""), (0.7, ""), (0.69, "uncertain"), (0.49, "do not rely on it")],
)
def test_nobody_relies_on_clusters_of_data_with_a_flaw(flaw, share, words):
    note = path_end_words(10)
    assert reliance_of("clusters", share, 10, note, flaw) == (words or flaw)
    assert reliance_of("unclear", share, 10, flaw=flaw) == ""


def test_which_findings_are_flaws():
    """Of several the one that explains the clusters."""
    ids, splits = {"kind": IDS}, {"kind": "splits the clusters"}
    assert flaw_of([ids, splits]) == ONE_COLUMN
    assert flaw_of([{"kind": FEW_VALUES}, ids]) == LOOK_FIRST
    assert flaw_of([{"kind": FEW_VALUES}, {"kind": TWO_VALUES}]) == ""
    assert flaw_of([], ["south has no row", "far off: it has no say there"])
    assert flaw_of([], ["south has no row"]) == flaw_of([]) == ""


def test_flaws_are_findings_that_there_are():
    kinds = {value for name, value in vars(suspicion).items() if name.isupper()}
    assert kinds > SPOILING


@pytest.mark.parametrize(
    ("by_k", "words"),
    [
        (
            {6: 0.02, 7: 0.93, 8: 0.05},
            "93% of the resamples (can be relied on); also 8 (5%), 6 (2%).",
        ),
        ({7: 1.0, 8: 0.0}, "100% of the resamples (can be relied on)."),
        (
            {7: 0.5, 12: 0.25, 6: 0.25},
            "50% of the resamples (uncertain); also 6 (25%), 12 (25%).",
        ),
        (
            {7: 0.996, 8: 0.004},
            ">99% of the resamples (can be relied on); also 8 (<1%).",
        ),
        (
            {2: 0.2, 3: 0.2, 4: 0.2, 5: 0.15, 6: 0.15, 7: 0.1},
            "10% of the resamples (do not rely on it); "
            "also 2 (20%), 3 (20%), 4 (20%), 5 (15%), ….",
        ),
    ],
)
def test_other_k_come_by_how_often_they_came_out(by_k: dict[int, float], words: str):
    said = confidence_words(by_k[7], 7, reliance(by_k[7]), by_k)
    assert said == f"k = 7 came out of {words}"


def test_without_a_meaning_there_are_no_brackets():
    said = "k = 3 came out of 60% of the resamples"
    assert confidence_words(0.6, 3, "", {}) == f"{said}."
    by_k = {3: 0.6, 4: 0.4}
    assert confidence_words(0.6, 3, "likely", by_k, others=0) == f"{said} (likely)."


def test_a_wish_is_not_said_to_have_come_out():
    by_k = {2: 0.05, 6: 0.95}
    said = "The clusters of k = 2 all came back in 100% of the resamples"
    assert confidence_words(1.0, 2, "likely", by_k, others=0) == f"{said} (likely)."
    also = "; left to itself the rule gave k = 6 (95%), 2 (5%)."
    assert confidence_words(1.0, 2, "", by_k) == said + also


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
