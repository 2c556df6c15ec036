# SPDX-License-Identifier: Apache-2.0
"""One lying site of five, or two of ten, spoil nothing for the others, or are named.

The lies are those of ``benchmarks/lies.py``, which sweeps more seeds, data and splits.
"""

from __future__ import annotations

import numpy as np
import pytest

from afcl.core.cohort_checks import HELLO_GRID
from afcl.privacy.secure import GRID
from afcl.runtime.agreement import MAX_ROWS, AgreementRequest
from afcl.runtime.live.announcement import announce
from afcl.runtime.live.settlement import admit, settle
from afcl.runtime.site import Site
from lies import (
    HONEST_TOO,
    LEVELS,
    MESSAGES,
    ROWS,
    SUMS,
    TOLERANCE,
    UNLIKE,
    federation,
    honestly,
    lied_to,
    run,
    sites_of,
    unlike,
    without,
)

SECURE, SUMMARY, GROUPED = LEVELS
#: Lies that leave the liar as good as away. Rows ten spans away are not among them: an
#: honest site may lie there, see below.
ALWAYS = sorted(set(ROWS) - HONEST_TOO)
#: What is lost where that is more: of grouped rows, one seed in eight splits a cluster.
MORE = {("a tenth far, x 100", GROUPED): 0.1}


def split_for(lie):
    """Return one site of five, or two of ten: in turn, to be quick."""
    return ("random 5", "Dirichlet 10")[(*ROWS, *MESSAGES).index(lie) % 2]


def reference(fed, level, seed):
    """Return what leaving the liars out gives, or having them there and honest."""
    return min(without(fed, level, seed), honestly(fed, level, seed))


@pytest.mark.no_cover
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("lie", ALWAYS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_rows_far_away_spoil_nothing(lie, level, seed):
    fed = federation("separated", split_for(lie), seed)
    told = lied_to(fed, lie, level, seed)
    most = MORE.get((lie, level), TOLERANCE)
    assert reference(fed, level, seed) - told.ari <= most
    assert told.lines


@pytest.mark.parametrize("lie", ["far blob x 10", "far blob x 10, one column"])
def test_a_near_blob_spoils_nothing_at_the_default_level(lie, seed):
    fed = federation("separated", "random 5", seed)
    told = lied_to(fed, lie, SECURE, seed)
    assert reference(fed, SECURE, seed) - told.ari <= TOLERANCE
    assert any("alone stretches column" in line for line in told.lines)


@pytest.mark.parametrize("level", LEVELS)
def test_a_near_blob_is_named_but_may_be_an_honest_site(level, seed):
    """What such a liar sends is what the honest owner of these rows sends, by bytes."""
    fed = federation("separated", "random 5", seed)
    finished = run(sites_of(fed, "far blob x 10", seed), level, seed)
    assert finished.rejected == {}
    (note,) = [event["text"] for event in finished.trace.of("note")]
    assert note.startswith(f"site-{fed.bad[0] + 1} alone stretches columns 1, 2, 3 ")


@pytest.mark.no_cover
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("lie", ["announced 1e300", "declared 1e9 rows"])
def test_announcements_that_are_not_true_spoil_nothing(lie, level, seed):
    fed = federation("separated", split_for(lie), seed)
    told = lied_to(fed, lie, level, seed)
    assert reference(fed, level, seed) - told.ari <= TOLERANCE
    assert told.lines


@pytest.mark.no_cover
@pytest.mark.parametrize("lie", sorted(SUMS & set(MESSAGES)))
def test_sums_that_are_not_true_spoil_nothing(lie, seed):
    fed = federation("separated", split_for(lie), seed)
    told = lied_to(fed, lie, SECURE, seed)
    assert reference(fed, SECURE, seed) - told.ari <= TOLERANCE


@pytest.mark.parametrize("lie", ["moments + 2^22", "all sums + 2^20", "counts + 100"])
def test_sums_that_cannot_be_true_are_told_of(lie, seed):
    fed = federation("separated", "random 5", seed)
    told = lied_to(fed, lie, SECURE, seed)
    assert any("could not be true and was not used" in line for line in told.lines)


@pytest.mark.parametrize(
    ("lie", "level"),
    [
        ("all sums + 1", SECURE),
        ("moments + 2^18", SECURE),
        ("scores + 10", SECURE),
        ("announced 1e300", SUMMARY),
    ],
)
def test_the_likeliest_k_is_believed_without_the_sums_too(lie, level):
    """Silhouettes alone choose 2 here, .4 worse: valleys must not be lost with sums."""
    fed = federation("mixture", "k-means 5", 21)
    told = lied_to(fed, lie, level, 21)
    assert told.k == 3
    assert without(fed, level, 21) - told.ari <= TOLERANCE


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", sorted(UNLIKE))
def test_honest_sites_are_never_refused_however_unlike(kind, seed):
    for turn in range(3):
        tables, level = unlike(kind, 100 * seed + turn)
        finished = run([Site(table) for table in tables], level, turn)
        assert finished.rejected == {}
        assert set(finished.tallies) == set(range(len(tables)))
        assert "could not be true" not in finished.clustering.note


def test_a_huge_site_is_named(seed):
    tables, level = unlike("one huge site", seed)
    finished = run([Site(table) for table in tables], level, seed)
    texts = [event["text"] for event in finished.trace.of("note")]
    assert texts == [
        "site-1 alone holds 99 % of all rows: the answer is mostly its own"
    ]


def test_more_rows_than_allowed_are_refused_by_the_coordinator(seed):
    """At the agreement, and again if the site says hello all the same."""
    rng = np.random.default_rng(seed)
    tables = [rng.random((n, 2)) for n in (30, 30, 30, 80)]

    finished = run([Site(table) for table in tables], SUMMARY, seed, max_rows=50)
    assert set(finished.tallies) == {0, 1, 2}
    (reason,) = {event["reason"] for event in finished.trace.of("rejected")}
    assert reason == (
        "it has 80 rows, a site may have at most 50: allow more with --max-rows if "
        "that is true"
    )


# ------------------------------------------------------------------ live runs


def said(name, rows, n_rows=None):
    made = announce(name, ("x", "y"), rows, {}, True)
    return made if n_rows is None else type(made)(name, n_rows, *_after(made))


def _after(made):
    return (made.columns, made.units, made.low, made.high, made.middle)


def test_the_settlement_of_a_live_run_has_the_same_rule(seed):
    rng = np.random.default_rng(seed)
    others = [said(f"site-{i}", rng.random((50, 2))) for i in range(4)]
    far = said("site-9", rng.random((50, 2)) * [1.0, 300.0])
    agreement, refusals, notes = settle(AgreementRequest(), [*others, far])
    assert refusals == {}
    assert agreement is not None
    assert agreement.box.walls
    assert agreement.box.span.max() <= 1.0
    assert any(
        note.startswith("site-9 alone stretches column 'y' 2")
        and note.endswith("check units, or give --ranges")
        for note in notes
    )


def test_a_site_of_too_many_rows_is_refused_early_and_late(seed):
    rng = np.random.default_rng(seed)
    others = [said(f"site-{i}", rng.random((50, 2))) for i in range(4)]
    liar = said("site-9", rng.random((50, 2)), n_rows=10**9)
    agreement, refusals, _ = settle(AgreementRequest(), [*others, liar])
    line = (
        f"site-9 has 1000000000 rows, a site may have at most {MAX_ROWS}: "
        "allow more with --max-rows if that is true"
    )
    assert refusals == {"site-9": line}
    assert agreement is not None
    assert agreement.n_rows == 200
    assert admit(agreement, AgreementRequest(), liar) == (line, [])


def test_the_grid_of_first_messages_is_one():
    """The core may not import the level that rounds first messages."""
    assert HELLO_GRID == GRID
