# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl.core.protocol import Clustering, PathLevel, Trust
from afcl.core.terms import AskHello, AskRanges, AskStep
from afcl.methods import get_method
from afcl.methods.afcl import Afcl
from afcl.runtime import simulate as simulator
from afcl.runtime.codec import decode
from afcl.runtime.journal import Journal
from afcl.runtime.schedule import EventClock, Replay, Rounds, Schedule
from afcl.runtime.simulate import label_all, simulate
from afcl.runtime.site import Site
from afcl.runtime.spec import Spec
from afcl.trace import Trace, check, read_trace

SPOTS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [9.0, 9.0]])
AFCL = get_method("afcl")


def blobs(seed=0, n_clients=5, sizes=(12, 10, 8)):
    """Three spots of different sizes, everybody sees all of them."""
    rng = np.random.default_rng(seed)
    return [
        np.concatenate(
            [
                rng.normal(spot, 0.4, (size, 2))
                for spot, size in zip(SPOTS, sizes, strict=False)
            ]
        )
        for _ in range(n_clients)
    ]


SCHEDULES = {
    "everybody": Schedule(),
    "random": Rounds(probability="random"),
    "delays": Rounds(probability=0.6, delay=4),
    "clock": EventClock(loss=0.3),
    "late": Schedule(late={1: 2, 4: 5}),
    "leaves": Rounds(probability=0.7, delay=2, leaves={0: 2, 3: 4}),
    "silent": EventClock(silent={2}, answers={3: 1}, late={0: 3}, leaves={1: 2}),
    "never": Rounds(probability=0.5, late={2: 80}, leaves={3: 0}),
}
kinds = pytest.mark.parametrize("kind", sorted(SCHEDULES))


def same(a, b):
    """Whether two outcomes agree to the bit."""
    return (
        np.array_equal(a.clustering.centers, b.clustering.centers)
        and np.array_equal(a.clustering.sizes, b.clustering.sizes)
        and np.array_equal(a.rank, b.rank)
        and a.clustering.scores == b.clustering.scores
        and [level.k for level in a.clustering.path]
        == [level.k for level in b.clustering.path]
        and all(map(np.array_equal, a.labels, b.labels))
    )


def without_rounds(trace):
    return [{k: v for k, v in e.items() if k != "round"} for e in trace]


# ------------------------------------------------------------------ the same bits


@kinds
def test_the_same_seed_gives_the_same_bits(kind):
    spec = Spec(AFCL, seed=3, max_rounds=30)
    first = simulate(spec, blobs(), SCHEDULES[kind])
    again = simulate(spec, blobs(), SCHEDULES[kind])

    assert same(first, again)
    assert first.finished.trace.events == again.finished.trace.events
    assert check(first.finished.trace)


@pytest.mark.no_cover
@kinds
@pytest.mark.parametrize("max_rounds", [3, 30])
def test_a_recorded_trace_replays_to_the_same_bits(kind, max_rounds, tmp_path):
    spec = Spec(AFCL, seed=3, max_rounds=max_rounds)
    first = simulate(spec, blobs(), SCHEDULES[kind])
    first.finished.trace.write(tmp_path / "trace.jsonl")

    replay = Replay.of(read_trace(tmp_path / "trace.jsonl"))
    again = simulate(replace(spec, max_rounds=10**6), blobs(), replay)

    assert same(first, again)
    assert without_rounds(again.finished.trace) == without_rounds(first.finished.trace)


@pytest.mark.parametrize("name", ["afcl-paper", "afcl-matlab"])
@pytest.mark.parametrize("kind", ["random", "delays", "clock", "leaves"])
def test_the_other_presets_replay_too(name, kind):
    spec = Spec(get_method(name), {"n_seeds": 4}, seed=3, max_rounds=8)
    first = simulate(spec, blobs(), SCHEDULES[kind])
    again = simulate(spec, blobs(), Replay.of(first.finished.trace))

    assert same(first, again)
    assert without_rounds(again.finished.trace) == without_rounds(first.finished.trace)


@pytest.mark.parametrize("name", ["afcl-paper", "afcl-matlab"])
def test_only_the_published_code_plays_rounds_to_which_nobody_came(name):
    # Each client comes in about one round of ten: most rounds have nobody.
    spec = Spec(get_method(name), {"n_seeds": 4}, seed=3, max_rounds=30)
    finished = simulate(spec, blobs(), Rounds(probability=0.1)).finished
    came = {event["tick"] for event in finished.trace.of("update")}
    played = {event["tick"] for event in finished.trace.of("prepare")} - {0}
    rounds = set(range(1, finished.rounds + 1))
    assert came < rounds
    assert played == (rounds if name == "afcl-matlab" else came)


def test_another_seed_draws_otherwise():
    traces = [
        simulate(Spec(AFCL, seed=seed), blobs(), Rounds(probability=0.5)).finished.trace
        for seed in (0, 1)
    ]

    assert traces[0].events != traces[1].events


# ------------------------------------------------------------------ interruptions


class Interrupted(Exception):
    """Stands for a crash."""


class Faulty(Journal):
    """Keeps so many new records and then breaks."""

    def __init__(self, path, fingerprint, records):
        super().__init__(path, fingerprint)
        self._left = records

    def record(self, entry, sync=True):
        if self._left == 0:
            raise Interrupted
        self._left -= 1
        super().record(entry, sync)


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", ["everybody", "silent"])
def test_a_run_interrupted_anywhere_ends_in_the_same_bits(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda number: None)  # to be quick
    spec = Spec(AFCL, seed=3, max_rounds=30)
    asked = []
    answer = Site.answer

    def noting(site, request):
        said = decode(request)
        if not isinstance(said, AskRanges):
            contact = said.contact if isinstance(said, AskStep) else 0
            assert contact or isinstance(said, AskHello)
            asked.append((said.terms.client, contact))
        return answer(site, request)

    monkeypatch.setattr(Site, "answer", noting)
    whole = simulate(spec, blobs(), SCHEDULES[kind])
    once = sorted(asked)
    total = whole.finished.trace.events[-1]["messages"]
    assert total >= 10

    for records in range(total):
        path = tmp_path / f"{records}.bin"
        with Faulty(path, "run", records) as journal, pytest.raises(Interrupted):
            simulate(spec, blobs(), SCHEDULES[kind], journal=journal)
        # what the crash was about to write may be there in part
        path.write_bytes(path.read_bytes() + b"\x07\x00\x00")
        with Journal(path, "run") as journal:
            kept = set(journal.entries)
            assert len(kept) == records
            asked.clear()
            again = simulate(spec, blobs(), SCHEDULES[kind], journal=journal)
            assert len(journal.entries) == total

        assert sorted(asked) == [key for key in once if key not in kept]
        assert same(again, whole)
        assert again.finished.trace.events == whole.finished.trace.events


# ------------------------------------------------------------------ joining late


@pytest.mark.parametrize("joins", [1, 4])
@pytest.mark.parametrize("clock", [Schedule, EventClock])
def test_a_late_joiner_brings_its_cluster_at_once(joins, clock):
    rng = np.random.default_rng(0)
    tables = [*blobs(n_clients=4), rng.normal(SPOTS[3], 0.4, (30, 2))]

    outcome = simulate(Spec(AFCL), tables, clock(late={4: joins}))

    trace = outcome.finished.trace
    (joined,) = (e["tick"] for e in trace.of("hello") if e["client"] == 4)
    ks = {event["tick"]: event["k"] for event in trace.of("prepare")}
    before = [k for tick, k in ks.items() if tick < joined]
    assert before[-1] == 3
    assert ks[joined] == 4
    assert outcome.clustering.k == 4
    assert len(set(outcome.labels[4].tolist())) == 1


def test_who_never_joined_is_labelled_all_the_same():
    outcome = simulate(Spec(AFCL, max_rounds=4), blobs(), Schedule(late={4: 50}))

    assert [labels.shape[0] for labels in outcome.labels] == [30] * 5
    assert outcome.clustering.sizes.tolist() == [60, 50, 40]
    assert 4 not in outcome.finished.tallies


def test_silence_after_hello_still_gives_the_answer():
    outcome = simulate(Spec(AFCL, max_rounds=5), blobs(), Schedule(silent=range(1, 5)))

    assert outcome.clustering.k == 3


# ------------------------------------------------------------------ numbers and labels


def test_clusters_are_numbered_by_the_rows_they_hold():
    tables = blobs()
    outcome = simulate(Spec(AFCL), tables)
    clustering, box = outcome.clustering, outcome.finished.terms.box
    labels, rows = np.concatenate(outcome.labels), np.concatenate(tables)

    assert clustering.sizes.tolist() == [60, 50, 40]
    assert np.bincount(labels).tolist() == [60, 50, 40]
    assert clustering.centers is not None
    centers = box.unscale(clustering.centers)
    assert np.allclose(centers, SPOTS[:3], atol=0.3)
    for k in range(3):
        assert np.allclose(centers[k], rows[labels == k].mean(axis=0), atol=0.05)
    assert all(labels.dtype == np.int32 for labels in outcome.labels)


def test_the_chosen_level_of_the_path_is_the_answer():
    clustering = simulate(Spec(AFCL), blobs()).clustering
    ks = [level.k for level in clustering.path]

    assert ks == sorted(set(ks))
    level = clustering.path[ks.index(3)]
    assert clustering.centers is not None
    assert np.array_equal(level.centers, clustering.centers)
    assert np.array_equal(level.sizes, clustering.sizes)
    assert level.scores == clustering.scores


def test_without_a_schedule_everybody_takes_part():
    spec = Spec(AFCL)

    assert same(simulate(spec, blobs()), simulate(spec, blobs(), Schedule()))


def test_trace_and_clock_are_passed_on():
    trace = Trace()
    outcome = simulate(Spec(AFCL), blobs(), trace=trace, clock=lambda: 7.0)

    assert outcome.finished.trace is trace
    assert {event["at"] for event in trace} == {7.0}


class Signs(Afcl):
    """Labels rows by the sign of their first column."""

    def label(self, clustering, X, memory, client):
        return (X[:, 0] > 0).astype(np.int64)


def finished_with(centers):
    """A finished run with an answer made up by hand: two clusters, server's order."""
    finished = simulate(Spec(AFCL, scale=None), blobs(n_clients=2)).finished
    other = PathLevel(1, np.zeros((1, 2)), np.array([9.0]), {})
    path = [other]
    if centers is not None:
        path.append(PathLevel(2, centers, np.array([5.0, 4.0]), {"a": 1.0}))
    made_up = Clustering(centers, np.array([5.0, 4.0]), {"a": 1.0}, tuple(path))
    return replace(finished, clustering=made_up)


@pytest.mark.parametrize("centers", [np.array([[-1.0, 0.0], [1.0, 0.0]]), None])
def test_numbers_follow_the_real_sizes(centers):
    tables = [np.array([[-1.0, 0.0], [2.0, 0.0]]), np.array([[3.0, 0.0]])]

    outcome = label_all(
        Spec(Signs()), finished_with(centers), [Site(t) for t in tables]
    )

    # one row left of 0, two right of it: cluster 1 of the server becomes 0
    assert outcome.rank.tolist() == [1, 0]
    assert [labels.tolist() for labels in outcome.labels] == [[1, 0], [0]]
    assert outcome.clustering.sizes.tolist() == [2.0, 1.0]
    assert outcome.clustering.path[0].sizes.tolist() == [9.0]
    if centers is None:
        assert outcome.clustering.centers is None
    else:
        assert outcome.clustering.centers is not None
        assert outcome.clustering.centers.tolist() == [[1.0, 0.0], [-1.0, 0.0]]
        assert outcome.clustering.path[1].sizes.tolist() == [2.0, 1.0]
        assert outcome.clustering.path[1].centers.tolist() == [[1.0, 0.0], [-1.0, 0.0]]


def test_equal_sizes_keep_the_servers_order():
    tables = [np.array([[-1.0, 0.0], [2.0, 0.0]])]
    centers = np.array([[-1.0, 0.0], [1.0, 0.0]])

    outcome = label_all(Spec(Signs()), finished_with(centers), [Site(tables[0])])

    assert outcome.rank.tolist() == [0, 1]


def test_stabilities_follow_their_clusters():
    trust = Trust("clusters", 0.5, 0.9, stabilities=(0.25, 0.75))
    finished = finished_with(np.array([[-1.0, 0.0], [1.0, 0.0]]))
    told = replace(finished.clustering, trust=trust)
    rows = np.array([[-1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])

    outcome = label_all(Spec(Signs()), replace(finished, clustering=told), [Site(rows)])

    assert outcome.clustering.trust == replace(trust, stabilities=(0.75, 0.25))


def test_labels_are_counted_and_renamed_part_by_part(monkeypatch):
    whole = simulate(Spec(AFCL), blobs())
    monkeypatch.setattr(simulator, "rows_in_a_part", lambda d: 7)
    parts = simulate(Spec(AFCL), blobs())
    assert np.array_equal(parts.joined_labels, whole.joined_labels)
    assert parts.clustering.sizes.tolist() == whole.clustering.sizes.tolist()
