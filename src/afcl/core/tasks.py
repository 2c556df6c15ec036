# SPDX-License-Identifier: Apache-2.0
"""What a cohort is asked, what it answers, and how the answers are added up.

The server adds numbers that it cannot read: masked ones (:class:`Masks`), or encrypted
ones by another :class:`Scheme` that the privacy level brings along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import Cells, payload, refuse_unless

#: One unit of the fixed-point numbers that are masked and summed.
UNIT = 2.0**-16
#: What a cohort is asked for first: rows per seed.
COUNT = "count"
#: What it is asked for then: sums per group of seeds.
SUM = "sum"
#: What the first member of a cohort with a key is asked for besides, and alone.
KEY = "key"
#: It also opens both sums.
OPEN_COUNT = "open count"
OPEN_SUM = "open sum"
#: How a sum is opened, by what was asked for.
OPENING = {COUNT: OPEN_COUNT, SUM: OPEN_SUM}


@payload
@dataclass(frozen=True, slots=True)
class SecureHello:
    """A client's cells by the companion level, and its public key (hex).

    Reveals what the companion level reveals.
    """

    cells: Cells
    key: str


@payload
@dataclass(frozen=True, slots=True)
class Task:
    """What one member of a cohort is asked for.

    `members` and `keys` are everybody's in the cohort, `place` is the member's own
    position among them; `groups` joins the seeds (each seed's group), one to one while
    rows are counted. In a cohort with a key, `public` is the key to encrypt under, and
    `total` the encrypted sum that the first member is asked to open. Reveals to the
    members who is in the cohort.
    """

    cohort: int
    phase: str
    members: tuple[int, ...]
    keys: tuple[str, ...]
    place: int
    seeds: Floats
    groups: Ints
    public: Ints | None = None
    total: Ints | None = None


@payload
@dataclass(frozen=True, slots=True)
class Part:
    """A member's answer: masked numbers, uniform to whoever lacks the masks.

    Reveals nothing by itself; the sum over the cohort reveals the cohort's counts
    (phase `count`) or its counts, sums and sums of squares per group (phase `sum`).
    In a cohort with a key the numbers of these two phases are bytes of ciphertexts, and
    the first member also sends the public key (phase `key`, reveals nothing) and the
    opened sums (`open count`, `open sum`: the cohort's numbers in the clear).
    """

    cohort: int
    phase: str
    values: Ints


@dataclass(frozen=True, slots=True)
class Parts:
    """What the members of one cohort in a group of simulated clients answer together.

    The sum of their parts: masks cancel in a cohort's sum, so a simulation forms it
    directly, of what each member would have masked. Never crosses a wire.
    """

    cohort: int
    members: tuple[ClientId, ...]
    values: Ints


class Scheme(Protocol):
    """How the server adds up numbers that it cannot read."""

    @property
    def keyed(self) -> bool:
        """Whether a cohort's first member makes a key, and opens the sums."""
        ...

    def check(self, phase: str, values: Ints, width: int, key: Ints | None) -> None:
        """Refuse what cannot be an answer in this phase; `width` numbers are due."""
        ...

    def add(self, parts: Sequence[Ints], key: Ints | None) -> Ints | None:
        """Return the sum of everybody's parts, None if they cannot be added."""
        ...


@dataclass(frozen=True, slots=True)
class Masks:
    """Numbers modulo 2^64 whose masks cancel in the sum."""

    @property
    def keyed(self) -> bool:
        """Nobody holds a key: the sum is in the clear."""
        return False

    def check(self, phase: str, values: Ints, width: int, key: Ints | None) -> None:
        """Refuse anything but so many numbers."""
        check_numbers(values, width)

    def add(self, parts: Sequence[Ints], key: Ints | None) -> Ints | None:
        """Add modulo 2^64."""
        total = np.zeros(parts[0].shape, dtype=np.uint64)
        for values in parts:
            total += values.view(np.uint64)
        return total.view(np.int64)


def check_numbers(values: Ints, width: int) -> None:
    """Refuse anything but `width` whole numbers of 64 bits."""
    refuse_unless(
        values.dtype == np.int64 and values.shape == (width,),
        f"expected {width} masked numbers, got {values.shape}",
    )


@dataclass(frozen=True, slots=True)
class Cohort:
    """A cohort at work.

    Attributes
    ----------
    members, seeds, groups
        Who is in it, and what is asked about.
    counts
        Rows per group, once they are known.
    parts, answered
        What was answered in this phase, and by whom.
    keyed, key, total
        Whether its first member holds a key, the public part of it, and the encrypted
        sum that waits to be opened.
    """

    members: tuple[ClientId, ...]
    seeds: Floats
    groups: Ints
    counts: Ints | None = None
    parts: dict[tuple[ClientId, ...], Ints] = field(default_factory=dict)
    answered: frozenset[ClientId] = frozenset()
    keyed: bool = False
    key: Ints | None = None
    total: Ints | None = None

    @property
    def question(self) -> str:
        """What its members are asked for, apart from keys."""
        return COUNT if self.counts is None else SUM

    @property
    def phase(self) -> str:
        """What is asked for now."""
        if self.keyed and self.key is None:
            return KEY
        return self.question if self.total is None else OPENING[self.question]

    @property
    def owing(self) -> tuple[ClientId, ...]:
        """Who is asked in this phase and has not answered."""
        everybody = self.phase in OPENING
        asked = self.members if everybody else self.members[:1]
        if not self.answered:
            return asked
        return tuple(client for client in asked if client not in self.answered)

    def cannot_spare(self, client: ClientId) -> bool:
        """Whether the question at hand stays open if this client is gone."""
        if client not in self.members:
            return False
        holder = self.keyed and client == self.members[0]
        return self.phase == KEY or holder or client in self.owing

    def having(self, members: tuple[ClientId, ...], values: Ints) -> Cohort:
        """Return the cohort that knows the sum of these members' parts."""
        return replace(
            self,
            parts={**self.parts, members: values},
            answered=self.answered.union(members),
        )

    def asked_next(self, **what: Any) -> Cohort:
        """Return the cohort in its next phase, in which nobody has answered."""
        return replace(self, parts={}, answered=frozenset(), **what)

    @property
    def width(self) -> int:
        """How many numbers are summed."""
        per_group = 1 if self.counts is None else self.seeds.shape[1] + 2
        return self.n_groups * per_group

    @property
    def n_groups(self) -> int:
        """Number of groups of seeds."""
        return int(self.groups.max()) + 1
