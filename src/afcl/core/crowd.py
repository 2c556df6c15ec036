# SPDX-License-Identifier: Apache-2.0
"""A crowd: very many small clients of the default preset, worked on together.

What :mod:`core.client` computes for one client is computed here for many in one call,
and what the server remembers of them are columns instead of one object per client. The
rules are the same ones: :class:`CrowdState` says what its bags are, and
:mod:`core.rebuild` does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from afcl._typing import Bools, ClientId, Floats, Ints
from afcl.core.batch import (
    Batch,
    Crowd,
    Spread,
    at_once,
    no_cells,
    offsets_of,
    one_after_another,
    room,
    updated,
)
from afcl.core.client import HELLO_ITERATIONS
from afcl.core.draws import uniforms
from afcl.core.messages import Cells, Plan
from afcl.core.params import DefaultParams
from afcl.core.protocol import CLIENT
from afcl.core.state import ANSWERS, ServerState

# ------------------------------------------------------------------ clients


@dataclass(frozen=True, slots=True)
class Views:
    """What several clients say about one candidate level."""

    cells: Batch
    simplified: Floats
    moment: Floats


@dataclass(frozen=True, slots=True)
class Replies:
    """What several clients answer to a plan, in the order of `clients`."""

    clients: Ints
    cells: Batch
    levels: tuple[Views, ...]

    @property
    def array_bytes(self) -> Ints:
        """Bytes of the arrays that each client sends: cells with their owners."""
        sizes = self.cells.sizes + sum(level.cells.sizes for level in self.levels)
        bytes_each: Ints = sizes * 8 * (self.cells.cells.means.shape[1] + 3)
        return bytes_each


@dataclass(frozen=True, slots=True)
class Stands:
    """What cells that stand for a crowd's rows hold, where they take their place.

    Attributes
    ----------
    weights, scatters
        Of every cell.
    rows
        Number of rows of every client.
    """

    weights: Floats
    scatters: Floats
    rows: Ints


def condense(
    crowd: Crowd,
    clients: Ints,
    params: DefaultParams,
    seed: int,
    stands: Stands | None = None,
) -> Batch:
    """Return the cells of these clients' hellos; see :func:`client.condense`.

    With `stands`, the crowd's rows are the means of cells.
    """
    from afcl.kernels.crowd_hellos import condense as kernel

    sizes = crowd.offsets[clients + 1] - crowd.offsets[clients]
    if stands is None:
        weights, scatters = np.ones(int(sizes.max(initial=0))), np.empty(0)
    else:
        weights, scatters = stands.weights, stands.scatters
        sizes = stands.rows[clients]
    known, inverse = np.unique(sizes, return_inverse=True)
    wanted = np.array([params.cells_for(n) for n in known.tolist()])[inverse]
    drawn = uniforms(seed, (CLIENT, clients, 0), wanted)
    places = offsets_of(wanted)
    held = np.zeros(clients.shape[0], dtype=np.int64)
    out = room(int(places[-1]), crowd.rows.shape[1])
    kernel(
        crowd.rows,
        weights,
        scatters,
        crowd.offsets,
        clients,
        wanted,
        drawn,
        HELLO_ITERATIONS,
        params.min_cell,
        places,
        held,
        *out,
    )
    return _packed(places, held, out)


def replies(
    crowd: Crowd,
    clients: Ints,
    plan: Plan,
    params: DefaultParams,
    spread: Spread = at_once,
) -> Replies:
    """Return these clients' answers to a plan; see :func:`client.reply`."""

    def asked(centers: Floats, spreads: Floats, sizes: Floats) -> Views:
        about = (np.ascontiguousarray(centers), spreads, sizes, params.min_cell)
        return _joined(spread(lambda some: _views(crowd, some, *about), clients))

    none = np.empty(0)
    cells = asked(plan.seeds, none, none).cells
    levels = plan.candidates
    said = tuple(asked(each.centers, each.spreads, each.counts) for each in levels)
    return Replies(clients, cells, said)


def _views(
    crowd: Crowd,
    clients: Ints,
    centers: Floats,
    spreads: Floats,
    sizes: Floats,
    min_cell: int,
) -> Views:
    from afcl.kernels.crowds import around

    rows = crowd.offsets[clients + 1] - crowd.offsets[clients]
    most = np.maximum(1, rows // min_cell)
    places = offsets_of(np.minimum(most, centers.shape[0]))
    n = clients.shape[0]
    held = np.zeros(n, dtype=np.int64)
    simplified, moment = np.empty(n), np.empty(n)
    out = room(int(places[-1]), crowd.rows.shape[1])
    around(
        crowd.rows,
        crowd.offsets,
        clients,
        centers,
        spreads,
        sizes,
        min_cell,
        places,
        held,
        *out,
        simplified,
        moment,
    )
    return Views(_packed(places, held, out), simplified, moment)


def _packed(places: Ints, held: Ints, out: tuple[Ints, Floats, Floats]) -> Batch:
    from afcl.kernels.crowds import pack

    n = pack(places[:-1], held, *out)
    counts, means, scatters = out
    return Batch(Cells(counts[:n], means[:n], scatters[:n]), offsets_of(held))


def _joined(parts: Sequence[Views]) -> Views:
    return Views(
        one_after_another([part.cells for part in parts]),
        np.concatenate([part.simplified for part in parts]),
        np.concatenate([part.moment for part in parts]),
    )


# ------------------------------------------------------------------ server


def _no_ints() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class CrowdState(ServerState):
    """What the server knows of a crowd, column by column.

    Attributes
    ----------
    cells
        The finest cells of every client.
    sizes
        Rows of every client.
    contacted
        Messages of every client, its hello included.
    answered
        Answers of every client to the version `about`.
    views
        What was replied about each candidate of that version, nothing of a client that
        has not.
    """

    cells: Batch = field(default_factory=lambda: no_cells(0, 1))
    sizes: Ints = field(default_factory=_no_ints)
    contacted: Ints = field(default_factory=_no_ints)
    answered: Ints = field(default_factory=_no_ints)
    views: tuple[Views, ...] = ()
    about: int = -1

    def bag(self) -> Cells:
        """R2: the union of all memories, by client id, then cell."""
        return self.cells.cells

    def total_rows(self) -> int:
        """Return the rows of all clients that said hello."""
        return int(self.sizes.sum())

    def level_bag(self, position: int) -> Cells:
        """R6: what was replied about a candidate, and the memory of who is silent."""
        where = np.where(self.replied(), np.arange(self.sizes.shape[0]), -1)
        return updated(self.cells, self.views[position].cells, where).cells

    def silent_bag(self) -> Cells:
        """Return the memory of the clients that have not replied to this version."""
        return self.cells.take(np.flatnonzero(~self.replied())).cells

    def replied_sums(self, position: int) -> tuple[float, float]:
        """Return the replied sums of silhouettes about a candidate."""
        views = self.views[position]
        return float(views.simplified.sum()), float(views.moment.sum())

    def replied(self) -> Bools:
        """Return which clients have replied to this version."""
        if self.about != self.version:
            return np.zeros(self.sizes.shape[0], dtype=np.bool_)
        replied: Bools = self.answered > 0
        return replied

    def wanted(self) -> Bools:
        """Return which clients' answers would still help."""
        enough = np.zeros_like(self.replied())
        if self.about == self.version:
            enough = self.answered >= ANSWERS
        wanted: Bools = ~enough & (self.contacted < self.params.contacts)
        return wanted

    def active(self) -> list[ClientId]:
        """Clients that said hello; nobody leaves a crowd."""
        return list(range(self.sizes.shape[0]))

    def satisfied(self, client: ClientId) -> bool:
        """Whether nothing more is wanted from this client for now."""
        return not self.wanted()[client]


def absorb_hellos(state: CrowdState, cells: Batch, sizes: Ints) -> CrowdState:
    """R1: remember the cells of every client."""
    return replace(
        state,
        n_features=cells.cells.means.shape[1],
        cells=cells,
        sizes=sizes,
        contacted=np.ones(sizes.shape[0], dtype=np.int64),
        answered=np.zeros(sizes.shape[0], dtype=np.int64),
        need_seed=True,
        dirty=True,
    )


def absorb_replies(state: CrowdState, said: Replies) -> tuple[CrowdState, int]:
    """R4, the cheap part, for answers to the newest version.

    A finer memory is never exchanged for a coarser one; returned beside the state is
    how many clients' memories became as fine or finer.
    """
    n = state.sizes.shape[0]
    clients = said.clients
    finer = said.cells.sizes >= state.cells.sizes[clients]
    where = np.full(n, -1, dtype=np.int64)
    where[clients[finer]] = np.flatnonzero(finer)
    everybody = np.full(n, -1, dtype=np.int64)
    everybody[clients] = np.arange(clients.shape[0])
    first = state.about != state.version
    views = _nothing_said(state) if first else state.views
    answered = np.zeros(n, dtype=np.int64) if first else state.answered.copy()
    answered[clients] += 1
    contacted = state.contacted.copy()
    contacted[clients] += 1
    absorbed = replace(
        state,
        cells=updated(state.cells, said.cells, where),
        contacted=contacted,
        answered=answered,
        views=tuple(
            _renewed(old, new, everybody)
            for old, new in zip(views, said.levels, strict=True)
        ),
        about=state.version,
        moved=state.moved or bool(finer.any()),
        stale=True,
    )
    return absorbed, int(finer.sum())


def _nothing_said(state: CrowdState) -> tuple[Views, ...]:
    n = state.sizes.shape[0]
    none = Views(no_cells(n, state.n_features), np.zeros(n), np.zeros(n))
    return (none,) * len(state.candidates)


def _renewed(old: Views, new: Views, where: Ints) -> Views:
    simplified, moment = old.simplified.copy(), old.moment.copy()
    fresh = where >= 0
    simplified[fresh] = new.simplified[where[fresh]]
    moment[fresh] = new.moment[where[fresh]]
    return Views(updated(old.cells, new.cells, where), simplified, moment)
