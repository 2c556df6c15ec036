# SPDX-License-Identifier: Apache-2.0
"""What the server asks of a client; each request says everything the client needs.

A client keeps nothing between requests but its rows and its method's memory, so that
it may run as a new process every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core.messages import Places, payload, refuse_unless
from afcl.core.protocol import Clustering, PathLevel, Scores
from afcl.scale import Box
from afcl.texts import plain

#: Longest name of a run or of a method.
LONGEST_NAME = 200
#: Longest options, as JSON: they are parsed at every site.
LONGEST_OPTIONS = 1 << 16
#: Most levels of a category.
MOST_LEVELS = 1000
# How names of levels travel; each way reveals less than the one before.
#: As they are.
CLEAR = "clear"
#: As hashes.
HASHED = "hashed"
#: Only those that were declared, and not found in rows.
DECLARED = "declared"
NAMES = (CLEAR, HASHED, DECLARED)


def check_run(run: str) -> None:
    """Refuse a name of a run that nobody would want in a file or on a terminal."""
    refuse_unless(
        len(run) <= LONGEST_NAME and run.isprintable(),
        f"a run is named by at most {LONGEST_NAME} printable characters",
    )


@payload
@dataclass(frozen=True, slots=True)
class Category:
    """A column of kinds and the levels of it that count, in the order of their columns.

    Reveals the names of levels, or if they are `hashed` what can be compared with them.
    """

    name: str
    levels: tuple[str, ...] = ()
    hashed: bool = False

    def __post_init__(self) -> None:
        refuse_unless(
            len(self.levels) <= MOST_LEVELS
            and all(len(text) <= LONGEST_NAME for text in (self.name, *self.levels)),
            f"a category has at most {MOST_LEVELS} levels, named by at most "
            f"{LONGEST_NAME} characters",
        )


@payload
@dataclass(frozen=True, slots=True)
class Terms:
    """The agreement: method and its options (JSON), root seed, box, rows in all.

    `columns` are the agreed ones by name and in order; none: all columns, as they are.
    Those of `categories` are among them, one for every level (`colour=red`).
    """

    run: str
    method: str
    options: str
    seed: int
    client: int
    box: Box
    n_rows: int
    columns: tuple[str, ...] = ()
    categories: tuple[Category, ...] | None = None

    def __post_init__(self) -> None:
        check_run(self.run)
        refuse_unless(
            len(self.method) <= LONGEST_NAME and len(self.options) <= LONGEST_OPTIONS,
            f"a method is named by at most {LONGEST_NAME} characters, and has options "
            f"of at most {LONGEST_OPTIONS}",
        )


@payload
@dataclass(frozen=True, slots=True)
class AskRanges:
    """Step 0: how many rows and features, and (if `extremes`) the column extremes.

    With `group` above 1 they are those of the means of groups of so many rows. With
    `quantiles` a few of these are asked for as well, always the same ones.
    """

    run: str
    extremes: bool
    group: int = 1
    quantiles: bool | None = None


@payload
@dataclass(frozen=True, slots=True)
class AskHello:
    """First contact: say hello under these terms."""

    terms: Terms


@payload
@dataclass(frozen=True, slots=True)
class AskStep:
    """A broadcast of `version`, to be answered as the client's `contact`-th message."""

    terms: Terms
    version: int
    contact: int
    payload: Any


@payload
@dataclass(frozen=True, slots=True)
class AskAnnouncement:
    """Asks a site who it is, for its columns and (if `extremes`) their ranges.

    With `group` above 1 these are of the means of groups of so many rows. An enrolled
    site signs the `challenge`, so that nobody else can answer for it. `categories` are
    categories for everybody, with levels or without; `names` says how the names of
    other levels travel. `max_rows` are the rows that the site may declare, for its
    people to know.
    """

    run: str
    extremes: bool
    group: int = 1
    challenge: str = ""
    categories: tuple[Category, ...] = ()
    names: str = CLEAR
    max_rows: int | None = None

    def __post_init__(self) -> None:
        check_run(self.run)


@payload
@dataclass(frozen=True, slots=True)
class Refusal:
    """Tells a site that it does not fit; the reason says what to do about it.

    It is a plain line from the moment it is made, wherever that is.
    """

    run: str
    reason: str

    def __post_init__(self) -> None:
        check_run(self.run)
        object.__setattr__(self, "reason", plain(self.reason))


@payload
@dataclass(frozen=True, slots=True)
class AnswerLevel:
    """One k of the path: its centres, sizes and scores (NaN: not defined).

    A :class:`~afcl.core.protocol.PathLevel` for the journey: a payload holds arrays,
    no dictionaries, and the names of the indices travel once with the answer.
    """

    k: int
    centers: Any
    sizes: Floats
    scores: Floats

    @classmethod
    def of(cls, level: PathLevel, indices: tuple[str, ...]) -> AnswerLevel:
        """Take what travels."""
        scores = _numbers(level.scores, indices)
        return cls(level.k, level.centers, level.sizes, scores)

    def level(self, indices: tuple[str, ...]) -> PathLevel:
        """Return the level again."""
        scores = _scores(indices, self.scores)
        return PathLevel(self.k, self.centers, self.sizes, scores)


@payload
@dataclass(frozen=True, slots=True)
class Answer:
    """A clustering as it travels to the clients at the end.

    Reveals to every client the centres, sizes and scores of every k considered, and
    what the method keeps for labelling rows; of clusters that are not round their
    places. Without these it is what it has always been.
    """

    centers: Any
    sizes: Floats
    indices: tuple[str, ...]
    scores: Floats
    path: tuple[AnswerLevel, ...]
    names: tuple[str, ...]
    values: tuple[Any, ...]
    places: Places | None = None

    @classmethod
    def of(cls, clustering: Clustering) -> Answer:
        """Take what travels."""
        indices = tuple(clustering.scores)
        names = tuple(sorted(clustering.extra))
        return cls(
            clustering.centers,
            clustering.sizes,
            indices,
            _numbers(clustering.scores, indices),
            tuple(AnswerLevel.of(level, indices) for level in clustering.path),
            names,
            tuple(clustering.extra[name] for name in names),
            clustering.places,
        )

    def clustering(self) -> Clustering:
        """Return the clustering again (without seeds and merges)."""
        if self.places is not None:
            self.places.check(np.atleast_2d(self.centers).shape[1], self.sizes.shape[0])
        return Clustering(
            self.centers,
            self.sizes,
            _scores(self.indices, self.scores),
            tuple(level.level(self.indices) for level in self.path),
            extra=dict(zip(self.names, self.values, strict=True)),
            places=self.places,
        )


@payload
@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over: label your rows by this answer; `facts` is JSON for people."""

    terms: Terms
    answer: Answer
    facts: str


@payload
@dataclass(frozen=True, slots=True)
class Noted:
    """A client has heard a refusal or the end; reveals nothing."""

    run: str


@payload
@dataclass(frozen=True, slots=True)
class AskNews:
    """Asks a site that stays, between two answers, whether there is a reason for more.

    With `over` there will be no further answer.
    """

    run: str
    over: bool = False

    def __post_init__(self) -> None:
        check_run(self.run)


@payload
@dataclass(frozen=True, slots=True)
class News:
    """What a site that stays says between two answers.

    Reveals whether its rows have changed since the answer it took part in last, whose
    number is `begun` (0: none), and nothing else of them.
    """

    run: str
    name: str
    begun: int
    changed: bool

    def __post_init__(self) -> None:
        check_run(self.run)
        object.__setattr__(self, "name", plain(self.name))


@payload
@dataclass(frozen=True, slots=True)
class Aside:
    """Answers a request of a site that takes no part from then on.

    Reveals that fewer than a cell of its rows can be described, or that it does not
    accept the terms: then the reason, a plain line, says which. At the end it hears the
    answer like everybody else.
    """

    run: str
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", plain(self.reason))


def _numbers(scores: Scores, indices: tuple[str, ...]) -> Floats:
    known = [scores.get(name) for name in indices]
    return np.array([np.nan if v is None else v for v in known], dtype=np.float64)


def _scores(indices: tuple[str, ...], values: Floats) -> Scores:
    return {
        name: None if np.isnan(value) else float(value)
        for name, value in zip(indices, values, strict=True)
    }
