# SPDX-License-Identifier: Apache-2.0
"""Sums under CKKS: exact, readable by the holder of the key alone, and only once."""

from __future__ import annotations

import builtins
import dataclasses
import json
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl import AFCL
from afcl.cli import main
from afcl.core import cohorts
from afcl.core.cohort_answers import numbers_for
from afcl.core.messages import Addressed, Level, Update
from afcl.core.params import DefaultParams
from afcl.core.tasks import (
    COUNT,
    KEY,
    OPENING,
    PRESENCE,
    SCORE,
    SUM,
    Part,
    Question,
    SeedPartition,
    Task,
)
from afcl.core.terms import AskHello, AskStep, Terms
from afcl.data import iid_split, make_sd1
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods import get_method
from afcl.privacy import ckks, he
from afcl.privacy.masks import Sealed, public_key
from afcl.privacy.protection import protection
from afcl.runtime.codec import decode, encode
from afcl.runtime.inprocess import InProcess
from afcl.runtime.journal import Journal
from afcl.runtime.live.member import answer
from afcl.runtime.live.membership import Membership, keep_membership
from afcl.runtime.live.take_home import MEMORY
from afcl.runtime.schedule import EventClock, Schedule
from afcl.runtime.simulate import simulate
from afcl.runtime.spec import Spec
from afcl.runtime.transport import Reply
from afcl.scale import Box

tenseal = pytest.importorskip("tenseal", reason="needs the extra he")

LARGEST = 2**50 - 1
GROUPS = np.array([0, 0, 1, 1, 2, 2])
OPEN_COUNT, OPEN_SUM = OPENING[COUNT], OPENING[SUM]
PARAMS = DefaultParams(privacy="secure(he)+summary")


def with_cells(least):
    return replace(PARAMS, min_cell=least)


def coarse(groups=GROUPS):
    seeds = np.random.default_rng(9).random((6, 2))
    return SeedPartition(seeds, np.zeros(6, dtype=np.int64), groups)


def finer(groups=GROUPS):
    return SeedPartition(np.random.default_rng(7).random((6, 2)), GROUPS, groups)


def levels(*sizes):
    rng = np.random.default_rng(8)
    return tuple(
        Level(rng.random((k, 2)), np.full(k, 0.1), np.full(k, 30.0), 0) for k in sizes
    )


#: One question of each kind, and of each depth.
QUESTIONS = (
    Question(COUNT, (coarse(np.arange(6)),)),
    Question(SUM, (coarse(),)),
    Question(COUNT, (coarse(), finer(np.arange(6)))),
    Question(SUM, (coarse(), finer())),
    Question(SCORE, levels=levels(2, 3)),
)
COUNTED, SUMMED = QUESTIONS[:2]


@pytest.fixture(scope="module")
def pair():
    """A context with its secret key, and the packed public key."""
    context = ckks.new_context()
    return context, ckks.pack([ckks.public_key_of(context)])


# ------------------------------------------------------------------ bytes in numbers


@given(st.lists(st.binary(min_size=1, max_size=3000), min_size=1, max_size=4))
def test_bytes_travel_as_numbers(blobs):
    packed = ckks.pack(blobs)
    assert packed.dtype == np.int64
    assert ckks.unpack(packed, len(blobs)) == blobs


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(0, dtype=np.int64),
        np.zeros(3),
        np.zeros((2, 2), dtype=np.int64),
        np.array([2, 8, 8, *[0] * 256]),
        np.array([1, 0]),
        np.array([1, -8, *[0] * 128]),
        np.array([1, 1 << 40, *[0] * 128]),
        np.array([1, 8, *[0] * 127]),
        np.array([1, 8, *[0] * 129]),
    ],
)
def test_numbers_that_are_no_bytes_are_refused(values):
    with pytest.raises(RejectedMessage):
        ckks.unpack(values, 1)


# ------------------------------------------------------------------ exact sums


def opened_sum(pair, parts, width) -> Any:
    """What the holder of the key reads in the sum of parts."""
    context, public = pair
    total = ckks.add(public, parts)
    assert total is not None
    return ckks.decrypt(context, total, width)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.lists(st.integers(-LARGEST, LARGEST), min_size=5, max_size=5),
        min_size=3,
        max_size=6,
    )
)
def test_sums_are_exact_up_to_the_largest_numbers(pair, rows):
    numbers = np.array(rows, dtype=np.int64)
    parts = [ckks.encrypt(pair[1], row) for row in numbers]
    assert np.array_equal(opened_sum(pair, parts, 5), numbers.sum(axis=0))


@pytest.mark.parametrize("width", [1, 682, 683, 1500])
def test_more_numbers_take_more_ciphertexts(pair, width):
    rng = np.random.default_rng(width)
    numbers = rng.integers(-LARGEST, LARGEST, (3, width))
    parts = [ckks.encrypt(pair[1], row) for row in numbers]
    assert parts[0][0] == -(-width // ckks.PER_CIPHERTEXT)
    assert np.array_equal(opened_sum(pair, parts, width), numbers.sum(axis=0))


def test_the_largest_cohort_does_not_run_over(pair):
    numbers = np.array([LARGEST, -LARGEST, -1, 0, 2**17 - 1, 2**34 - 1])
    parts = [ckks.encrypt(pair[1], numbers) for _ in range(5)]
    opened = opened_sum(pair, parts * (ckks.MOST_MEMBERS // 5), 6)
    assert np.array_equal(opened, ckks.MOST_MEMBERS * numbers)


def test_the_error_is_far_below_a_half(pair):
    """Rounding takes it away; otherwise opened sums would tell of the secret key."""
    context, public = pair
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 2**17, (10, ckks.DEGREE // 2))
    behind = ckks.context_behind(public)
    total = tenseal.ckks_vector(behind, digits[0].tolist())
    for row in digits[1:]:
        total.add_(tenseal.ckks_vector(behind, row.tolist()))
    opened = tenseal.ckks_vector_from(context, total.serialize()).decrypt()
    error = np.abs(np.array(opened) - digits.sum(axis=0)).max()
    assert 0 < error < 0.01


def test_what_is_no_sum_of_whole_numbers_is_not_opened(pair):
    context, public = pair
    behind = ckks.context_behind(public)
    full = ckks.DEGREE // 2
    half = tenseal.ckks_vector(behind, [0.5] * full)
    many = tenseal.ckks_vector(behind, [0.6 * ckks.MOST_MEMBERS * 2**ckks.BITS] * full)
    for vector in (half, many + many):
        lie = ckks.pack([vector.serialize()])
        assert ckks.decrypt(context, lie, 5) is None
    strange = ckks.encrypt(
        ckks.pack([ckks.public_key_of(ckks.new_context())]), np.arange(5)
    )
    assert ckks.decrypt(context, strange, 5) is None


def test_ciphertexts_that_cancel_cannot_be_added(pair):
    _, public = pair
    part = ckks.encrypt(public, np.arange(5))
    behind = ckks.context_behind(public)
    negative = -ckks.vectors_of(behind, part, 5)[0]
    assert ckks.add(public, [part, ckks.pack([negative.serialize()])]) is None


# ------------------------------------------------------------------ keys


def test_the_public_half_is_put_back_into_the_context_it_came_from(pair):
    context, public = pair
    behind = ckks.context_behind(public)
    assert not behind.has_secret_key()
    assert ckks.bytes_of(behind, secret=False) == ckks.bytes_of(context, secret=False)
    with pytest.raises(ValueError, match="secret_key"):
        tenseal.ckks_vector_from(
            behind, ckks.unpack(ckks.encrypt(public, np.arange(3)), 1)[0]
        ).decrypt()


def other_context(degree=8192, primes=(60, 40, 60)):
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, degree, coeff_mod_bit_sizes=list(primes), n_threads=1
    )
    context.global_scale = ckks.FACTOR
    return context


def test_keys_of_other_parameters_and_noise_are_no_keys(pair):
    _, public = pair
    whole = ckks.bytes_of(other_context(4096, (36, 36, 37)), secret=False)
    right = ckks.unpack(public, 1)[0]
    rng = np.random.default_rng(0)
    for blob in (whole, right[:-1], right[:50], b"x", rng.bytes(120_000)):
        with pytest.raises(RejectedMessage, match="no public key"):
            ckks.context_behind(ckks.pack([blob]))


def test_ciphertexts_of_another_make_are_refused(pair):
    context, public = pair
    behind = ckks.context_behind(public)
    full = [1.0] * (ckks.DEGREE // 2)
    short = tenseal.ckks_vector(behind, full[:-1])
    scaled = tenseal.ckks_vector(behind, full, 2.0**20)
    other = tenseal.ckks_vector(other_context(), [1.0] * (ckks.DEGREE // 2))
    for vector in (short, scaled, other):
        with pytest.raises(RejectedMessage):
            ckks.vectors_of(behind, ckks.pack([vector.serialize()]), 5)
    two = ckks.encrypt(public, np.arange(700))
    with pytest.raises(RejectedMessage, match="1 pieces"):
        ckks.vectors_of(behind, two, 5)
    assert len(ckks.vectors_of(context, two, 700)) == 2


@pytest.mark.parametrize("seed", range(3))
def test_no_bytes_break_the_reader(pair, seed):
    _, public = pair
    rng = np.random.default_rng(seed)
    scheme = he.Ciphertexts()
    part = ckks.encrypt(public, np.arange(5))
    refused = 0
    for _ in range(150):
        phase, right = ((KEY, public), (COUNT, part))[rng.integers(2)]
        data = bytearray(ckks.unpack(right, 1)[0])
        for at in rng.integers(0, min(len(data), 4 ** int(rng.integers(2, 9))), 3):
            data[at] ^= int(rng.integers(1, 256))
        data = data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.3 else data
        try:
            scheme.check(phase, ckks.pack([bytes(data)]), 5, public)
        except RejectedMessage:
            refused += 1
    assert refused > 75


# ------------------------------------------------------------------ members


def cohort(n=4, rows=30, seed=0):
    """Members with rows, and the task each of them gets."""
    rng = np.random.default_rng(seed)
    secrets = [rng.bytes(32) for _ in range(n)]
    keys = tuple(public_key(secret) for secret in secrets)
    members = [
        Sealed(X, X, secret, key)
        for X, secret, key in zip(rng.random((n, rows, 2)), secrets, keys, strict=True)
    ]

    def task(place, question=COUNTED, phase=None, number=0, **more):
        who = tuple(range(n))
        phase = phase or question.kind
        return Task(number, phase, who, keys, place, question, **more)

    return members, task


def asked_for_parts(members, task, question, params=PARAMS):
    """Let everybody answer a question; return the key, the parts and the memories."""
    key, first = he.answer(task(0, question, KEY), members[0], None, params)
    memories = [first, *[None] * (len(members) - 1)]
    parts = []
    for place, member in enumerate(members):
        ask = task(place, question, public=key.values)
        part, memories[place] = he.answer(ask, member, memories[place], params)
        parts.append(part.values)
    return key.values, parts, memories


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_opened_sum_is_the_sum_of_plain_numbers(question, seed):
    members, task = cohort(n=3, rows=60, seed=seed)
    params = with_cells(1)
    key, parts, memories = asked_for_parts(members, task, question, params)
    # The holder may have been restarted in between.
    held = decode(encode(memories[0]))
    opening = OPENING[question.kind]
    ask = task(0, question, opening, total=ckks.add(key, parts))
    opened, _ = he.answer(ask, members[0], held, params)
    plain = [numbers_for(question, m.rows) for m in members]
    assert np.array_equal(opened.values, sum(plain))
    assert opened.phase == opening


def test_all_questions_of_a_run_are_answered_under_one_key():
    members, task = cohort(n=3, rows=60)
    params = with_cells(1)
    key, held = he.answer(task(0, COUNTED, KEY), members[0], None, params)
    for question in QUESTIONS:
        ask = task(0, question, public=key.values)
        part, held = he.answer(ask, members[0], held, params)
        rest = [
            he.answer(task(i, question, public=key.values), member, None, params)[0]
            for i, member in enumerate(members)
            if i
        ]
        total = ckks.add(key.values, [part.values, *(each.values for each in rest)])
        ask = task(0, question, OPENING[question.kind], total=total)
        opened, held = he.answer(ask, members[0], held, params)
        plain = [numbers_for(question, m.rows) for m in members]
        assert np.array_equal(opened.values, sum(plain))
    assert len(held.opened) == len(held.asked.tasks) == len(QUESTIONS)


def test_neither_parts_nor_memories_show_numbers_or_the_secret_key():
    members, task = cohort()
    key, parts, memories = asked_for_parts(members, task, SUMMED)
    own = numbers_for(SUMMED, members[1].rows)
    sent = parts[1].tobytes()
    for number in own[SUMMED.units != 1.0]:
        assert int(number).to_bytes(8, "little", signed=True) not in sent
        assert np.float64(number).tobytes() not in sent
    ask = task(1, SUMMED, public=key)
    again, _ = he.answer(ask, members[1], memories[1], PARAMS)
    assert again.values.shape == parts[1].shape
    assert np.mean(again.values == parts[1]) < 0.1
    context = he._own_context(members[0], memories[0])
    secret = ckks.bytes_of(context, secret=True)[-60_000:]
    for place in range(0, len(secret) - 32, 997):
        assert secret[place : place + 32] not in encode(memories[0])
        assert secret[place : place + 32] not in key.tobytes()


def test_a_key_is_made_once_for_a_cohort():
    members, task = cohort()
    one, held = he.answer(task(0, phase=KEY), members[0], None, PARAMS)
    two, same = he.answer(task(0, phase=KEY), members[0], held, PARAMS)
    assert np.array_equal(one.values, two.values)
    assert same is held
    ask = task(0, phase=KEY, number=1)
    other, changed = he.answer(ask, members[0], held, PARAMS)
    assert not np.array_equal(one.values, other.values)
    assert changed.cohort != held.cohort


def test_without_its_secret_a_memory_is_of_no_use():
    members, task = cohort()
    _, held = he.answer(task(0, phase=KEY), members[0], None, PARAMS)
    stranger = dataclasses.replace(members[0], secret=members[1].secret)
    with pytest.raises(RejectedMessage, match="is lost"):
        he._own_context(stranger, held)


def test_one_sum_is_opened_for_a_question():
    members, task = cohort()
    key, parts, memories = asked_for_parts(members, task, SUMMED)
    total = ckks.add(key, parts)
    ask = task(0, SUMMED, OPEN_SUM, total=total)
    first, held = he.answer(ask, members[0], memories[0], PARAMS)
    again, same = he.answer(ask, members[0], held, PARAMS)
    assert np.array_equal(first.values, again.values)
    assert same is held
    for other in (parts[1], ckks.add(key, parts[:2])):
        with pytest.raises(RejectedMessage, match="another sum"):
            he.answer(replace(ask, total=other), members[0], held, PARAMS)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_sum_without_the_holders_part_is_not_shown_and_is_spent(question):
    members, task = cohort()
    # The holder has most of the rows: its counts are larger than one other's.
    members[0] = replace(members[0], rows=np.tile(members[0].rows, (9, 1)))
    key, parts, memories = asked_for_parts(members, task, question, with_cells(1))
    opening = OPENING[question.kind]
    only = task(0, question, opening, total=parts[1])
    shown, held = he.answer(only, members[0], memories[0], with_cells(1))
    assert np.all(shown.values == -1)
    ask = task(0, question, opening, total=ckks.add(key, parts))
    with pytest.raises(RejectedMessage, match="another sum"):
        he.answer(ask, members[0], held, with_cells(1))


@pytest.mark.parametrize("question", [QUESTIONS[1], QUESTIONS[3]])
def test_sums_of_small_groups_are_not_shown(question):
    members, task = cohort(n=3, rows=20)
    key, parts, memories = asked_for_parts(members, task, question)
    ask = task(0, question, OPEN_SUM, total=ckks.add(key, parts))
    shown = he.answer(ask, members[0], memories[0], with_cells(1))[0].values
    least = int(shown.reshape(question.partitions[-1].n_groups, -1)[:, 0].min())
    assert least > 1
    enough, small = (
        he.answer(ask, members[0], memories[0], with_cells(n))[0].values
        for n in (least, least + 1)
    )
    assert enough.max() > 0
    assert np.all(small == -1)


def test_a_single_group_is_everybody_and_may_be_shown():
    members, task = cohort(n=3, rows=2)
    one = Question(SUM, (coarse(np.zeros(6, dtype=np.int64)),))
    params = with_cells(7)
    key, parts, memories = asked_for_parts(members, task, one, params)
    ask = task(0, one, OPEN_SUM, total=ckks.add(key, parts))
    assert he.answer(ask, members[0], memories[0], params)[0].values[0] == 6


def test_members_answer_what_they_should_and_nothing_else():
    members, task = cohort()
    key, parts, memories = asked_for_parts(members, task, COUNTED)
    total = ckks.add(key, parts)
    other = ckks.pack([ckks.public_key_of(ckks.new_context())])
    two = {"members": (0, 1), "keys": task(0).keys[:2]}
    for ask, place, text in [
        (task(1, phase=KEY), 1, "first member"),
        (task(1), 1, "nothing to encrypt"),
        (task(0, public=other), 0, "another key"),
        (task(0, number=1, public=key), 0, "another key"),
        (task(0, phase=OPEN_COUNT), 0, "nothing to open"),
        (task(1, phase=OPEN_COUNT, total=total), 1, "holds no key"),
        (task(0, SUMMED, OPEN_SUM, total=total), 0, "holds no key"),
        (task(0, phase=OPEN_COUNT, number=1, total=total), 0, "holds no key"),
        (task(0, phase="more", total=total), 0, "cannot be answered"),
        (task(0, phase=OPEN_SUM, total=total), 0, "cannot be answered"),
        (task(1, phase=SUM, public=key), 1, "cannot be answered"),
        (task(1, public=np.arange(9)), 1, "pieces"),
        (replace(task(1), **two), 1, "3"),
    ]:
        with pytest.raises(RejectedMessage, match=text):
            he.answer(ask, members[place], memories[place], PARAMS)


def test_cohorts_are_not_larger_than_their_digits_allow(monkeypatch):
    members, task = cohort()
    monkeypatch.setattr(ckks, "MOST_MEMBERS", 3)
    with pytest.raises(RejectedMessage, match="too large"):
        he.answer(task(0, phase=KEY), members[0], None, PARAMS)


def test_a_client_is_not_asked_for_too_many_sums_nor_for_others_of_its_rows():
    members, task = cohort()
    key, _ = he.answer(task(0, phase=KEY), members[0], None, PARAMS)
    held = None
    for number in range(PARAMS.passes + 1):
        ask = task(1, number=number, public=key.values)
        _, held = he.answer(ask, members[1], held, PARAMS)
    with pytest.raises(RejectedMessage, match="too many"):
        he.answer(task(1, number=9, public=key.values), members[1], held, PARAMS)
    ask = task(1, SUMMED, public=key.values)
    _, held = he.answer(ask, members[1], None, PARAMS)
    elsewhere = Question(SUM, (coarse(np.array([0, 1, 1, 1, 2, 2])),))
    with pytest.raises(RejectedMessage, match="do not lie inside"):
        he.answer(task(1, elsewhere, public=key.values), members[1], held, PARAMS)


def asked(state) -> Any:
    return cohorts.broadcast(state).personal


def test_the_server_refuses_what_no_member_sends():
    params = DefaultParams(cohort=3, privacy="secure(he)+grouped(5)")
    protected, members = protection(params), []
    state: Any = get_method("afcl").init((), params, 0)
    for client in range(3):
        rng = np.random.default_rng(client)
        members.append(protected.view(rng.random((30, 2)), rng))
        hello = replace(protected.hello(members[-1], rng), client=client)
        state, _ = cohorts.absorb_hello(state, hello)
    state = cohorts.prepare(state)

    def said(client, values):
        phase = state.cohorts[0].phase
        return Update(Part(0, phase, values), state.version, client, 1)

    with pytest.raises(RejectedMessage, match="no public key"):
        cohorts.absorb_update(state, said(0, ckks.pack([b"none"])))
    key, held = he.answer(asked(state)[0], members[0], None, params)
    state, _ = cohorts.absorb_update(state, said(0, key.values))
    width = state.cohorts[0].width
    for lie in (np.arange(width), ckks.pack([b"none"]), key.values):
        with pytest.raises(RejectedMessage):
            cohorts.absorb_update(state, said(1, lie))
    for client, member in enumerate(members):
        memory = held if client == 0 else None
        part, memory = he.answer(asked(state)[client], member, memory, params)
        held = memory if client == 0 else held
        state, _ = cohorts.absorb_update(state, said(client, part.values))
    assert state.cohorts[0].phase == OPEN_COUNT
    for lie in (np.arange(width + 1), state.cohorts[0].total):
        with pytest.raises(RejectedMessage, match="expected"):
            cohorts.absorb_update(state, said(0, lie))


# ------------------------------------------------------------------ whole runs


@pytest.fixture(scope="module")
def sd1():
    return make_sd1(0)[0]


def split(X, n, seed=0):
    owner = iid_split(X.shape[0], n, random_state=seed)
    return [X[owner == g] for g in range(n)]


def spec(level, seed=0):
    return Spec(get_method("afcl"), {"privacy": level, "cohort": 4}, seed)


class Tapped(InProcess):
    """Remembers every byte that goes up."""

    heard: list[tuple[int, int, bytes]] = []

    def _ask(self, ticket, client, contact, data):
        reply = super()._ask(ticket, client, contact, data)
        assert isinstance(reply, Reply)
        self.heard.append((client, contact, reply.data))
        return reply


def test_the_same_answer_as_with_masks_from_numbers_nobody_can_read(sd1, monkeypatch):
    Tapped.heard = []
    monkeypatch.setattr("afcl.runtime.simulate.InProcess", Tapped)
    masked = simulate(spec("secure"), split(sd1, 12))
    Tapped.heard = []
    found = simulate(spec("secure(he)"), split(sd1, 12))
    assert found.clustering.k == 4
    assert found.clustering.centers is not None
    assert masked.clustering.centers is not None
    gaps = np.abs(found.clustering.centers - masked.clustering.centers)
    assert gaps.max() < 1e-12
    assert not found.finished.rejected
    assert not found.finished.trace.of("failure")
    phases = []
    for _, contact, data in Tapped.heard:
        said = decode(data)
        if contact < 1:
            continue
        part = said.payload
        phases.append(part.phase)
        if part.phase in OPENING:
            # Plain counts and sums of a few hundred rows would leave high bits empty.
            assert part.values.shape[0] > 7000
            assert np.abs(part.values).max() > 2**60
    # Three cohorts of four: counts, who holds them, sums, scores, and a key for all.
    wanted = {KEY: 3, COUNT: 24, PRESENCE: 24, SUM: 24, SCORE: 12}
    wanted |= {OPEN_COUNT: 6, OPENING[PRESENCE]: 6, OPEN_SUM: 6, OPENING[SCORE]: 3}
    assert {phase: phases.count(phase) for phase in set(phases)} == wanted


def test_a_run_repeats_to_the_last_byte_that_is_counted(sd1):
    runs = [simulate(spec("secure(he)"), split(sd1[::4], 8)) for _ in range(2)]
    one, two = (run.finished.trace.events for run in runs)
    assert one == two


@pytest.mark.no_cover
@pytest.mark.parametrize("share", [0.4, 0.5, 0.6, 0.8])
def test_an_interrupted_run_goes_on_with_the_keys_it_had(sd1, tmp_path, share):
    tables = split(sd1[::4], 8)
    path = tmp_path / "journal"
    with Journal(path, "run") as journal:
        whole = simulate(spec("secure(he)"), tables, journal=journal)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with Journal(path, "run") as journal:
        again = simulate(spec("secure(he)"), tables, journal=journal)
    assert again.finished.trace.events == whole.finished.trace.events
    assert not again.finished.trace.of("failure", "rejected")


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(3))
def test_asynchronous_arrivals_and_drop_outs(sd1, seed):
    clock = EventClock(leaves={0: 3, 5: 4}, late={9: 5}, latency_mean=2.0, loss=0.2)
    outcome = simulate(spec("secure(he)", seed), split(sd1, 16, seed), clock)
    assert outcome.clustering.k == 4
    state = outcome.finished.state
    answered = sum(int(cells.counts.sum()) for cells in state.answered.values())
    assert answered == sum(state.rows[client] for client in state.spoken)
    assert state.spoken


def test_silent_clients_do_not_stop_the_cohorts(sd1):
    schedule = Schedule(silent=(0, 6, 11))
    outcome = simulate(spec("secure(he)"), split(sd1, 16), schedule)
    assert outcome.clustering.k == 4
    assert outcome.finished.state.spoken == set(range(16)) - {0, 6, 11}


def test_with_dp_too(sd1):
    scale = (np.full(2, -1.0), np.full(2, 7.0))
    given: dict[str, Any] = {"scale": scale, "cohort": 3, "seeded_noise": True}
    model = AFCL(privacy="secure(he)+dp(8)", random_state=0, **given)
    assert model.fit_clients(split(sd1, 5)).n_clusters_ == 4


# ------------------------------------------------------------------ command line


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture(scope="module")
def files(sd1, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for g, table in enumerate(split(sd1, 6)):
        frame = pl.DataFrame(table, schema=["u", "v"])
        frame.write_csv(folder / f"site{g}.csv")
    return sorted(folder.glob("*.csv"))


def test_afcl_run_takes_the_level(files, tmp_path, capsys):
    arguments = ("--privacy", "secure(he)", "--cohort", 3)
    code, out, err = call(capsys, "run", *files, "--out", tmp_path / "o", *arguments)
    assert code == 0, err
    assert "only sums over cohorts" in out
    result = json.loads((tmp_path / "o" / "result.json").read_text())
    assert result["n_clusters"] == 4
    assert result["parameters"]["privacy"] == "secure(he)+grouped(5)"


@pytest.fixture
def no_library(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("tenseal"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)


def test_without_the_library_one_line_says_what_to_install(
    sd1, files, tmp_path, capsys, no_library
):
    with pytest.raises(InputError, match=r"pip install 'afcl\[he\]'"):
        AFCL(privacy="secure(he)", cohort=3).fit_clients(split(sd1, 6))
    arguments = ("--privacy", "secure(he)", "--cohort", 3)
    code, _, err = call(capsys, "run", *files, "--out", tmp_path / "o", *arguments)
    assert code == 2
    assert "afcl[he]" in err
    assert len(err.strip().splitlines()) == 1
    method: Any = get_method("afcl")
    params = method.parameters(privacy="secure(he)")
    with pytest.raises(InputError, match=r"afcl\[he\]"):
        method.view(sd1, params, np.random.default_rng(0))


def test_cohorts_that_are_too_large_get_one_line(sd1):
    with pytest.raises(InputError, match="at most 500"):
        AFCL(privacy="secure(he)", cohort=501).fit_clients(split(sd1, 6))


# ------------------------------------------------------------------ live sites


def test_a_live_site_keeps_its_key_between_requests(files, tmp_path):
    """Every request meets a new process, as far as the site can tell."""
    folders = [tmp_path / f"member{i}" for i in range(3)]
    for i, folder in enumerate(folders):
        folder.mkdir()
        keep_membership(folder, Membership(str(files[i]), f"site-{i}"))
    options = json.dumps({"privacy": "secure(he)", "cohort": 3})
    box = Box(np.full(2, -1.0), np.full(2, 8.0))
    terms = [
        Terms("run", "afcl", options, 0, i, box, 1000, ("u", "v")) for i in (0, 1, 2)
    ]
    said = [
        decode(answer(folder, encode(AskHello(terms[i]))))
        for i, folder in enumerate(folders)
    ]
    keys = tuple(hello.payload.key for hello in said)

    def ask(i, phase, contact, **more):
        task = Task(0, phase, (0, 1, 2), keys, i, COUNTED, **more)
        step = AskStep(terms[i], 1, contact, Addressed(None, task))
        return decode(answer(folders[i], encode(step))).payload.values

    key = ask(0, KEY, 1)
    parts = [ask(i, COUNT, 2, public=key) for i in range(3)]
    opened = ask(0, OPEN_COUNT, 3, total=ckks.add(key, parts))
    assert opened.sum() == sum(hello.n_rows for hello in said)
    held = decode((folders[0] / MEMORY).read_bytes())
    assert len(held.opened) == 1
    assert decode((folders[1] / MEMORY).read_bytes()).cohort == ""
