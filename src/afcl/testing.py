# SPDX-License-Identifier: Apache-2.0
"""Conformance checks for methods: a new method is tested the day its file appears.

>>> from afcl.testing import check_method
>>> check_method("afcl")
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core.messages import Hello, Left, Update, arrays_in
from afcl.core.protocol import AnyMethod, Clustering, Message, client_rng
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods import get_method
from afcl.runtime.codec import decode, encode
from afcl.runtime.schedule import EventClock, Replay, Rounds, Schedule
from afcl.runtime.simulate import Outcome, simulate
from afcl.runtime.spec import Spec
from afcl.scale import minmax_box, ranges_of

__all__ = ["CHECKS", "check_method"]

Options = Mapping[str, Any]
Check = Callable[[AnyMethod, Options, int], None]


def check_method(method: str | AnyMethod, seed: int = 0, **options: Any) -> None:
    """Run every check on a method; raises AssertionError with the check's name.

    Parameters
    ----------
    method : str or method
        A registered name or an object of the protocol. An object must be registered
        for the checks that go through the simulator.
    seed : int
        Seed of data and runs.
    **options
        The method's options; `n_clusters=3` is added for methods that need k.
    """
    chosen = get_method(method) if isinstance(method, str) else method
    if chosen.needs_k:
        options = {"n_clusters": 3, **options}
    for check in CHECKS:
        try:
            check(chosen, options, seed)
        except AssertionError as error:
            raise AssertionError(f"{chosen.name}: {check.__name__}: {error}") from error


# ---------------------------------------------------------------------- data


def _blobs(seed: int, sizes: tuple[int, ...] = (30, 30, 30)) -> list[Floats]:
    """Three spots; every client sees two of them."""
    rng = np.random.default_rng(seed)
    spots = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.5]])
    return [
        np.vstack(
            [
                rng.normal(spots[g % 3], 0.05, (size // 2, 2)),
                rng.normal(spots[(g + 1) % 3], 0.05, (size - size // 2, 2)),
            ]
        )
        for g, size in enumerate(sizes)
    ]


def _run(
    method: AnyMethod,
    options: Options,
    seed: int,
    tables: list[Floats],
    schedule: Schedule | None = None,
) -> Outcome:
    spec = Spec(method, dict(options), seed, max_rounds=30)
    return simulate(spec, tables, schedule)


def _same(a: Clustering, b: Clustering) -> bool:
    centers = (
        a.centers is None and b.centers is None
        if a.centers is None or b.centers is None
        else np.array_equal(a.centers, b.centers)
    )
    return centers and np.array_equal(a.sizes, b.sizes)


def _image(value: Any) -> Any:
    """Return nested plain values that are equal exactly if every bit is."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return (type(value), *(_image(getattr(value, f.name)) for f in fields))
    if isinstance(value, Mapping):
        return {key: _image(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_image(item) for item in value]
    return repr(value)


def _check_sound(outcome: Outcome, tables: list[Floats]) -> None:
    clustering = outcome.clustering
    assert clustering.k >= 1, "no cluster at all"
    assert clustering.sizes.sum() == sum(len(t) for t in tables), "rows got lost"
    assert (np.diff(clustering.sizes) <= 0).all(), "clusters are not sorted by size"
    for table, labels in zip(tables, outcome.labels, strict=True):
        assert labels.shape == (len(table),), "labels do not fit the rows"
        assert labels.min() >= 0, "a row has no cluster"
        assert labels.max() < clustering.k, "a label beyond k"
    for array in arrays_in((clustering.centers, clustering.sizes)):
        assert np.isfinite(array).all(), "centres or sizes are not finite"


# ---------------------------------------------------------------------- checks


def check_same_seed_same_bits(method: AnyMethod, options: Options, seed: int) -> None:
    """Demand the same bits from the same seed, and unmodified inputs."""
    tables = _blobs(seed)
    copies = [table.copy() for table in tables]
    first = _run(method, options, seed, tables)
    _check_sound(first, tables)
    second = _run(method, options, seed, tables)
    assert _same(first.clustering, second.clustering), "two runs differ"
    for table, copy in zip(tables, copies, strict=True):
        assert np.array_equal(table, copy), "a client's rows were modified"


def check_replay(method: AnyMethod, options: Options, seed: int) -> None:
    """Replaying a recorded trace gives the same bits, whatever the schedule was."""
    tables = _blobs(seed)
    for schedule in (
        Rounds(probability="random"),
        Rounds(delay=3),
        EventClock(loss=0.2),
        Schedule(late={2: 3}),
    ):
        first = _run(method, options, seed, tables, schedule)
        again = _run(method, options, seed, tables, Replay.of(first.finished.trace))
        assert _same(first.clustering, again.clustering), f"{schedule} does not replay"


def check_comings_and_goings(method: AnyMethod, options: Options, seed: int) -> None:
    """Late joiners, silent, leaving and one-shot clients, empty rounds: an answer."""
    tables = _blobs(seed)
    for schedule in (
        Schedule(late={1: 2}),
        Schedule(silent=(0, 1)),
        Schedule(leaves={0: 2}),
        Schedule(answers={0: 1, 1: 1, 2: 1}),
        Rounds(probability=0.1),
        Rounds(probability=0.0),
    ):
        _check_sound(_run(method, options, seed, tables, schedule), tables)


def check_degenerate_data(method: AnyMethod, options: Options, seed: int) -> None:
    """One client, duplicates, constant columns, one feature, identical clients."""
    blobs = _blobs(seed)
    flat = [np.column_stack([table, np.full(len(table), 7.0)]) for table in blobs]
    for tables in (
        blobs[:1],
        [np.full((12, 2), 3.0), np.full((9, 2), 3.0)],
        [np.repeat(table[:3], 8, axis=0) for table in blobs],
        flat,
        [table[:, :1] for table in blobs],
        [blobs[0], blobs[0].copy(), blobs[0].copy()],
    ):
        _check_sound(_run(method, options, seed, tables), tables)


def check_few_rows(method: AnyMethod, options: Options, seed: int) -> None:
    """Very small clients give an answer, or one line that says what to do."""
    for n in (1, 2, 3, 6):
        tables = [_blobs(seed)[0][:n], _blobs(seed)[1]]
        try:
            outcome = _run(method, options, seed, tables)
        except InputError as error:
            assert "\n" not in str(error), "an error of more than one line"
        else:
            _check_sound(outcome, tables)


def check_purity(method: AnyMethod, options: Options, seed: int) -> None:
    """`init` equals absorbing; states are not modified; messages survive the wire."""
    tables = [
        minmax_box([ranges_of(t) for t in _blobs(seed)]).scale(t) for t in _blobs(seed)
    ]
    params = method.settle(
        method.parameters(**options), sum(len(table) for table in tables)
    )
    hellos = [
        replace(method.hello(table, params, client_rng(seed, g, 0)), client=g)
        for g, table in enumerate(tables)
    ]
    state = method.init((), params, seed)
    for hello in hellos:
        again = decode(encode(hello))
        assert _image(again) == _image(hello), "a hello changes on the wire"
        before = _image(state)
        old, (state, found) = state, method.absorb(state, hello)
        assert _image(old) == before, "absorb modified the old state"
        assert all(isinstance(key, str) for key in found), "diagnostics need names"
    at_once = method.prepare(method.init(hellos, params, seed))
    before = _image(state)
    prepared = method.prepare(state)
    assert _image(state) == before, "prepare modified the old state"
    assert _same(method.result(at_once), method.result(prepared)), "init differs"
    assert _same(method.result(method.prepare(prepared)), method.result(prepared)), (
        "prepare is not idempotent"
    )
    _check_step(method, params, prepared, tables, seed)


def _check_step(
    method: AnyMethod, params: Any, state: Any, tables: list[Floats], seed: int
) -> None:
    broadcast = method.broadcast(state)
    before = _image((state, broadcast, tables))
    for g, table in enumerate(tables):
        update, _ = method.client_step(
            broadcast, table, None, params, client_rng(seed, g, 1)
        )
        assert _image(decode(encode(update))) == _image(update), (
            "an update changes on the wire"
        )
        stamped = replace(update, client=g, contact=1, version=broadcast.version)
        method.absorb(state, stamped)
    assert _image((state, broadcast, tables)) == before, "a step modified its input"


def check_rejections(method: AnyMethod, options: Options, seed: int) -> None:
    """Foreign, empty and non-finite messages are refused and change nothing."""
    tables = _blobs(seed)
    params = method.settle(method.parameters(**options), 90)
    hello = replace(method.hello(tables[0], params, client_rng(seed, 0, 0)), client=0)
    state = method.prepare(method.init([hello], params, seed))
    before = _image(state)
    broken = _with_nan(hello)
    messages: list[Message] = [
        Hello(5, None, client=1),
        Update(None, version=0, client=0, contact=1),
        Update(hello.payload, version=0, client=99, contact=1),
    ]
    if broken is not None:
        messages.append(replace(broken, client=1))
    for message in messages:
        try:
            method.absorb(state, message)
        except RejectedMessage as error:
            assert str(error), "a refusal without a reason"
        else:
            raise AssertionError(f"accepted {message!r:.80}")
        assert _image(state) == before, "a refused message changed the state"
    state, _ = method.absorb(state, Left(0))
    assert method.result(method.prepare(state)).k >= 1, "no answer after a client left"


def _with_nan(hello: Hello) -> Hello | None:
    """Return the hello with a NaN in its first array of floats, if it has one."""
    copy: Hello = decode(encode(hello))
    for array in arrays_in(copy):
        if array.dtype == np.float64 and array.size:
            array.flat[0] = np.nan
            return copy
    return None


CHECKS: tuple[Check, ...] = (
    check_same_seed_same_bits,
    check_replay,
    check_comings_and_goings,
    check_degenerate_data,
    check_few_rows,
    check_purity,
    check_rejections,
)
