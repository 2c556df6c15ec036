# SPDX-License-Identifier: Apache-2.0
"""Pairwise masks: they cancel in the whole sum and nowhere else."""

from __future__ import annotations

import builtins
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.core.cells import cells_of
from afcl.core.cohort_sums import cells_from
from afcl.core.messages import Cells
from afcl.core.tasks import COUNT, SUM, UNIT, Task
from afcl.exceptions import InputError, RejectedMessage
from afcl.kernels import assign
from afcl.privacy.masks import (
    MOST_COUNTS,
    MOST_SUMS,
    Asked,
    Sealed,
    answer,
    mask,
    numbers_for,
    public_key,
)


def secrets(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.bytes(32) for _ in range(n)]


def added(parts):
    total = np.zeros(parts[0].shape, dtype=np.uint64)
    for part in parts:
        total += part.view(np.uint64)
    return total.view(np.int64)


def cohort(n=4, rows=30, d=2, seed=0):
    """Members with rows, and the task each of them gets."""
    rng = np.random.default_rng(seed)
    keys = secrets(n, seed)
    members = []
    for secret in keys:
        X = rng.random((rows, d))
        members.append(
            Sealed(X, cells_of(X, np.zeros(rows, dtype=np.int64), 1), secret)
        )
    seeds = rng.random((6, d))
    public = tuple(public_key(secret) for secret in keys)

    def task(place, phase=COUNT, groups=None, number=0):
        joined = np.arange(6) if groups is None else groups
        return Task(number, phase, tuple(range(n)), public, place, seeds, joined)

    return members, task


@settings(max_examples=20, deadline=None)
@given(st.integers(3, 7), st.integers(1, 40), st.integers(0, 2**32))
def test_masks_cancel_in_the_whole_sum_only(n, width, seed):
    keys = secrets(n, seed)
    public = [public_key(secret) for secret in keys]
    masks = [mask(keys[i], i, public, "purpose", width) for i in range(n)]
    assert not added(masks).any()
    for left_out in range(n):
        rest = [m for i, m in enumerate(masks) if i != left_out]
        assert added(rest).any()


def test_a_mask_looks_uniform_and_belongs_to_its_purpose():
    keys = secrets(3)
    public = [public_key(secret) for secret in keys]
    one = mask(keys[0], 0, public, "one", 4096)
    two = mask(keys[0], 0, public, "two", 4096)
    assert not np.any(one == two)
    bits = np.unpackbits(one.view(np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / bits.size**0.5
    assert np.array_equal(one, mask(keys[0], 0, public, "one", 4096))


def test_the_sum_of_parts_is_the_sum_of_plain_numbers_bit_for_bit():
    members, task = cohort()
    groups = np.array([0, 0, 1, 1, 2, 2])
    for phase, joined in ((COUNT, None), (SUM, groups)):
        parts = [
            answer(task(i, phase, joined), m, None)[0].values
            for i, m in enumerate(members)
        ]
        plain = [
            numbers_for(task(i, phase, joined), m.rows) for i, m in enumerate(members)
        ]
        assert np.array_equal(added(parts), sum(plain))
        for part, own in zip(parts, plain, strict=True):
            assert not np.any(part == own)


def test_a_cohorts_cells_are_those_of_its_pooled_rows():
    members, task = cohort(n=5, rows=40, d=3, seed=1)
    groups = np.array([0, 0, 1, 1, 2, 2])
    rows = np.concatenate([m.rows for m in members])
    labels = groups[assign(rows, task(0).seeds)[0]]
    wanted = cells_of(rows, labels, 3)
    plain = [numbers_for(task(i, SUM, groups), m.rows) for i, m in enumerate(members)]
    total = np.sum(plain, axis=0)
    found = cells_from(total, wanted.counts, 3)
    assert found is not None
    assert np.abs(found.means - wanted.means).max() < 1e-3
    assert np.abs(found.scatters - wanted.scatters).max() < 1e-2
    assert np.array_equal(found.counts, wanted.counts)


def test_cells_count_like_the_rows_they_stand_for():
    X = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 1.0]])
    bag = Cells(np.array([3, 1, 2]), X, np.array([0.25, 0.0, 0.5]))
    _, task = cohort()
    one = dataclasses.replace(
        task(0, SUM), seeds=np.zeros((1, 2)), groups=np.zeros(1, int)
    )
    counts, x, y, squares = numbers_for(one, bag)
    assert counts == 6
    assert x * UNIT == 2.5
    assert y * UNIT == 2.0
    assert squares * UNIT == 4.25 + 0.75


def test_sums_that_do_not_fit_are_refused():
    members, task = cohort()
    far = Sealed(members[0].rows + 1e12, members[0].cells, members[0].secret)
    with pytest.raises(InputError, match="common scale"):
        answer(task(0, SUM), far, None)


def test_a_client_answers_the_same_task_again_and_not_too_many_others():
    members, task = cohort()
    first, memory = answer(task(0, SUM), members[0], None)
    for number in range(1, MOST_SUMS):
        _, memory = answer(task(0, SUM, number=number), members[0], memory)
    again, same = answer(task(0, SUM, number=0), members[0], memory)
    assert np.array_equal(again.values, first.values)
    assert same == memory
    with pytest.raises(RejectedMessage, match="too many"):
        answer(task(0, SUM, number=MOST_SUMS), members[0], memory)
    for number in range(MOST_COUNTS):
        _, memory = answer(task(0, COUNT, number=number), members[0], memory)
    with pytest.raises(RejectedMessage, match="too many"):
        answer(task(0, COUNT, number=MOST_COUNTS), members[0], memory)
    assert isinstance(memory, Asked)


def test_two_tasks_of_one_cohort_never_share_a_mask():
    """Otherwise the difference of two answers would be in the clear."""
    members, task = cohort()
    moved = dataclasses.replace(task(0), seeds=task(0).seeds + 0.1)
    one = answer(task(0), members[0], None)[0].values
    two = answer(moved, members[0], None)[0].values
    gaps = (one.view(np.uint64) - two.view(np.uint64)).view(np.int64)
    assert np.all(np.abs(gaps) > members[0].rows.shape[0])


@pytest.mark.parametrize(
    "change",
    [
        {"members": (0, 1), "keys": 2},
        {"place": 4},
        {"place": -1},
        {"place": 1},
        {"groups": np.arange(5)},
        {"groups": np.full(6, 6)},
        {"groups": np.full(6, -1)},
        {"seeds": np.zeros((6, 3))},
        {"seeds": np.zeros(6)},
        {"seeds": np.full((6, 2), np.nan)},
        {"seeds": np.zeros((6, 2), dtype=np.float32)},
        {"groups": np.zeros(6)},
        {"seeds": np.zeros((0, 2)), "groups": np.zeros(0, dtype=np.int64)},
    ],
)
def test_tasks_of_a_lying_server_are_refused(change):
    members, task = cohort()
    told = task(0)
    if "keys" in change:
        change = {**change, "keys": told.keys[: change["keys"]]}
    with pytest.raises(RejectedMessage):
        answer(dataclasses.replace(told, **change), members[0], None)


def test_keys_must_be_keys_and_different():
    members, task = cohort()
    told = task(0)
    twice = (told.keys[0], told.keys[1], told.keys[1], told.keys[3])
    weak = (told.keys[0], "00" * 32, told.keys[2], told.keys[3])
    for keys in (twice, weak):
        with pytest.raises(RejectedMessage):
            answer(dataclasses.replace(told, keys=keys), members[0], None)


def test_without_the_library_one_line_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match=r"afcl\[privacy\]"):
        public_key(bytes(range(32)))
