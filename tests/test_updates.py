"""Answers that follow one another: rows that change, clients that come and go."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl import AFCL, make_method
from afcl.exceptions import InputError, PrivacyWarning

SPOTS = np.array([(0, 0), (0, 12), (12, 0), (12, 12)])


def table(seed, spots=SPOTS, n=30):
    rng = np.random.default_rng(seed)
    return np.vstack([rng.normal(spot, 1, (n, 2)) for spot in spots])


def tables(names, seed=0):
    return {name: table([seed, i]) for i, name in enumerate(names)}


def same(one, other):
    np.testing.assert_allclose(
        one.cluster_centers_, other.cluster_centers_, rtol=0, atol=1e-12
    )
    for own, others in zip(one.client_labels_, other.client_labels_, strict=True):
        np.testing.assert_array_equal(own, others)
    assert one.scores_ == pytest.approx(other.scores_, abs=1e-12)


def test_a_new_client_brings_a_cluster_that_goes_with_it():
    begun = tables("abcd")
    model = AFCL(random_state=0).fit_clients(begun)
    assert (model.answer_, model.cluster_names_) == (1, ["c0", "c1", "c2", "c3"])
    model.update({"e": table(9, [*SPOTS, (40, 40)])})
    assert [str(change) for change in model.changes_] == ["c4 is new"]
    assert [event["text"] for event in model.trace_.of("change")] == ["c4 is new"]
    assert (model.answer_, len(model.client_labels_)) == (2, 5)
    model.forget("e")
    assert [str(change) for change in model.changes_] == ["c4 is gone"]
    assert sorted(model.cluster_names_) == ["c0", "c1", "c2", "c3"]
    same(model, AFCL(random_state=0).fit_clients(begun))
    withdrawn = [(a.number, a.withdrawn, a.sizes == ()) for a in model.history_]
    assert withdrawn == [(1, False, False), (2, True, True), (3, False, False)]


def test_labels_and_names_go_together():
    model = AFCL(random_state=0).fit_clients(tables("abc"))
    where = dict(zip(model.cluster_names_, model.cluster_centers_, strict=True))
    model.update({"a": table(77, n=50)})
    for name, center in zip(model.cluster_names_, model.cluster_centers_, strict=True):
        assert np.abs(where[name] - center).max() < 2


steps = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.integers(0, 2), st.booleans()),
    min_size=1,
    max_size=5,
)


@pytest.mark.no_cover
@settings(max_examples=8, deadline=None)
@given(steps, st.sampled_from(["summary", None]))
def test_any_order_equals_one_run_on_the_final_tables(moves, privacy):
    """However they came about: the answer is that of the tables that are there now."""
    now = tables("abcd")
    roster = list(now)
    model = AFCL(random_state=1, privacy=privacy).fit_clients(now)
    for name, version, leaves in moves:
        if leaves and name in now and len(now) > 3:
            model.forget(name)
            del now[name]
            roster[roster.index(name)] = "gone"
        else:
            now[name] = table([version, ord(name)])
            model.update({name: now[name]})
            if name not in roster:
                roster.append(name)
    every = {
        name if name in now else f"hole {number}": now.get(name, table([5, number]))
        for number, name in enumerate(roster)
    }
    fresh = AFCL(random_state=1, privacy=privacy).fit_clients(every)
    for hole in every.keys() - now.keys():
        fresh.forget(hole)
    same(model, fresh)


def test_a_saved_model_goes_on_with_all_tables(tmp_path):
    begun = tables("abc")
    model = AFCL(random_state=0).fit_clients(begun)
    model.save(tmp_path)
    loaded = AFCL.load(tmp_path)
    assert loaded.history_ == model.history_
    with pytest.raises(InputError, match="holds no rows of b, c: pass their tables"):
        loaded.update({"a": begun["a"]})
    new = {**begun, "d": table(8, [*SPOTS, (40, 40)])}
    same(loaded.update(new), model.update({"d": new["d"]}))
    assert loaded.cluster_names_ == model.cluster_names_


def test_a_pickle_holds_no_row():
    model = AFCL(random_state=0).fit_clients(tables("abc"))
    again = pickle.loads(pickle.dumps(model))
    assert again._tables == {}
    assert again.history_ == model.history_


def test_pooled_rows_are_updated_by_all_owners():
    begun = tables("abc")
    X = np.concatenate(list(begun.values()))
    owners = np.repeat(list("abc"), 120)
    model = AFCL(random_state=0).fit(X, clients=owners)
    same(model.update(begun), AFCL(random_state=0).fit_clients(begun))


def test_an_error_leaves_the_model_as_it_was():
    model = AFCL(random_state=0).fit_clients(tables("abc"))
    before, centers = model.history_, model.cluster_centers_
    with pytest.raises(ValueError, match="NaN"):
        model.update({"a": np.full((20, 2), np.nan)})
    with pytest.raises(InputError, match="columns|features"):
        model.update({"a": np.zeros((20, 3))})
    assert model.history_ is before
    assert model.cluster_centers_ is centers


def test_what_cannot_be():
    model = AFCL(random_state=0)
    with pytest.raises(Exception, match="not fitted"):
        model.forget("a")
    model.fit_clients(tables("ab"))
    with pytest.raises(InputError, match="no client is called 'x', only a, b"):
        model.forget("x")
    with pytest.raises(InputError, match="by the clients' names"):
        model.update([table(0)])  # type: ignore[arg-type]
    model.forget("a")
    with pytest.raises(InputError, match="the only client"):
        model.forget("b")


def test_clients_without_names_go_by_their_numbers():
    begun = list(tables("abc").values())
    model = AFCL(random_state=0).fit_clients(begun).update({1: table(5)})
    same(model, AFCL(random_state=0).fit_clients([begun[0], table(5), begun[2]]))
    model.forget(1)
    assert model.history_[-1].clients == ("0", "2")


def test_every_answer_at_dp_costs_again():
    model = AFCL(
        random_state=0,
        privacy="dp(8)",
        scale=([-10, -10], [30, 30]),
        seeded_noise=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit_clients(tables("abc"))
    with pytest.warns(PrivacyWarning, match="once more"):
        model.update({"a": table(5)})


@pytest.mark.parametrize("name", ["afcl", "afcl-paper"])
def test_other_methods_have_names_too(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model = make_method(name, random_state=0).fit_clients(tables("abc"))
        model.update({"d": table(6)})
    assert model.answer_ == 2
    assert len(set(model.cluster_names_)) == model.n_clusters_
