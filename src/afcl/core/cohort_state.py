# SPDX-License-Identifier: Apache-2.0
"""What the server under `secure` knows; what it does is in :mod:`core.cohorts`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from immutables import Map

from afcl._typing import ClientId, Floats, Ints
from afcl.core.cells import concatenate, nothing, take
from afcl.core.cohort import Cohort
from afcl.core.messages import Cells
from afcl.core.params import DefaultParams
from afcl.core.protocol import PathLevel
from afcl.core.state import Column, ServerState, total
from afcl.core.tasks import Masks, Proof, Scheme


@dataclass(frozen=True, slots=True)
class SecureState:
    """Everything the server knows.

    Of a group of simulated clients `hellos` and `rows` have one entry, under its first
    client's number: cells with offsets, a column.

    Attributes
    ----------
    hellos, rows, keys
        Of every client; a group's clients have no keys.
    waiting
        Clients without a cohort, in order of arrival.
    silent, idle
        Clients that cohorts have stopped waiting for, and rounds without any part.
    cohorts
        All cohorts that may be asked something, by their number.
    answered
        The cells of cohorts that have given sums, in the order in which they did.
    scores
        What cohorts have said of the candidates of this build.
    spoken
        Clients that sums are known of: their hellos are not used any more.
    spoilt
        Clients of cohorts one of whose sums could not be true.
    opened, refined
        Number of cohorts so far, and how often finer seeds were placed.
    inner, basis
        The default preset's state on what is known, one bag per cohort, and what it was
        built on: sums that are known, clients and rows in all.
    scheme
        How sums are made.
    n_features, bounded
        Columns that were agreed on, and whether a box was.
    proofs
        Whose the keys are, None of a client that does not say.
    """

    params: DefaultParams
    seed: int
    hellos: Map[ClientId, Cells] = field(default_factory=Map)
    rows: Map[ClientId, Column] = field(default_factory=Map)
    keys: Map[ClientId, str] = field(default_factory=Map)
    waiting: tuple[ClientId, ...] = ()
    left: frozenset[ClientId] = frozenset()
    silent: frozenset[ClientId] = frozenset()
    idle: int = 0
    cohorts: dict[int, Cohort] = field(default_factory=dict)
    answered: dict[int, Cells] = field(default_factory=dict)
    scores: dict[int, Floats] = field(default_factory=dict)
    spoken: frozenset[ClientId] = frozenset()
    spoilt: frozenset[ClientId] = frozenset()
    opened: int = 0
    refined: int = 0
    inner: ServerState | None = None
    basis: tuple[int, int, int] = (-1, 0, 0)
    dirty: bool = False
    version: int = 0
    scheme: Scheme = field(default_factory=Masks)
    n_features: int = -1
    bounded: bool = False
    proofs: Map[ClientId, Proof | None] = field(default_factory=Map)

    @property
    def working(self) -> dict[int, Cohort]:
        """Cohorts that are asked something now."""
        return {n: each for n, each in self.cohorts.items() if each.question}

    @property
    def candidates(self) -> tuple[PathLevel, ...]:
        """The clusterings that cohorts are asked about."""
        return () if self.inner is None else self.inner.candidates

    def present(self) -> tuple[ClientId, ...]:
        """Return who waits for a cohort and has neither left nor fallen silent."""
        away = self.left | self.silent
        if not away:
            return self.waiting
        return tuple(client for client in self.waiting if client not in away)

    @property
    def group(self) -> ClientId | None:
        """The first client of a group, if this is a group's server."""
        first = next(iter(self.rows), None)
        return None if first is None or first in self.keys else first

    def proofs_of(self, members: tuple[ClientId, ...]) -> tuple[Proof, ...] | None:
        """Return whose keys these clients' are, None if not all of them say so."""
        known = [self.proofs.get(client) for client in members]
        found = tuple(proof for proof in known if proof is not None)
        return found if len(found) == len(members) else None

    def rows_of(self, members: tuple[ClientId, ...]) -> int:
        """Return how many rows these clients hold."""
        if self.group is None:
            return sum(total(self.rows[client]) for client in members)
        column = self.rows[self.group]
        assert not isinstance(column, int)
        return int(column[np.array(members) - self.group].sum())

    @property
    def n_clients(self) -> int:
        """Clients that have said hello."""
        if self.group is None:
            return len(self.hellos)
        column = self.rows[self.group]
        assert not isinstance(column, int)
        return int(column.shape[0])

    def total_rows(self) -> int:
        """Return the rows of all clients."""
        return sum(total(rows) for rows in self.rows.values())

    def hellos_of(self, members: tuple[ClientId, ...]) -> Cells:
        """Return the cells of these clients' first messages."""
        if self.group is None:
            cells = concatenate([self.hellos[client] for client in members])
        else:
            cells = take(self.hellos[self.group], np.array(members) - self.group)
        return replace(cells, offsets=None)

    def hellos_of_others(self) -> tuple[Cells, Ints]:
        """Return the cells and rows of clients whose cohort has not answered."""
        if self.group is None:
            over = [c for c in sorted(self.hellos) if c not in self.spoken]
            rows = [total(self.rows[client]) for client in over]
            cells = [self.hellos[client] for client in over]
            none = nothing(self.n_features, 0)
            return concatenate([none, *cells]), np.array(rows, dtype=np.int64)
        column = self.rows[self.group]
        assert not isinstance(column, int)
        silent = np.ones(column.shape[0], dtype=np.bool_)
        silent[np.fromiter(self.spoken, np.int64) - self.group] = False
        others = np.flatnonzero(silent)
        return take(self.hellos[self.group], others), column[others]
