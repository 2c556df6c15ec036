# SPDX-License-Identifier: Apache-2.0
"""Records on disk: what goes in comes out, whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.exceptions import InputError
from afcl_bench import store as module
from afcl_bench.spec import Run
from afcl_bench.store import CAPPED, DONE, FAILED, RUNS, Record, Store

RUN = Run("SD1", "any-k:dk++", (("n_clusters", 4),), "kmeans:5", "one-shot:0.5", 3)


def done(run: Run = RUN, **changes) -> Record:
    record = Record(
        run,
        DONE,
        {"k": 2, "seconds": 0.25, "scores": {"silhouette": None}, "data": {"n": 4}},
        np.array([0, 0, 1, 1]),
        {"centers": np.array([[0.1, 0.2], [0.3, 0.4]]), "path_k": np.array([2, 3])},
    )
    return replace(record, **changes)


def same(one: Record | None, other: Record | None) -> bool:
    assert one is not None
    assert other is not None
    assert (one.run, one.status, one.facts) == (other.run, other.status, other.facts)
    assert one.trace == other.trace
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        assert array.dtype == other.arrays[name].dtype
        assert np.array_equal(array, other.arrays[name], equal_nan=True)
    labels = [None if r.labels is None else r.labels.tolist() for r in (one, other)]
    assert labels[0] == labels[1]
    return True


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "benchmark")


# ------------------------------------------------------------------ round trips


@pytest.mark.parametrize(
    "record",
    [
        done(),
        done(trace=[{"event": "run", "seed": 3}, {"event": "end", "k": 2}]),
        done(trace=[]),
        done(labels=np.arange(300), arrays={}),
        done(labels=np.array([255, 0]), arrays={"path_sc": np.array([np.nan, 1.0])}),
        done(labels=np.array([256, 0]), arrays={}),
        done(labels=np.array([-1, 0, 1]), arrays={}),
        done(labels=np.zeros(0, dtype=np.int64), arrays={}),
        Record(RUN, FAILED, {"reason": "no – «so»\n", "versions": {"numpy": "2"}}),
        Record(RUN, CAPPED, {"reason": "stopped after 3 s", "cap": 3.0}),
        done(Run("iris", "afcl", (), "iid:3", "always", 0)),
        done(Run("a", "b", (("x", 0.5), ("y", "word"), ("z", True)), "c", "d", 1)),
    ],
    ids=lambda record: record.status,
)
def test_a_record_comes_back(record, store):
    assert not store.has(record.run)
    assert store.read(record.run) is None
    assert store.facts(record.run) is None
    store.write(record)
    assert store.has(record.run)
    assert same(store.read(record.run), record)
    assert store.facts(record.run) == (record.status, record.facts)


def test_labels_come_back_as_they_are_used_and_lie_small(store):
    labels = np.arange(100_000) % 7
    store.write(done(labels=labels, arrays={}))
    found = store.read(RUN)
    assert found is not None
    assert found.labels is not None
    assert found.labels.dtype == np.int64
    assert store.path(RUN).stat().st_size < 20_000


def test_numbers_of_numpy_become_numbers(store):
    facts = {"k": np.int64(3), "seconds": np.float64(0.5), "sizes": np.array([1, 2])}
    store.write(done(facts=facts))
    _, found = store.facts(RUN) or (None, None)
    assert found == {"k": 3, "seconds": 0.5, "sizes": [1, 2]}


def test_what_is_no_json_is_refused_and_nothing_is_written(store):
    with pytest.raises(TypeError, match="set does not go into JSON"):
        store.write(done(facts={"k": {1, 2}}))
    assert not store.has(RUN)


def test_only_an_answer_has_a_k():
    assert done().k == 2
    assert Record(RUN, CAPPED, {"reason": "slow"}).k is None
    assert Record(RUN, FAILED, {"reason": "broken"}).k is None


def test_the_path_is_that_of_the_run(store):
    store.write(done())
    path = store.folder / RUNS / RUN.path
    assert path.is_file()
    assert str(path.relative_to(store.folder)) == (
        "runs/SD1/any-k~dk++/n_clusters=4/kmeans~5/one-shot~0.5/3.npz"
    )


@given(st.text(min_size=1, max_size=20))
def test_any_name_can_be_stored(tmp_path_factory, name):
    """Nothing a spec says can leave the folder or fail as a file's name."""
    store = Store(tmp_path_factory.mktemp("store"))
    run = Run(name, name, (("option", name),), name, name, 0)
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    store.write(Record(run, FAILED, {"reason": name}))
    assert same(store.read(run), Record(run, FAILED, {"reason": name}))
    (file,) = [p for p in store.folder.rglob("*") if p.is_file()]
    assert file == store.path(run)


def test_writing_again_replaces(store):
    store.write(Record(RUN, CAPPED, {"reason": "slow"}))
    store.write(done())
    assert same(store.read(RUN), done())


def test_the_same_record_is_the_same_bytes(store, tmp_path):
    """So that folders of two machines can be compared."""
    store.write(done())
    other = Store(tmp_path / "other")
    other.write(done())
    assert store.path(RUN).read_bytes() == other.path(RUN).read_bytes()


def test_a_forgotten_run_is_gone(store):
    store.write(done())
    store.forget(RUN)
    assert not store.has(RUN)
    store.forget(RUN)


# ------------------------------------------------------------------ whole or not at all


def files(store: Store) -> list[str]:
    return sorted(p.name for p in store.folder.rglob("*") if p.is_file())


def test_nothing_is_left_beside_a_record(store):
    store.write(done())
    assert files(store) == ["3.npz"]


@pytest.mark.parametrize("step", ["pack", "move"])
def test_an_exception_leaves_what_was_there(store, monkeypatch, step):
    store.write(done())
    before = store.path(RUN).read_bytes()

    def fail(*_):
        raise OSError("no space left")

    if step == "pack":
        monkeypatch.setattr(module, "_packed", fail)
    else:
        monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        store.write(Record(RUN, CAPPED, {"reason": "slow"}))
    assert store.path(RUN).read_bytes() == before
    assert files(store) == ["3.npz"]


def test_a_part_left_by_a_kill_is_no_run(store):
    path = store.path(RUN)
    path.parent.mkdir(parents=True)
    path.with_name("3.npz.4711.part").write_bytes(b"half")
    assert not store.has(RUN)
    assert store.read(RUN) is None


# ------------------------------------------------------------------ damage


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"not a zip", b"\x93NUMPY", b"PK\x03\x04" + b"\0" * 60]
)
def test_a_file_that_is_no_record_is_named(store, content):
    path = store.path(RUN)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    for read in (store.read, store.facts):
        with pytest.raises(InputError) as caught:
            read(RUN)
        assert str(caught.value).startswith(f"{path} is damaged (")
        assert "remove it, and run the benchmark again" in str(caught.value)


def test_a_record_cut_off_anywhere_is_named(store):
    store.write(done())
    path = store.path(RUN)
    whole = path.read_bytes()
    for size in range(0, len(whole), 37):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match="3.npz is damaged"):
            store.read(RUN)


@given(st.data())
def test_a_changed_byte_is_named_or_harmless(tmp_path_factory, data):
    """Never another record, never another exception."""
    store = Store(tmp_path_factory.mktemp("store"))
    record = done(labels=np.arange(500) % 5)
    store.write(record)
    path = store.path(RUN)
    whole = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    with suppress(InputError):
        found = store.read(RUN)
        assert found is not None
        assert found.labels is not None
        assert np.array_equal(found.labels, np.arange(500) % 5)
        assert found.facts == record.facts


def test_a_record_without_a_head_is_named(store):
    path = store.path(RUN)
    path.parent.mkdir(parents=True)
    np.savez(path, labels=np.arange(3))
    with pytest.raises(InputError, match="damaged"):
        store.facts(RUN)
    np.savez(path, head=np.frombuffer(b"[1", dtype=np.uint8))
    with pytest.raises(InputError, match="damaged"):
        store.facts(RUN)
    np.savez(path, head=np.frombuffer(b"{}", dtype=np.uint8))
    with pytest.raises(InputError, match="damaged"):
        store.read(RUN)
