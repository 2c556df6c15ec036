# SPDX-License-Identifier: Apache-2.0
"""What a cohort is asked, what it answers, and how the answers are added up.

A cohort is asked up to four kinds of questions (:class:`Question`): how many of its
rows lie in each part of a partition, how many members hold them, what the sums of these
parts are, and how good a few clusterings are. The server adds numbers that it cannot
read: masked ones (:class:`Masks`), or encrypted ones by another :class:`Scheme` that
the privacy level brings along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from afcl._typing import Bools, ClientId, Floats, Ints
from afcl.core.messages import Cells, Level, payload, refuse_unless

#: One unit of the fixed-point numbers that are masked and summed.
UNIT = 2.0**-20
#: Sums of squared distances in a score are rounded to this share of a cluster's spread,
#: so that the difference of two of them does not tell how far away a single row is.
COARSE = 1 / 16
#: Counts and sums of a cluster in a score: rows, squared distances, three of a valley.
PER_CLUSTER = 5
#: Sums of a whole clustering in a score: both silhouettes.
PER_LEVEL = 2

#: Partitions that lie inside each other: a coarse one, a finer one.
MOST_NESTED = 2

#: What a cohort is asked for: rows per part of a partition,
COUNT = "count"
#: members that hold rows of each part, and rows by which no member counts for many,
PRESENCE = "presence"
#: sums per part of it,
SUM = "sum"
#: how good a few clusterings are.
SCORE = "score"
#: What the first member of a cohort with a key is asked for besides, and alone.
KEY = "key"
#: How a sum is opened by who holds the key, by what was asked for.
OPENING = {
    COUNT: "open count",
    PRESENCE: "open presence",
    SUM: "open sum",
    SCORE: "open score",
}
#: A presence is two numbers in one: members, and from here on rows.
FIELD = 1 << 16


class Threshold(NamedTuple):
    """When the sums of a group may be read.

    Attributes
    ----------
    rows
        It holds so many rows, however few of them one member holds;
    holders
        and so many members hold some.
    """

    rows: int = 1
    holders: int = 1

    @property
    def cap(self) -> int:
        """Rows that one member counts for: so many holders of as many are enough."""
        return -(-self.rows // self.holders)

    def opened(self, presence: Ints) -> Bools:
        """Return which groups may be read, by how many members and rows they hold."""
        enough: Bools = presence % FIELD >= self.holders
        return enough & (presence // FIELD >= self.rows)


#: Sums may be read whoever holds the rows.
ANYBODY = Threshold()


@payload
@dataclass(frozen=True, slots=True)
class Proof:
    """Whose a mask key is: a site's name, the key it was enrolled with, a signature.

    Reveals to the members of a cohort what each of them is called, and its public key.
    """

    name: str
    identity: str
    signature: str


@payload
@dataclass(frozen=True, slots=True)
class SecureHello:
    """A client's cells by the companion level, and its public key (hex).

    Reveals what the companion level reveals, and by the `proof` of a site that was
    enrolled whose key it is.
    """

    cells: Cells
    key: str
    proof: Proof | None = None


@payload
@dataclass(frozen=True)
class SeedPartition:
    """How rows are told apart inside the groups of a coarser partition.

    A row that the coarser partition puts into group g goes to the nearest of the seeds
    whose parent is g, and to that seed's own group. So the groups of this partition lie
    inside the groups of the coarser one.

    Attributes
    ----------
    seeds : (m, d)
    parents : (m,)
        Group of the coarser partition, in increasing order; 0 where there is none.
    groups : (m,)
        Groups that seeds are joined to, numbered without gaps.
    """

    seeds: Floats
    parents: Ints
    groups: Ints

    @cached_property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups.max()) + 1

    @cached_property
    def starts(self) -> Ints:
        """Where the seeds of each parent begin, and the end of the last."""
        return np.searchsorted(self.parents, np.arange(int(self.parents[-1]) + 2))

    @cached_property
    def outer(self) -> Ints:
        """The parent of every group."""
        outer = np.zeros(self.n_groups, dtype=np.int64)
        outer[self.groups] = self.parents
        return outer

    @cached_property
    def origins(self) -> Floats:
        """The first seed of each group: what its sums are taken around."""
        return self.seeds[np.unique(self.groups, return_index=True)[1]]


@payload
@dataclass(frozen=True)
class Question:
    """What all members of a cohort are asked alike.

    Attributes
    ----------
    kind
        :data:`COUNT`, :data:`PRESENCE`, :data:`SUM` or :data:`SCORE`.
    partitions
        Coarser first; the last one's groups are counted or summed.
    levels
        The clusterings to be scored.
    opened
        Of every coarse group that is summed, 1 if enough members hold rows of it. To
        one that is 0 only who has enough rows of its own adds them; inside it, only who
        has enough in every part it holds.
    """

    kind: str
    partitions: tuple[SeedPartition, ...] = ()
    levels: tuple[Level, ...] = ()
    opened: Ints | None = None

    @cached_property
    def n_features(self) -> int:
        """Width of the table."""
        first = self.levels[0].centers if self.levels else self.partitions[0].seeds
        return int(first.shape[1])

    @cached_property
    def seconds(self) -> int:
        """Second moments of a group that is summed.

        Of the coarsest partition the variance of every column: finer seeds are placed
        by them. Of finer ones the scatter. Not covariances: those of a few rows of
        columns that are 0 or 1 count who has both, and tell the rows.
        """
        return 1 if len(self.partitions) > 1 else self.n_features

    @cached_property
    def units(self) -> Floats:
        """The unit of each number that is sent; their number is the answer's width."""
        if self.kind == SCORE:
            return np.concatenate([_score_units(level) for level in self.levels])
        k = self.partitions[-1].n_groups
        if self.kind in (COUNT, PRESENCE):
            return np.ones(k)
        each = np.full(1 + self.n_features + self.seconds, UNIT)
        each[0] = 1.0
        return np.tile(each, k)

    @property
    def width(self) -> int:
        """How many numbers are summed."""
        return int(self.units.shape[0])


def _score_units(level: Level) -> Floats:
    """Return the units of one clustering's numbers, cluster by cluster."""
    each = np.ones((level.spreads.shape[0], PER_CLUSTER))
    each[:, 1] = np.maximum(level.spreads * COARSE, UNIT)
    return np.concatenate([each.ravel(), np.full(PER_LEVEL, UNIT)])


@payload
@dataclass(frozen=True, slots=True)
class Evidence:
    """What shows a member that a group may be opened: everybody's masked presence.

    Attributes
    ----------
    groups : (seeds,)
        The groups that it was asked for; those that are summed are unions of them.
    parts : (members, groups)
        What every member has answered; their sum is in the clear.
    tags : (members, 2)
        By which each of them shows to this member that it is its own answer.
    """

    groups: Ints
    parts: Ints
    tags: Ints


@payload
@dataclass(frozen=True, slots=True)
class Task:
    """What one member of a cohort is asked for.

    `members` and `keys` are everybody's in the cohort, `place` is the member's own
    position among them. In a cohort with a key, `public` is the key to encrypt under,
    and `total` the encrypted sum that the first member is asked to open. `evidence`
    comes with sums. `proofs` say whose the keys are, if all members have given one.
    Reveals to the members who is in the cohort, aggregate positions, and how many
    members hold rows of each group.
    """

    cohort: int
    phase: str
    members: tuple[int, ...]
    keys: tuple[str, ...]
    place: int
    question: Question
    public: Ints | None = None
    total: Ints | None = None
    evidence: Evidence | None = None
    proofs: tuple[Proof, ...] | None = None


@payload
@dataclass(frozen=True, slots=True)
class Part:
    """A member's answer: masked numbers, uniform to whoever lacks the masks.

    Reveals nothing by itself; the sum over the cohort reveals the cohort's rows per
    seed (phase `count`), how many members hold rows of each group (`presence`), counts
    and moments of groups (`sum`), or counts, coarse sums of squared distances and of
    silhouettes of whole clusters (`score`). `tags` show every other member who said it.
    In a cohort with a key the numbers of these phases are bytes of ciphertexts, and
    the first member also sends the public key (phase `key`, reveals nothing) and the
    opened sums (`open ...`: the cohort's numbers in the clear).
    """

    cohort: int
    phase: str
    values: Ints
    tags: Ints | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """What the members of one cohort in a group of simulated clients answer together.

    The sum of their parts: masks cancel in a cohort's sum, so a simulation forms it
    directly, of what each member would have masked. Never crosses a wire.
    """

    cohort: int
    members: tuple[ClientId, ...]
    values: Ints
    tags: Ints | None = None


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


def check_numbers(values: Any, width: int, rows: int | None = None) -> None:
    """Refuse anything but `width` whole numbers of 64 bits, or `rows` times as many."""
    shape = (width,) if rows is None else (rows, width)
    refuse_unless(
        isinstance(values, np.ndarray)
        and values.dtype == np.int64
        and values.shape == shape,
        f"expected {shape} whole numbers, got {np.shape(values)}",
    )
