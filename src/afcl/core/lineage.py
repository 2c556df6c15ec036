# SPDX-License-Identifier: Apache-2.0
"""Which cluster of a new answer is which of the last one, and what became of the rest.

Two answers are compared on the cells that each of them rests on. Old and new cells are
put into old and new clusters by the nearest centre, which gives two tables: how much of
the old rows, and how much of the new ones, is in old cluster i and in new cluster j.
A pair is *linked* if it holds most of i or most of j, and is neither empty before nor
empty now. Linked pairs are matched so that as much as possible keeps its name.
See docs/decisions/0039-clusters-keep-their-names.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from afcl._typing import AnyArray, Bools, Floats, Ints
from afcl.core.messages import Cells
from afcl.core.protocol import Clustering
from afcl.kernels import assign, sums
from afcl.scale import Box

#: A pair is linked if it holds so much of its old or of its new cluster,
MOST = 0.5
#: and if its share of all rows has not grown or shrunk by more than so many times.
TIMES = 8.0
#: A cluster has drifted if its centre moved by so many of its own spreads in a column,
DRIFTED = 0.5
#: and by so many standard errors.
SURE = 4.0

Kind: TypeAlias = Literal["born", "split", "merged", "died", "drifted"]


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer as later ones are compared with it, in the units of the data.

    Attributes
    ----------
    columns
        What the columns are called; those that both answers have are compared.
    centers, spreads
        Of every cluster, (k, d): its centre, and how far its rows spread in a column.
    sizes
        Rows per cluster.
    span
        What stands for one unit of distance in every column.
    counts, means
        The cells it rests on.
    places, place_labels
        What rows are labelled by where clusters are not round; None: by their centres.
    """

    columns: tuple[str, ...]
    centers: Floats
    spreads: Floats
    sizes: Floats
    span: Floats
    counts: Ints
    means: Floats
    places: Floats | None = None
    place_labels: Ints | None = None

    @classmethod
    def of(cls, clustering: Clustering, box: Box, columns: Sequence[str]) -> Answered:
        """Take what is compared of an answer with centres, which is in agreed units.

        Where a server hears no cells, its clusters stand for them.
        """
        centers, cells = clustering.centers, clustering.cells
        assert centers is not None
        if cells is None:
            sizes = clustering.sizes
            cells = Cells(
                np.rint(sizes).astype(np.int64), centers, np.zeros(len(sizes))
            )
        places = clustering.places
        labels = assign(cells.means, centers)[0]
        if places is not None:
            labels = places.label(cells.means)
        return cls(
            tuple(columns),
            box.unscale(centers),
            spreads_of(cells, labels, centers) * box.span,
            clustering.sizes,
            box.span,
            cells.counts,
            box.unscale(cells.means),
            None if places is None else box.unscale(places.means),
            None if places is None else places.labels,
        )

    def labels(self, points: Floats) -> Ints:
        """Return the cluster of every point: the nearest centre's or place's."""
        known = self.centers if self.places is None else self.places
        labels: Ints = assign(points / self.span, known / self.span)[0]
        return labels if self.place_labels is None else self.place_labels[labels]

    def by_centers(self) -> Answered:
        """Return the same without its cells: its clusters stand for them, alike.

        Clusters that are not round are where their places are. None has rows enough for
        a drift: how far it moved would tell where it was.
        """
        means = self.centers if self.places is None else self.places
        none = np.full(len(self.centers), np.finfo(float).tiny)
        counts = np.ones(len(means), dtype=np.int64)
        return replace(self, sizes=none, counts=counts, means=means)

    def only(self, columns: tuple[str, ...]) -> Answered:
        """Return the same in these columns alone."""
        if columns == self.columns:
            return self
        at = [self.columns.index(name) for name in columns]
        return replace(
            self,
            columns=columns,
            centers=self.centers[:, at],
            spreads=self.spreads[:, at],
            span=self.span[at],
            means=self.means[:, at],
            places=None if self.places is None else self.places[:, at],
        )


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a cluster.

    Attributes
    ----------
    kind
        `born`: nothing was there before. `split`: one cluster is several now. `merged`:
        several are one now. `died`: nothing is there any more. `drifted`: it is
        elsewhere.
    before, after
        Names of the clusters it was and is, the one that keeps its name first.
    column, moved, spreads
        Of a drift: the column in which it is largest, how far, in the units of the data
        and in spreads of the cluster.
    """

    kind: Kind
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    column: str = ""
    moved: float = 0.0
    spreads: float = 0.0

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Change:
        """Return what was written as JSON, where tuples are lists."""
        before, after = tuple(fields["before"]), tuple(fields["after"])
        return cls(**{**fields, "before": before, "after": after})

    def described(self) -> dict[str, Any]:
        """Return it as JSON, in fields and in words."""
        return {**asdict(self), "text": str(self)}

    def __str__(self) -> str:
        """Say it in words."""
        if self.kind == "drifted":
            way, far = "up" if self.moved > 0 else "down", abs(self.moved)
            return (
                f"{self.after[0]} drifted: {self.column} {way} by {far:.4g} "
                f"({self.spreads:.1f} of its spreads)"
            )
        old, new = ", ".join(self.before), " and ".join(self.after)
        return {
            "born": f"{new} is new",
            "died": f"{old} is gone",
            "split": f"{old} is split into {new}",
            "merged": f"{' and '.join(self.before)} are one now, {new}",
        }[self.kind]


def succeeded(
    before: Answered, names: tuple[str, ...], after: Answered, used: int
) -> tuple[tuple[str, ...], tuple[Change, ...]]:
    """Name the clusters of an answer after those of the one before.

    Parameters
    ----------
    before, names
        The last answer and what its clusters are called.
    after
        The new answer.
    used
        How many names were ever given away: none is given twice.

    Returns
    -------
    names
        Of the new clusters.
    changes
        What is not as it was; drifts last.
    """
    common = tuple(name for name in before.columns if name in set(after.columns))
    before, after = before.only(common), after.only(common)
    was, now = _joint(before, after, before), _joint(before, after, after)
    links = _links(was, now)
    successor = _matched(np.sqrt(was * now), links)
    named = {new: names[old] for old, new in successor.items()}
    for new in range(after.sizes.shape[0]):
        if new not in named:
            # Never a name of the past: people would take it for the same cluster
            # (0039).
            named[new], used = f"c{used}", used + 1
    found = tuple(named[new] for new in range(len(named)))
    changes = [*_ends(links, names, found), *_beginnings(links, names, found)]
    for old, new in sorted(successor.items()):
        if links[old].sum() == links[:, new].sum() == 1:  # who splits or merges moves
            changes += _drift(before, after, old, new, found[new])
    return found, tuple(changes)


def spreads_of(cells: Cells, labels: Ints, centers: Floats) -> Floats:
    """Return the root mean square distance from the centre, by cluster and column.

    What lies within a cell is known over all columns together, and is taken to be alike
    in each.
    """
    k, width = centers.shape
    counts = cells.counts.astype(np.float64)
    away = counts[:, None] * (cells.means - centers[labels]) ** 2
    away += cells.scatters[:, None] / width
    scatter = sums(away, np.ones(len(cells)), labels, k)[1]
    rows = np.bincount(labels, counts, minlength=k)
    spreads: Floats = np.sqrt(scatter / np.maximum(rows, 1.0)[:, None])
    return spreads


def _joint(before: Answered, after: Answered, cells: Answered) -> Floats:
    """Return the share of an answer's rows in old cluster i and new cluster j."""
    k, new = before.sizes.shape[0], after.sizes.shape[0]
    pairs = before.labels(cells.means) * new + after.labels(cells.means)
    mass = np.bincount(pairs, cells.counts, minlength=k * new).reshape(k, new)
    shares: Floats = mass / mass.sum()
    return shares


def _links(was: Floats, now: Floats) -> Bools:
    """Return which old and new clusters have to do with each other."""
    of_old = was / np.maximum(was.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    of_new = now / np.maximum(now.sum(axis=0, keepdims=True), np.finfo(float).tiny)
    # In both answers' rows about as many: what only one of them has came or went.
    lasting = (np.minimum(was, now) * TIMES >= np.maximum(was, now)) & (was > 0)
    # Of either: a part of a split is mostly the old one, who merges goes mostly into
    # the new.
    links: Bools = lasting & ((of_old >= MOST) | (of_new >= MOST))
    return links


def _matched(weights: Floats, links: Bools) -> dict[int, int]:
    """Return the new cluster of every old one that has a successor."""
    from scipy.optimize import linear_sum_assignment  # slow to load, rarely needed

    # All pairs together: the best partner of one may be needed by another.
    old, new = linear_sum_assignment(np.where(links, weights, 0.0), maximize=True)
    pairs = zip(old.tolist(), new.tolist(), strict=True)
    return {i: j for i, j in pairs if links[i, j]}


def _ends(links: Bools, names: tuple[str, ...], found: tuple[str, ...]) -> list[Change]:
    """Return what became of old clusters: split into several, or gone."""
    changes = []
    for old, name in enumerate(names):
        after = _own_first(name, [found[j] for j in np.flatnonzero(links[old])])
        if not after:
            changes.append(Change("died", (name,)))
        elif len(after) > 1:
            changes.append(Change("split", (name,), after))
    return changes


def _beginnings(
    links: Bools, names: tuple[str, ...], found: tuple[str, ...]
) -> list[Change]:
    """Return where new clusters come from: several old ones, or nowhere."""
    changes = []
    for new, name in enumerate(found):
        before = _own_first(name, [names[i] for i in np.flatnonzero(links[:, new])])
        if not before:
            changes.append(Change("born", (), (name,)))
        elif len(before) > 1:
            changes.append(Change("merged", before, (name,)))
    return changes


def _own_first(name: str, others: list[str]) -> tuple[str, ...]:
    return tuple(sorted(others, key=lambda other: other != name))


def _drift(
    before: Answered, after: Answered, old: int, new: int, name: str
) -> list[Change]:
    """Return how far a cluster has moved, nothing if that is not worth a word."""
    moved = after.centers[new] - before.centers[old]
    spread = np.maximum(after.spreads[new], np.finfo(float).eps * after.span)
    rows = 1.0 / before.sizes[old] + 1.0 / after.sizes[new]
    away = np.abs(moved) / spread
    if away.max() < max(DRIFTED, SURE * np.sqrt(rows)):
        return []
    at = int(away.argmax())
    column, far = after.columns[at], float(moved[at])
    return [Change("drifted", (name,), (name,), column, far, float(away[at]))]


@dataclass(frozen=True, slots=True)
class NumberedAnswer:
    """One answer of several.

    Attributes
    ----------
    number
        From 1 on.
    clients
        Whose rows it is about; who has too few of them is labelled only.
    names, sizes
        Of the clusters: what they are called, rows in each.
    changes
        What is not as it was in the answer before.
    withdrawn
        Whether somebody who took part has been forgotten since: what counted its rows
        is gone.
    """

    number: int
    clients: tuple[str, ...]
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    changes: tuple[Change, ...] = ()
    withdrawn: bool = False

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> NumberedAnswer:
        """Return what was written as JSON, where tuples are lists."""
        changes = tuple(Change.read(change) for change in fields["changes"])
        return cls(
            fields["number"],
            tuple(fields["clients"]),
            tuple(fields["names"]),
            tuple(fields["sizes"]),
            changes,
            fields["withdrawn"],
        )

    def without(self, client: str) -> NumberedAnswer:
        """Return what is left of it when a client is forgotten."""
        if client not in self.clients:
            return self
        others = tuple(name for name in self.clients if name != client)
        return NumberedAnswer(self.number, others, self.names, (), (), True)


@dataclass(frozen=True, slots=True)
class Lineage:
    """All answers so far, and what the next one is compared with.

    Attributes
    ----------
    answers
        In their order.
    last
        The newest, as it is compared; None where its method has no centres.
    used
        Names of clusters that were given away.
    """

    answers: tuple[NumberedAnswer, ...] = ()
    last: Answered | None = None
    used: int = 0

    def followed(
        self,
        last: Answered | None,
        sizes: Sequence[int],
        clients: Sequence[str],
        number: int | None = None,
    ) -> Lineage:
        """Return the lineage with one more answer, of the next number unless given."""
        before = self.answers[-1] if self.answers else None
        changes: tuple[Change, ...] = ()
        if before is None or self.last is None or last is None:
            names = tuple(f"c{self.used + i}" for i in range(len(sizes)))
        else:
            names, changes = succeeded(self.last, before.names, last, self.used)
        if number is None:
            number = 1 if before is None else before.number + 1
        known = {name for answer in self.answers for name in answer.names}
        answer = NumberedAnswer(number, tuple(clients), names, tuple(sizes), changes)
        used = self.used + len(set(names) - known)
        return Lineage((*self.answers, answer), last, used)

    def without(self, client: str) -> Lineage:
        """Return the lineage when a client is forgotten.

        If it took part in the last answer, only the centres of that one stay to be
        compared with: its cells held the client's rows. So did the centres; they are
        for whoever answers next, and are not to be kept (:meth:`at_rest`).
        """
        answers = tuple(answer.without(client) for answer in self.answers)
        last = self.last
        if last is not None and answers != self.answers and answers[-1].withdrawn:
            last = last.by_centers()
        return Lineage(answers, last, self.used)

    def at_rest(self) -> Lineage:
        """Return what may be kept in a file: of a withdrawn answer no centres.

        The answer after it is compared with nothing, and all its clusters are new.
        """
        if self.answers and self.answers[-1].withdrawn:
            return replace(self, last=None)
        return self

    def parts(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Return it as JSON and arrays."""
        known = {} if self.last is None else asdict(self.last)
        kept = {name: each for name, each in known.items() if each is not None}
        described = {
            "answers": [asdict(answer) for answer in self.answers],
            "used": self.used,
            "columns": kept.pop("columns", None),
        }
        return described, kept

    @classmethod
    def of_parts(
        cls, described: Mapping[str, Any], arrays: Mapping[str, AnyArray]
    ) -> Lineage:
        """Return what :meth:`parts` took apart."""
        answers = tuple(NumberedAnswer.read(each) for each in described["answers"])
        if described["columns"] is None:
            return cls(answers, None, described["used"])
        last = Answered(tuple(described["columns"]), **arrays)
        return cls(answers, last, described["used"])
