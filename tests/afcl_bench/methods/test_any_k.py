# SPDX-License-Identifier: Apache-2.0
"""any-k: scores by hand, the inner method unchanged, evaluation, absence, refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import afcl.methods
from afcl import Rounds, Schedule, make_method
from afcl.core.messages import Hello, Left, Update, payload
from afcl.core.protocol import Clustering, Scores, client_rng
from afcl.data.synthetic import make_sd1
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods import get_method
from afcl.methods.rival import KnownK, Nothing, Rival, expect, simple_clustering
from afcl.metrics import adjusted_rand, davies_bouldin, simplified_silhouette
from afcl.runtime.codec import decode, encode
from afcl.runtime.coordinator import Spec
from afcl.runtime.simulate import simulate
from afcl.testing import check_method
from afcl_bench.methods.any_k import AnyK, any_k
from afcl_bench.methods.any_k_state import (
    Trial,
    Verdict,
    concluded,
    counted,
    means_of,
    scores_of,
)
from afcl_bench.methods.sweep import (
    SweepCensus,
    SweepHello,
    SweepMemory,
    SweepReply,
    SweepScore,
    SweepTally,
    SweepTrial,
    SweepView,
    answer_question,
    score,
    tally,
)

# ------------------------------------------------------------------ a tiny inner method


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeParams(KnownK):
    """`centers`: whether the answer has centres; `rounds` it takes."""

    centers: bool = True
    rounds: int = 1


@payload
@dataclass(frozen=True, slots=True)
class StripeAnswer:
    """One number: how far a client's rows reach, or how wide they are."""

    reach: float


class Stripes(Rival):
    """Cuts [0, 1] of the first column into k stripes; finished after some rounds."""

    name = "stripes"
    Params = StripeParams

    def first(self, X: Any, params: Any, rng: Any) -> StripeAnswer:
        return StripeAnswer(float(X.shape[1]))

    def check_hello(self, state: Any, said: Any, n_rows: int) -> int:
        expect(isinstance(said, StripeAnswer), "a number of features")
        return int(said.reach)

    def start(self, state: Any) -> int:
        return 0

    def message(self, state: Any) -> Nothing:
        return Nothing()

    def step(self, broadcast, X, memory, params, rng):
        return StripeAnswer(float(X[:, 0].max())), StripeAnswer(float(params.k))

    def check_update(self, state: Any, said: Any, n_rows: int) -> None:
        expect(isinstance(said, StripeAnswer), "a reach")

    def combine(self, state: Any) -> tuple[int, bool]:
        return state.model + 1, state.model + 1 >= state.params.rounds

    def cluster(self, state: Any) -> Clustering:
        k = state.params.k
        if not state.params.centers:
            return Clustering(None, np.zeros(k), {}, extra={"stripes": k})
        centers = np.full((k, state.n_features), 0.5)
        centers[:, 0] = (np.arange(k) + 0.5) / k
        return simple_clustering(centers)

    def label(self, clustering, X, memory, client):
        if clustering.centers is not None:
            return super().label(clustering, X, memory, client)
        k = clustering.extra["stripes"]
        assert memory is None or memory.reach == k  # its own k's memory
        return np.clip((X[:, 0] * k).astype(np.int64), 0, k - 1)


@pytest.fixture
def stripes(monkeypatch):
    place = f"{__name__}:Stripes"
    monkeypatch.setitem(afcl.methods._REGISTRY, "stripes", place)


def wrapped(inner: Any) -> Any:
    return AnyK(inner)


def columns(k, n=60, clients=3, seed=0):
    """k narrow bunches in the middle of k stripes, dealt out to the clients."""
    rng = np.random.default_rng(seed)
    x = (np.arange(n) % k + 0.5) / k + rng.uniform(-0.05, 0.05, n) / k
    X = np.column_stack([x, rng.uniform(0.45, 0.55, n)])
    order = rng.permutation(n)
    return [X[order[g::clients]] for g in range(clients)]


def run(options, tables, schedule=None, max_rounds=40):
    spec = Spec(get_method("any-k:stripes"), options, 0, None, max_rounds)
    return simulate(spec, tables, schedule)


# ------------------------------------------------------------------ scores by hand


def test_tally_of_three_rows():
    X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 4.0]])
    said = tally(X, np.array([1, 1, 0]), 3)
    assert said.counts.tolist() == [1, 2, 0]
    assert said.sums.tolist() == [[4.0, 4.0], [2.0, 4.0], [0.0, 0.0]]
    means, held = means_of([said, said])
    assert means.tolist() == [[4.0, 4.0], [1.0, 2.0]]
    assert held.tolist() == [0, 1]


def test_score_of_three_rows_on_a_line():
    # Centres 0 and 4. Rows 1, 3 and 4 are 1, 1 and 0 away from the nearest, 3, 3 and 4
    # from the other: silhouettes 2/3, 2/3 and 1.
    X, centers = np.array([[1.0], [3.0], [4.0]]), np.array([[0.0], [4.0]])
    said = score(X, centers, None, None)
    assert said.counts.tolist() == [1, 2]
    assert said.distances.tolist() == [1.0, 1.0]
    assert said.silhouette == pytest.approx(2 / 3 + 2 / 3 + 1)


def test_score_by_labels_where_they_are_known():
    # Centres are the means of clusters 2 and 5. Row 3 belongs to 2 although 5 is
    # nearer: 3 away from its own, 1 from the other, silhouette -2/3. A row whose
    # cluster has no mean (7) goes to the nearest.
    X, centers = np.array([[1.0], [3.0], [4.0]]), np.array([[0.0], [4.0]])
    said = score(X, centers, np.array([2, 5]), np.array([2, 2, 7]))
    assert said.counts.tolist() == [2, 1]
    assert said.distances.tolist() == [4.0, 0.0]
    assert said.silhouette == pytest.approx(2 / 3 - 2 / 3 + 1)


def test_federated_scores_are_the_pooled_ones(seed):
    rng = np.random.default_rng(seed)
    X, centers = rng.random((30, 3)), rng.random((4, 3))
    parts = [score(X[g::3], centers, None, None) for g in range(3)]
    labels = ((X[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
    found = scores_of(parts, centers)
    assert found["simplified"] == pytest.approx(
        simplified_silhouette(X, labels, centers)
    )
    assert found["db"] == pytest.approx(davies_bouldin(X, labels, centers))


def test_one_cluster_has_no_index():
    X = np.array([[0.0], [1.0]])
    found = scores_of([score(X, X[:1], None, None)], X[:1])
    assert found == {"simplified": -1.0, "db": None}


# ------------------------------------------------------------------ whole runs


@pytest.mark.parametrize("index", ["simplified", "db"])
@pytest.mark.parametrize("centers", [True, False])
@pytest.mark.usefixtures("stripes")
def test_the_right_number_of_stripes(index, centers, seed):
    options = {"index": index, "max_clusters": 6, "centers": centers}
    outcome = run(options, columns(4, seed=seed))
    assert outcome.clustering.k == 4
    assert outcome.clustering.sizes.tolist() == [15.0] * 4
    # one round of the inner method, then scores (before that, the census)
    assert outcome.finished.rounds == (2 if centers else 3)
    scores = outcome.clustering.scores
    assert scores["simplified"] > 0.8
    assert scores["db"] < 0.3
    if centers:
        assert [level.k for level in outcome.clustering.path] == [2, 3, 4, 5, 6]
        best = {level.k: level.scores[index] for level in outcome.clustering.path}
        choose = max if index == "simplified" else min
        assert choose(best, key=best.__getitem__) == 4
    else:
        assert outcome.clustering.centers is None
        assert outcome.clustering.path == ()


@pytest.mark.usefixtures("stripes")
def test_scores_are_those_of_the_pooled_rows():
    tables = columns(3)
    outcome = run({"max_clusters": 4}, tables)
    rows, answer = np.concatenate(tables), outcome.finished.clustering
    labels = get_method("stripes").label(answer, rows, None, None)
    expected = simplified_silhouette(rows, labels, answer.centers)
    assert outcome.clustering.scores["simplified"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dk++", {}),
        ("k-fed", {}),
        ("ffcm-avg2", {"init": "k-means++", "local_steps": 10}),
        ("fcm-exact", {"init": "k-means++"}),
    ],
)
def test_four_clusters_of_sd1(name, options, seed):
    X, y = make_sd1(seed)
    X, y = X[:300], y[:300]
    owner = (y - np.arange(300) % 2) % 4  # every client sees two of the clusters
    model = make_method(
        f"any-k:{name}", max_clusters=6, random_state=seed, **options
    ).fit(X, clients=owner)
    assert adjusted_rand(y, model.labels_) > 0.95
    # fuzzy c-means may end with two centres in one cluster and miss a small one
    assert model.n_clusters_ in ((3, 4) if name == "fcm-exact" else (4,))
    assert {2, 3, 4} <= set(model.path_.k.tolist())
    assert set(model.path_.scores) == {"simplified", "db"}
    assert len(set(model.cut(3))) == 3
    assert model.predict(X[:50]).max() < model.n_clusters_


@pytest.mark.parametrize("name", ["dk++", "k-fed", "fed-sc", "fedsc"])
def test_one_k_alone_is_the_inner_method_bit_for_bit(name, seed):
    rng = np.random.default_rng(seed)
    spots = np.array([[0.0, 0.1], [0.2, 1.0], [1.0, 0.5]])
    tables = [rng.normal(spots, 0.05, (10, 3, 2)).reshape(-1, 2) for _ in range(3)]
    alone = make_method(name, n_clusters=3, random_state=seed).fit_clients(tables)
    options = {"min_clusters": 3, "max_clusters": 3, "random_state": seed}
    wrapped = make_method(f"any-k:{name}", **options).fit_clients(tables)
    np.testing.assert_array_equal(wrapped.labels_, alone.labels_)
    if alone.cluster_centers_ is not None:
        np.testing.assert_array_equal(wrapped.cluster_centers_, alone.cluster_centers_)


@pytest.mark.parametrize(("name", "options"), [("k-fed", {}), ("fedsc", {"rounds": 2})])
def test_checks(name, options, seed):
    check_method(f"any-k:{name}", seed, max_clusters=3, **options)


@pytest.mark.usefixtures("stripes")
@pytest.mark.parametrize(("rounds", "centers"), [(1, True), (3, False), (99, True)])
def test_checks_on_stripes(rounds, centers, seed):
    options = {"rounds": rounds, "centers": centers, "sweep_rounds": 15}
    check_method("any-k:stripes", seed, max_clusters=3, **options)


def test_a_model_is_kept_and_read(tmp_path):
    X = np.vstack(columns(3))
    options = {"max_clusters": 4, "random_state": 0}
    model = make_method("any-k:k-fed", **options).fit(X, clients=np.arange(60) % 3)
    model.save(tmp_path)
    again = type(model).load(tmp_path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


# ------------------------------------------------------------------ absence


@pytest.mark.usefixtures("stripes")
def test_silent_clients_do_not_block_the_evaluation():
    silent = Schedule(silent=(0,))
    outcome = run({"max_clusters": 6}, columns(4), silent, max_rounds=8)
    assert outcome.clustering.k == 4
    assert outcome.finished.rounds == 8  # waits, but has its answer


@pytest.mark.usefixtures("stripes")
def test_a_census_ends_without_the_silent():
    options = {"max_clusters": 6, "centers": False, "sweep_rounds": 8}
    silent = Schedule(silent=(0,))
    outcome = run(options, columns(4), silent, max_rounds=12)
    assert outcome.clustering.k == 4  # opened after round 1, ended 8 / 2 rounds later
    short = run(options, columns(4), silent, max_rounds=4)
    assert short.clustering.scores == {"simplified": None, "db": None}
    assert short.clustering.k == 2


@pytest.mark.usefixtures("stripes")
def test_what_never_ends_is_judged_as_it_is():
    options = {"max_clusters": 6, "rounds": 1000, "sweep_rounds": 5}
    outcome = run(options, columns(4), max_rounds=6)
    assert outcome.clustering.k == 4
    assert run(options, columns(4), max_rounds=5).clustering.k == 2
    state = run(options, columns(4), max_rounds=17).finished.state
    assert state.trials == 3  # opened in rounds 5, 10 and 15
    assert state.verdict.number == 2
    assert not state.trial.final


@pytest.mark.usefixtures("stripes")
def test_nobody_answers():
    outcome = run({}, columns(4), Rounds(probability=0.0), max_rounds=3)
    assert outcome.clustering.k == 2
    assert outcome.clustering.scores == {"simplified": None, "db": None}


@pytest.mark.usefixtures("stripes")
def test_a_late_joiner_is_judged_too():
    outcome = run({"max_clusters": 6}, columns(4), Schedule(late={1: 5}))
    assert outcome.clustering.k == 4
    state = outcome.finished.state
    assert set(state.trial.scores) == {0, 1, 2}
    assert state.trials == 2
    assert state.verdict.judges == 3


@pytest.mark.usefixtures("stripes")
def test_everybody_leaves():
    options = {"centers": False, "max_clusters": 3}
    outcome = run(options, columns(2), Schedule(leaves=dict.fromkeys(range(3), 2)))
    assert outcome.finished.rounds < 10
    assert outcome.clustering.k == 2


# ------------------------------------------------------------------ step by step


def started(method: Any, clients: int = 2, **options: Any) -> Any:
    tables = columns(3, clients=clients)
    params = method.settle(method.parameters(max_clusters=3, **options), 60)
    hellos = [
        replace(method.hello(X, params, client_rng(0, g, 0)), client=g)
        for g, X in enumerate(tables)
    ]
    return method.prepare(method.init(hellos, params, 0)), tables


def answer(
    method: Any, state: Any, tables: Any, client: int, memory: Any = None
) -> Any:
    sent = method.broadcast(state)
    update, memory = method.client_step(
        sent, tables[client], memory, state.params, client_rng(0, client, 1)
    )
    stamped = replace(update, client=client, version=sent.version, contact=1)
    return decode(encode(stamped)), memory


def tick(method: Any, state: Any, tables: Any, clients: Any) -> Any:
    for client in clients:
        state, _ = method.absorb(state, answer(method, state, tables, client)[0])
    return method.end_round(state)


def test_one_broadcast_carries_every_k_that_is_not_done():
    method = wrapped(Stripes())
    state, tables = started(method, rounds=1)
    sent = method.broadcast(state)
    assert sent.wanted == {0, 1}
    assert sent.payload.versions.tolist() == [0, 0]
    assert sent.payload.question is None
    assert not method.done(state)
    assert method.progress(state)["k"] == 2
    state = tick(method, state, tables, (0, 1))
    sent = method.broadcast(state)
    assert sent.payload.parts == (None, None)
    assert sent.payload.versions.tolist() == [-1, -1]
    assert isinstance(sent.payload.question, SweepTrial)
    state = tick(method, state, tables, (0,))
    assert method.broadcast(state).wanted == {1}
    assert method.result(state).k == 3  # whoever answers counts
    assert not method.done(state)
    state = tick(method, state, tables, (1,))
    assert method.done(state)
    assert method.broadcast(state).wanted == frozenset()
    assert method.broadcast(state).payload.question is None


def test_late_answers_find_their_inner_version():
    method = wrapped(Stripes())
    state, tables = started(method, rounds=3)
    early = answer(method, state, tables, 0)[0]
    state = tick(method, state, tables, (1,))
    state, found = method.absorb(state, early)
    assert found["late"] == 1
    assert [inner.pending[0].version for inner in state.inner] == [0, 0]
    state = method.end_round(state)
    state = tick(method, state, tables, (1,))  # the third round: done
    before = [inner.answers for inner in state.inner]
    state, _ = method.absorb(state, early)  # nothing more to add
    assert [inner.answers for inner in state.inner] == before


def test_an_inner_method_gets_only_answers_it_wanted():
    class Picky(Stripes):
        def wanted(self, state):
            return frozenset({state.params.k - 2})  # k = 2 wants 0, k = 3 wants 1

    method = wrapped(Picky())
    state, tables = started(method, rounds=5)
    assert method.broadcast(state).wanted == {0, 1}
    state, _ = method.absorb(state, answer(method, state, tables, 0)[0])
    assert [set(inner.answers) for inner in state.inner] == [{0}, set()]


def test_an_inner_method_that_wants_anybody():
    class Open(Stripes):
        def wanted(self, state):
            return None

    method = wrapped(Open())
    assert method.broadcast(started(method, rounds=5)[0]).wanted is None


def test_the_census_asks_by_the_inner_labels():
    method = wrapped(Stripes())
    state, tables = started(method, centers=False)
    state = tick(method, state, tables, (0, 1))
    question = method.broadcast(state).payload.question
    assert isinstance(question, SweepCensus)
    update, memory = answer(method, state, tables, 0)
    assert update.payload.answer[1].counts.shape == (3,)
    assert memory.number == question.number
    state, _ = method.absorb(state, update)
    state, _ = method.absorb(state, answer(method, state, tables, 1)[0])
    late = update
    state = method.end_round(state)
    centers = state.trial.centers[1]
    np.testing.assert_allclose(centers[:, 0], [1 / 6, 1 / 2, 5 / 6], atol=0.02)
    again, _ = method.absorb(state, late)  # a tally after the census changes nothing
    assert again.trial == state.trial or again.trial.scores == {}
    scored, _ = answer(method, state, tables, 0, memory)
    assert isinstance(scored.payload.answer[0], SweepScore)


def test_labels_of_another_census_are_not_used():
    X, centers = np.array([[1.0], [3.0]]), np.array([[0.0], [4.0]])
    question = SweepTrial(4, (centers,), (np.array([0, 1]),))
    stale = SweepMemory((None,), 3, (np.array([1, 0]),))
    fresh = replace(stale, number=4)

    def count(memory):
        _, said, _ = answer_question(question, X, memory, Stripes().label)
        return said[0].silhouette

    assert count(stale) == pytest.approx(4 / 3)  # nearest
    assert count(fresh) == pytest.approx(-4 / 3)  # as labelled
    assert answer_question(None, X, stale, Stripes().label) == (-1, (), stale)


def test_views_survive_the_wire():
    known = Clustering(None, np.array([2.0]), {}, extra={"a": np.eye(2), "b": 3})
    view = decode(encode(SweepView.of(known))).clustering()
    assert view.k == 1
    assert view.extra["b"] == 3
    np.testing.assert_array_equal(view.extra["a"], np.eye(2))


def judging(state: Any) -> int:
    verdict = concluded(state).verdict
    assert verdict is not None
    return verdict.number


def test_an_evaluation_with_fewer_answers_does_not_replace_one():
    method = wrapped(Stripes())
    state, _ = started(method)
    scores: Scores = {"simplified": 0.1, "db": 1.0}
    old = Verdict(0, 2, (scores, scores))
    said = tuple(
        SweepScore(np.array([30] + [0] * k), np.zeros(k + 1), 0.0) for k in (1, 2)
    )
    answers = tuple(method.inner.result(inner) for inner in state.inner)
    trial = Trial(1, 0, False, answers, scores={0: said})
    state = counted(replace(state, trial=trial, verdict=old))
    assert state.trial is not None
    assert judging(state) == 0  # one of two clients
    full = replace(state, trial=replace(state.trial, scores={0: said, 1: said}))
    assert judging(full) == 1
    gone, _ = method.absorb(state, Left(1))  # everybody who is there
    assert judging(gone) == 1


def test_before_any_hello_there_is_nothing_to_do():
    method = wrapped(Stripes())
    state = method.init((), method.parameters(), 0)
    assert method.prepare(state) is state
    assert method.end_round(state) is state
    assert not method.done(state)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_clusters": 3}, "any-k:k-fed finds the number of clusters: give max_"),
        ({"min_clusters": 1}, "min_clusters must be at least 2, not 1"),
        ({"max_clusters": 1}, r"max_clusters must be at least min_clusters \(2\)"),
        ({"index": "ch"}, "index must be one of"),
        ({"sweep_rounds": 0}, "sweep_rounds must be at least 1, not 0"),
        ({"labels": "x"}, "labels must be one of"),
        ({"inner": ()}, "k-fed has no option 'inner'"),
    ],
)
def test_bad_options_are_one_line(options, text):
    with pytest.raises(InputError, match=text) as error:
        make_method("any-k:k-fed", **options)
    assert "\n" not in str(error.value)


def test_names():
    assert get_method("any-k:k-fed").name == "any-k:k-fed"
    assert not any_k("k-fed").needs_k
    for name in ("afcl", "any-k:k-fed"):
        with pytest.raises(InputError, match=f"{name} finds the number of clusters by"):
            get_method(f"any-k:{name}")
    with pytest.raises(InputError, match="unknown method 'none'"):
        get_method("any-k:none")


def test_options_reach_the_inner_method():
    params = wrapped(Stripes()).parameters(rounds=7, max_clusters=3)
    assert [inner.rounds for inner in params.inner] == [7, 7]
    assert [inner.k for inner in params.inner] == [2, 3]


@pytest.mark.parametrize(
    "said",
    [
        Nothing(),
        SweepHello(2, (StripeAnswer(2.0),)),
        SweepHello(0, (StripeAnswer(2.0), StripeAnswer(2.0))),
        SweepHello(3, (StripeAnswer(2.0), StripeAnswer(2.0))),
        SweepHello(2, (StripeAnswer(2.0), None)),
    ],
)
def test_hellos_that_cannot_be(said):
    method = wrapped(Stripes())
    state, _ = started(method)
    with pytest.raises(RejectedMessage):
        method.absorb(state, Hello(5, said, client=7))


REACH = StripeAnswer(0.5)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        (SweepReply((REACH,), -1, ()), 0),
        (SweepReply((REACH, None), -1, ()), 0),
        (SweepReply((REACH, Nothing()), -1, ()), 0),
        (SweepReply((REACH, REACH), 0, (None, None)), 0),
        (SweepReply((REACH, REACH), -1, (None, None)), 0),
        (SweepReply((REACH, REACH), -1, ()), 1),
        (SweepReply((REACH, REACH), -1, ()), -1),
    ],
)
def test_answers_that_cannot_be(said, version):
    method = wrapped(Stripes())
    state, _ = started(method)
    with pytest.raises(RejectedMessage):
        method.absorb(state, Update(said, version=version, client=0))
    with pytest.raises(RejectedMessage, match="has not said hello"):
        method.absorb(state, Update(said, version=version, client=9))


def scored(counts=(10, 20), distances=(1.0, 1.0), silhouette=1.0):
    two = SweepScore(np.array(counts), np.array(distances), silhouette)
    return two, SweepScore(np.array([10, 10, 10]), np.ones(3), 1.0)


@pytest.mark.parametrize(
    "parts",
    [
        (None, None),
        scored()[::-1],
        scored(counts=(10, 21)),
        scored(counts=(-1, 31)),
        scored(counts=(10.0, 20.0)),
        scored(distances=(1.0, -1.0)),
        scored(distances=(1.0, np.inf)),
        scored(silhouette=30.1),
        scored(silhouette=math.nan),
        scored(silhouette=True),
    ],
)
def test_scores_that_cannot_be(parts):
    method = wrapped(Stripes())
    state, tables = started(method)
    state = tick(method, state, tables, (0, 1))
    version = method.broadcast(state).version
    good = SweepReply((None, None), 0, scored())
    method.absorb(state, Update(good, version=version, client=0))
    with pytest.raises(RejectedMessage):
        method.absorb(
            state, Update(replace(good, answer=parts), version=version, client=0)
        )


@pytest.mark.parametrize(
    "part",
    [
        None,
        SweepTally(np.array([10, 10, 11]), np.zeros((3, 2))),
        SweepTally(np.array([10, 10, 10]), np.zeros((3, 1))),
        SweepTally(np.array([10, 10, 10]), np.full((3, 2), 1e200)),
        SweepTally(np.array([15, 15]), np.zeros((2, 2))),
    ],
)
def test_tallies_that_cannot_be(part):
    method = wrapped(Stripes())
    state, tables = started(method, centers=False)
    state = tick(method, state, tables, (0, 1))
    version = method.broadcast(state).version
    first = SweepTally(np.array([15, 15]), np.zeros((2, 2)))
    with pytest.raises(RejectedMessage):
        method.absorb(
            state,
            Update(
                SweepReply((None, None), 0, (first, part)), version=version, client=0
            ),
        )


def test_a_tally_where_there_are_centres():
    method = wrapped(Stripes())
    state, tables = started(method, centers=False)
    state = tick(method, state, tables, (0, 1))
    centers = np.array([[0.2, 0.5], [0.8, 0.5]])
    mixed = replace(
        state.trial,
        clusterings=(simple_clustering(centers), state.trial.clusterings[1]),
    )
    state = replace(state, trial=mixed)
    assert state.trial.question().views[0] is None
    good = SweepTally(np.array([10, 10, 10]), np.ones((3, 2)))
    version = method.broadcast(state).version

    def absorb(first):
        said = SweepReply((None, None), 0, (first, good))
        return method.absorb(state, Update(said, version=version, client=0))[0]

    with pytest.raises(RejectedMessage, match="where there are centres"):
        absorb(SweepTally(np.array([15, 15]), np.zeros((2, 2))))
    state = absorb(None)
    state, _ = method.absorb(state, Left(1))
    ended: Any = counted(state).trial
    assert ended.clusters[0] is None
    assert ended.clusters[1].tolist() == [0, 1, 2]
    np.testing.assert_array_equal(ended.centers[0], centers)
