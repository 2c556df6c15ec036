# SPDX-License-Identifier: Apache-2.0
"""FedSC's constants and what its clients and server say to each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import payload
from afcl.exceptions import InputError
from afcl.methods.rival import KnownK, check_at_least, expect, is_table

#: Atoms of a dictionary at most.
ATOMS = 100
#: Rows per atom at least.
ROWS_PER_ATOM = 4
#: Numbers beyond this do not travel.
BOUND = 1e12
#: Receipts are below this.
RECEIPTS = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class FedSpectralParams(KnownK):
    """Constants of FedSC.

    Attributes
    ----------
    rounds
        S, rounds in which the dictionary is learned.
    atoms
        d_z, size of the dictionary; None: min(100, n / 4).
    penalty
        lambda of the codes.
    width
        s^2 of the kernel exp(-|x - y|^2 / (2 s^2)); None: 2 tr(Cov).
    max_rows
        About so many rows are coded for the server in all.
    share
        Share of its rows that a client codes; None: follows `max_rows`.
    neighbours
        Largest similarities of a row that the graph keeps; None: the logarithm of the
        number of coded rows, 0: all.
    """

    rounds: int = 20
    atoms: int | None = None
    penalty: float = 1e-3
    width: float | None = None
    max_rows: int = 3000
    share: float | None = None
    neighbours: int | None = None

    def __post_init__(self) -> None:
        KnownK.__post_init__(self)
        check_at_least(self, 1, "rounds", "atoms", "max_rows")
        for name in ("penalty", "width"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be positive, not {value}")
        if self.share is not None and not 0 < self.share <= 1:
            raise InputError(f"share must lie in (0, 1], not {self.share}")
        if self.neighbours is not None and self.neighbours < 0:
            raise InputError(f"neighbours must be 0 or more, not {self.neighbours}")

    def settled(self, n_rows: int) -> FedSpectralParams:
        """Fix what follows the number of rows in all."""
        return replace(
            self,
            atoms=self.atoms or max(1, min(ATOMS, n_rows // ROWS_PER_ATOM)),
            share=self.share or min(1.0, self.max_rows / max(1, n_rows)),
        )

    def coded(self, n_rows: int) -> int:
        """Rows that a client of `n_rows` rows codes for the server."""
        assert self.share is not None
        return max(1, int(n_rows * self.share))


@payload
@dataclass(frozen=True, slots=True)
class SpectralMoments:
    """Sum of a client's rows and of their squared lengths.

    Reveals the mean of the rows and their total variance.
    """

    total: Floats
    squares: float


@payload
@dataclass(frozen=True, slots=True)
class SpectralPlan:
    """The dictionary and the kernel's width; `final` asks for codes.

    Reveals points that every client's rows have shaped.
    """

    atoms: Floats
    width: float
    final: bool


@payload
@dataclass(frozen=True, slots=True)
class SpectralAtoms:
    """A client's step of the dictionary; reveals where its rows draw the atoms."""

    atoms: Floats


@payload
@dataclass(frozen=True, slots=True)
class SpectralCodes:
    """Codes of a client's rows, one row each, and a random receipt.

    **Reveals the kernel between these and all other coded rows**, and with the
    dictionary much of where they lie.
    """

    codes: Floats
    receipt: int


@payload
@dataclass(frozen=True, slots=True)
class SpectralMemory:
    """A client's own: which rows it coded, and the receipt it gave."""

    drawn: Ints
    receipt: int


def check_moments(reply: Any, n_rows: int) -> int:
    """Refuse moments that so many rows cannot have; return their width."""
    expect(
        isinstance(reply, SpectralMoments)
        and isinstance(reply.total, np.ndarray)
        and reply.total.dtype == np.float64
        and reply.total.ndim == 1
        and reply.total.shape[0] >= 1
        and bool(np.all(np.abs(reply.total) <= n_rows * BOUND)),
        "the sum of the rows",
    )
    least = float(reply.total @ reply.total) / n_rows
    expect(
        type(reply.squares) in (int, float)
        and math.isfinite(reply.squares)
        and reply.squares >= least * (1.0 - 1e-9),
        "a sum of squares that fits the sum of the rows",
    )
    return int(reply.total.shape[0])


def check_atoms(reply: SpectralAtoms, shape: tuple[int, ...]) -> None:
    """Refuse anything but a dictionary of this shape."""
    expect(_fits(reply.atoms, shape), f"a dictionary of shape {shape}")


def check_codes(reply: Any, shape: tuple[int, ...]) -> None:
    """Refuse anything but codes of this shape with a receipt."""
    expect(
        isinstance(reply, SpectralCodes)
        and _fits(reply.codes, shape)
        and type(reply.receipt) is int
        and 0 <= reply.receipt < RECEIPTS,
        f"a dictionary, or codes of shape {shape} and a receipt",
    )


def _fits(array: Any, shape: tuple[int, ...]) -> bool:
    return (
        is_table(array) and array.shape == shape and bool(np.all(abs(array) <= BOUND))
    )
