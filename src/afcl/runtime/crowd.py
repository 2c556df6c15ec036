# SPDX-License-Identifier: Apache-2.0
"""The simulator for crowds: very many small clients, round by round.

The ordinary simulator sends every message through the codec and the coordinator, which
takes far longer than a small client's work. Here a round is one batch: whoever takes
part answers in one call, and the server absorbs all answers at once. The answers, the
draws and the rules are the ordinary ones, and so is the result; what is not simulated
says docs/decisions/0018-crowds.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.batch import Crowd
from afcl.core.checks import HIGH, LARGEST, LOW
from afcl.core.client import SEEDING_SAMPLE
from afcl.core.draws import uniforms
from afcl.core.protocol import SCHEDULE
from afcl.core.scale import Box, Ranges
from afcl.core.terms import Terms
from afcl.exceptions import InputError
from afcl.kernels import BLOCK
from afcl.methods.afcl import Afcl
from afcl.privacy import crowd as private
from afcl.privacy.grouping import EXACT
from afcl.privacy.levels import MASKS, Level, parse_level
from afcl.runtime.agreement import agreed_box
from afcl.runtime.coordinator import Finished, Spec, Tally
from afcl.runtime.crowd_levels import Cohorts, Round, Summaries, Threads
from afcl.runtime.requirements import requirements
from afcl.runtime.schedule import PART, PROBABILITY, Rounds, Schedule
from afcl.runtime.simulate import Outcome, renumbered
from afcl.trace import SCHEMA, Trace

#: Most rows of a client: it sees all of them at once when it says hello, groups them or
#: adds them up.
MOST_ROWS = min(BLOCK, EXACT, SEEDING_SAMPLE)


def suits(
    spec: Spec, rows: Floats, offsets: Ints, schedule: Schedule | None = None
) -> bool:
    """Whether a run can be simulated as a crowd.

    The default preset can, at the levels `summary` and `secure` (with groups and
    masks), in plain rounds: no delays, nobody late, silent or leaving, and no client
    with more than :data:`MOST_ROWS` rows. Where bounds are given, all rows must
    lie near them, or not every message would be accepted.
    """
    if type(spec.method) is not Afcl or not _is_plain(schedule):
        return False
    level = parse_level(spec.method.parameters(**spec.options).privacy)
    masked = level.secure and level.scheme == MASKS and level.group > 0
    if not masked and str(level) != "summary":
        return False
    sizes = np.diff(offsets)
    if not sizes.size or sizes.min() < 1 or sizes.max() > MOST_ROWS:
        return False
    return _lie_inside(spec.scale, rows)


def _is_plain(schedule: Schedule | None) -> bool:
    if schedule is None:
        return True
    if schedule.late or schedule.leaves or schedule.silent or schedule.answers:
        return False
    return type(schedule) is Schedule or (
        type(schedule) is Rounds and schedule.delay == 0
    )


def _lie_inside(scale: Any, rows: Floats) -> bool:
    low, high = rows.min(axis=0), rows.max(axis=0)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return False
    if isinstance(scale, str):
        return scale == "minmax"
    if scale is None:
        return bool(np.all(np.maximum(-low, high) <= LARGEST))
    n, d = rows.shape
    box = agreed_box(scale, [Ranges(n, d, np.empty(0), np.empty(0))])
    inside = (box.scale(low) >= LOW) & (box.scale(high) <= HIGH)
    return bool(inside.all())


def simulate_crowd(
    spec: Spec,
    rows: Floats,
    offsets: Ints,
    schedule: Schedule | None = None,
    *,
    trace: Trace | None = None,
    clock: Callable[[], float] | None = None,
) -> Outcome:
    """Run `spec` on a crowd and label everybody's rows.

    Parameters
    ----------
    spec
        What is to be run; see :func:`suits`.
    rows : ndarray of shape (n, d)
        The rows of all clients, one client after the other.
    offsets : ndarray of shape (n_clients + 1,)
        Client c owns the rows from ``offsets[c]`` up to ``offsets[c + 1]``.
    schedule
        Who takes part when; None: everybody, always.
    trace
        Receives the events: one for all hellos, one for all answers of a round.
    clock
        Returns the wall-clock time stamped on events (None: no stamp).

    Returns
    -------
    outcome
        What :func:`simulate` returns for the same clients, but for bytes, which are
        those of the messages' arrays alone.
    """
    if offsets[0] != 0 or offsets[-1] != rows.shape[0]:
        raise InputError(
            f"offsets run from {offsets[0]} to {offsets[-1]}: they must begin with 0 "
            f"and end with the number of rows, {rows.shape[0]}"
        )
    if not suits(spec, rows, offsets, schedule):
        raise InputError(
            "this run cannot be simulated as a crowd: it takes preset 'default', "
            "privacy 'summary' or 'secure', plain rounds and small clients; "
            "use the ordinary simulator"
        )
    schedule = schedule if schedule is not None else Schedule()
    schedule.bind(offsets.shape[0] - 1, spec.seed)
    with Threads() as threads:
        run = CrowdRun(spec, rows, offsets, schedule, threads, trace, clock)
        run.start()
        return run.outcome(run.rounds())


class CrowdRun:
    """One simulation of a crowd: agreement, hellos, rounds, labels."""

    def __init__(
        self,
        spec: Spec,
        rows: Floats,
        offsets: Ints,
        schedule: Schedule,
        threads: Threads,
        trace: Trace | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.spec = spec
        self.trace = trace if trace is not None else Trace()
        self.round = 0
        self._clock = clock
        self._threads = threads
        self._draws = _Draws(schedule, spec.seed, offsets.shape[0] - 1)
        self._params = spec.method.parameters(**spec.options)
        requirements(spec.method, spec.options, spec.scale, offsets.shape[0] - 1)
        level = parse_level(self._params.privacy)
        given = Crowd(np.ascontiguousarray(rows, dtype=np.float64), offsets)
        self._refuse_small(given.sizes, level)
        self._say(
            "run",
            schema=SCHEMA,
            run=spec.run,
            method=spec.method.name,
            parameters=dict(spec.options),
            seed=spec.seed,
            clients=list(spec.names),
        )
        self.box = self._agreed(given, level)
        self.crowd = Crowd(self.box.scale(given.rows), offsets)
        kind = Cohorts if level.secure else Summaries
        self.level = kind(self.crowd, self._params, spec.seed, threads)
        self._messages = np.zeros(offsets.shape[0] - 1, dtype=np.int64)
        self._bytes = np.zeros(offsets.shape[0] - 1, dtype=np.int64)

    def _refuse_small(self, sizes: Ints, level: Level) -> None:
        """Refuse clients with too few rows for a group or a cell."""
        least = max(self._params.min_cell, level.group)
        small = np.flatnonzero(sizes < least)
        if not small.size:
            return
        n = int(sizes[small[0]])
        names = self.spec.names
        who = names[small[0]] if names else f"client {small[0]}"
        raise InputError(
            f"{who}: this client has {n} {'row' if n == 1 else 'rows'}, fewer than "
            f"a cell or group of {least}: merge it with another client or lower "
            "min_cell"
        )

    def _agreed(self, given: Crowd, level: Level) -> Box:
        """Step 0: the box, from the clients' extremes or as given."""
        n, d = given.rows.shape
        low = high = np.empty(0)
        if isinstance(self.spec.scale, str) and level.group:
            low, high = private.extremes(given, level.group, self._threads)
        elif isinstance(self.spec.scale, str):
            low, high = given.rows.min(axis=0), given.rows.max(axis=0)
        return agreed_box(self.spec.scale, [Ranges(n, d, low, high)])

    # -------------------------------------------------------------- the run

    def start(self) -> None:
        """Hear everybody's hello, and let the server think."""
        self._hear("hellos", self.level.greet(), rows=int(self.crowd.rows.shape[0]))
        self.prepare()

    def rounds(self) -> str:
        """Run to the end; return why it ended."""
        while not self.level.done():
            if self.round >= self.spec.max_rounds:
                return "max_rounds"
            self.one_round()
        return "done"

    def one_round(self) -> None:
        """Let whoever is there and wanted answer."""
        self.round += 1
        wanted = self.level.wanted()
        there = wanted[self._draws.take_part(wanted, self.round)]
        if there.size:
            self.hear(there)
        self.level.end_round()
        if there.size:
            self.prepare()

    def hear(self, clients: Ints) -> None:
        """Let these clients answer."""
        self._hear("updates", self.level.answer(clients))

    def prepare(self) -> None:
        """Let the server think, and say what it has come to."""
        self.level.prepare()
        self._say("prepare", round=self.round, **self.level.progress())

    def _hear(self, event: str, said: Round, **facts: Any) -> None:
        self._messages[said.clients] += 1
        self._bytes[said.clients] += said.array_bytes
        self._say(
            event,
            clients=int(said.clients.shape[0]),
            array_bytes=int(said.array_bytes.sum()),
            **facts,
            **said.facts,
        )

    def _say(self, event: str, **fields: Any) -> None:
        stamp = {} if self._clock is None else {"at": self._clock()}
        self.trace.add(event, tick=self.round, **fields, **stamp)

    # -------------------------------------------------------------- the end

    def outcome(self, reason: str) -> Outcome:
        """Label everybody's rows; clusters by size, largest first."""
        clustering = self.level.result()
        self._say(
            "end",
            round=self.round,
            k=clustering.k,
            reason=reason,
            messages=int(self._messages.sum()),
            bytes=int(self._bytes.sum()),
        )
        raw = self.spec.method.label(clustering, self.crowd.rows, None, None)
        sizes = np.bincount(raw, minlength=clustering.k)
        order = np.argsort(-sizes, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.shape[0])
        labels = rank[raw]
        edges = self.crowd.offsets.tolist()
        return Outcome(
            self._finished(clustering),
            renumbered(clustering, order, sizes.astype(np.float64)),
            rank,
            tuple(labels[a:b] for a, b in zip(edges, edges[1:], strict=False)),
        )

    def _finished(self, clustering: Any) -> Finished:
        spec = self.spec
        columns = (self.crowd.sizes, self._messages, self._bytes)
        tallies = {
            client: Tally(*each)
            for client, each in enumerate(
                zip(*(column.tolist() for column in columns), strict=True)
            )
        }
        terms = Terms(
            spec.run,
            spec.method.name,
            json.dumps(dict(spec.options), sort_keys=True),
            spec.seed,
            -1,
            self.box,
            self.crowd.rows.shape[0],
        )
        return Finished(
            clustering, self.level.state, terms, self.round, tallies, self.trace
        )


class _Draws:
    """Who takes part in a round, drawn as the ordinary schedule draws it."""

    def __init__(self, schedule: Schedule, seed: int, n_clients: int) -> None:
        self._seed = seed
        self._chance: Floats = np.ones(n_clients)
        if isinstance(schedule, Rounds):
            if isinstance(schedule.probability, str):
                everybody = np.arange(n_clients)
                self._chance = self._draw(everybody, (PROBABILITY, everybody))
            else:
                self._chance[:] = schedule.probability

    def _draw(self, clients: Ints, key: tuple[int | Ints, ...]) -> Floats:
        once = np.ones(clients.shape[0], dtype=np.int64)
        return uniforms(self._seed, (SCHEDULE, *key), once)

    def take_part(self, clients: Ints, round: int) -> Bools:
        """Return which of these clients take part in this round."""
        chance = self._chance[clients]
        there: Bools = chance >= 1.0
        if not there.all():
            there |= self._draw(clients, (PART, clients, round)) < chance
        return there
