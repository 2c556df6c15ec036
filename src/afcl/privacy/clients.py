# SPDX-License-Identifier: Apache-2.0
"""A client of the default preset at every level: what it works on, what it sends.

A level decides once, in :func:`view`, what stands for the rows; everything a client
says afterwards is computed from that and so cannot say more.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from afcl._typing import Floats
from afcl.core import client
from afcl.core.checks import check_plan
from afcl.core.client import View
from afcl.core.cohorts import Part, SecureHello, Task
from afcl.core.messages import Addressed, Cells, Hello, Update
from afcl.core.params import DefaultParams
from afcl.core.rows import Rows, as_rows
from afcl.exceptions import RejectedMessage
from afcl.privacy import ckks, he, synopsis
from afcl.privacy.accountant import mu_of
from afcl.privacy.grouping import group_rows, grouped_cells
from afcl.privacy.levels import HE, Level, parse_level
from afcl.privacy.masks import Asked, Sealed, answer, public_key

#: Under `secure` the hello's cells lie on a grid of this width (of the unit box), so
#: that a cohort's exact sums minus a hello's cells are no exact rows.
GRID = 1 / 64


class Noisy:
    """Rows of a client at `dp-rounds`: every message draws its own noise.

    Attributes
    ----------
    rows
        The rows.
    key
        What the noise of every message is drawn from, 32 secret bytes.
    """

    def __init__(self, rows: Floats, rng: np.random.Generator) -> None:
        self.rows = rows
        self.key = rng.bytes(32)

    def draws(self, contact: str) -> np.random.Generator:
        """Return the noise of one message; the same message draws the same."""
        words = int.from_bytes(self.key, "little")
        name = int.from_bytes(contact.encode(), "little")
        return np.random.default_rng(np.random.SeedSequence([words, name]))


#: What a client works on, by level.
Working: TypeAlias = Floats | Rows | Cells | Sealed | Noisy


def view(X: Floats | Rows, params: DefaultParams, rng: np.random.Generator) -> Working:
    """Return what the level lets a client work on, formed once.

    Only `summary` reads rows part by part; the other levels need them all at once.
    """
    level = parse_level(params.privacy)
    if level.family == "summary":
        return X
    X = as_rows(X).table()
    if level.family == "dp-rounds":
        return Noisy(X, rng)
    if level.scheme == HE:
        ckks.library()
    stands = _stands_for(X, level, params, rng)
    if not level.secure:
        return stands
    assert isinstance(stands, Cells)
    return Sealed(stands if level.private else X, stands, rng.bytes(32))


def _stands_for(
    X: Floats, level: Level, params: DefaultParams, rng: np.random.Generator
) -> Floats | Cells:
    """Return the rows, or the cells that stand for them."""
    if level.group:
        return grouped_cells(X, group_rows(X, level.group))
    if level.private:
        return synopsis.release(X, level.epsilon, level.delta, params.min_cell, rng)
    return X


def spends(params: DefaultParams, contact: int) -> float:
    """Return what a message costs a row's privacy (mu of Gaussian DP), 0 for none."""
    level = parse_level(params.privacy)
    if not level.private:
        return 0.0
    mu = mu_of(level.epsilon, level.delta)
    if level.family == "dp-rounds":
        return mu / math.sqrt(params.contacts)
    return mu if contact == 0 else 0.0


def hello(X: Working, params: DefaultParams, rng: np.random.Generator) -> Hello:
    """Return the first message."""
    if isinstance(X, Sealed):
        cells = _said(X.cells, params, rng)
        said = SecureHello(on_grid(cells), public_key(X.secret))
        return Hello(int(X.cells.counts.sum()), said)
    if isinstance(X, Noisy):
        cells = _noisy_hello(X, params)
        return Hello(X.rows.shape[0], cells)
    return Hello(client.rows_in(X), _said(X, params, rng))


def _said(X: View, params: DefaultParams, rng: np.random.Generator) -> Cells:
    """Return the hello's cells; a released synopsis is sent as it is."""
    if isinstance(X, Cells) and parse_level(params.privacy).private:
        return X
    return client.condense(X, params, rng)


def on_grid(cells: Cells) -> Cells:
    """Return cells whose means and mean squared radii are rounded to a grid."""
    radii = np.rint(cells.scatters / cells.counts / GRID**2) * GRID**2
    return Cells(cells.counts, np.rint(cells.means / GRID) * GRID, radii * cells.counts)


def step(
    said: Any, X: Working, memory: Any, params: DefaultParams
) -> tuple[Update, Any]:
    """Return the answer to a broadcast, and what the client remembers."""
    if isinstance(X, Sealed):
        if not isinstance(said, Addressed) or not isinstance(said.own, Task):
            raise RejectedMessage("a client under 'secure' answers tasks only")
        if parse_level(params.privacy).scheme == HE:
            held = memory if isinstance(memory, he.Held) else None
            return _update(he.answer(said.own, X, held, params.min_cell))
        known = memory if isinstance(memory, Asked) else None
        return _update(answer(said.own, X, known))
    if isinstance(X, Noisy):
        contact = 1 if memory is None else int(memory) + 1
        if contact >= params.contacts:
            raise RejectedMessage("this client has spent its epsilon")
        check_plan(said, X.rows.shape[1])
        noisy = _noisy_around(X, said.seeds, params, f"step {contact}")
        return Update(client.reply(noisy, said, params)), contact
    return Update(client.reply(X, said, params)), memory


def _update(answered: tuple[Part, Any]) -> tuple[Update, Any]:
    part, remembered = answered
    return Update(part), remembered


def _noisy_hello(X: Noisy, params: DefaultParams) -> Cells:
    """Return noisy cells around public centres, at one message's share of epsilon."""
    draws = X.draws("hello")
    k = min(40, params.cells_for(X.rows.shape[0]))
    centers = draws.random((k, X.rows.shape[1]))
    return synopsis.noisy_cells(
        X.rows, centers, spends(params, 0), params.min_cell, draws
    )


def _noisy_around(X: Noisy, centers: Floats, params: DefaultParams, name: str) -> Cells:
    share = spends(params, 1)
    draws = X.draws(name)
    return synopsis.noisy_cells(X.rows, centers, share, params.min_cell, draws)
