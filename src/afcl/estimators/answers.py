# SPDX-License-Identifier: Apache-2.0
"""Answers that follow one another: new rows, new clients, clients to be forgotten."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from afcl.core.lineage import Change, Lineage, NumberedAnswer
from afcl.estimators.clients import Table
from afcl.estimators.rows import seed_of
from afcl.estimators.user_warnings import warn_user
from afcl.exceptions import InputError, PrivacyWarning

#: How many names an error lists.
SHOWN = 5
AGAIN = (
    "every answer at dp costs its epsilon once more: what all answers together tell of "
    "a row is bounded by the sum"
)


class NumberedAnswers:
    """The part of a clusterer that remembers whose rows its last answer was about.

    What it promises is said where users look: see :class:`FederatedClusterer`.
    """

    random_state: Any
    privacy_: str | None
    answer_: int
    cluster_names_: list[str]
    changes_: list[Change]
    history_: list[NumberedAnswer]
    _lineage: Lineage
    #: Clients by number; of who was forgotten only the number is left.
    _roster: list[str]
    _tables: dict[str, Any]
    _seed: int
    _heaviest: int

    def _fit_tables(self, tables: Mapping[str, Any]) -> Self:
        """Cluster named tables; the roster also numbers who has none any more."""
        raise NotImplementedError

    def update(self, tables: Mapping[Any, Any]) -> Self:
        """Give the next answer: some clients have other rows, or are new.

        Everybody who took part before, and is not named, takes part as it was. The
        answer is the one that a single run on all current tables gives; its clusters
        keep the names of those they come from (`cluster_names_`, `changes_`).

        Parameters
        ----------
        tables : mapping of array-like of shape (n_rows, n_features)
            The new tables, by the clients' names (their numbers, if they have none).
            A model that was loaded, unpickled or fitted on pooled rows holds no
            tables: it needs those of all clients.

        Returns
        -------
        self
            With the next answer; as it was, if there is an error.
        """
        every = _updated(self, tables)
        known = set(self._roster)
        roster = [*self._roster, *(name for name in every if name not in known)]
        return self._next(every, self._lineage, roster)

    def forget(self, client: Any) -> Self:
        """Give the next answer, without a client and everything it has said.

        It is the answer of a run in which this client never took part.

        Parameters
        ----------
        client : str or int
            Its name (its number, if it has none).

        Returns
        -------
        self
            With the next answer; as it was, if there is an error.
        """
        rest = _without(self, client)
        roster = ["" if name == str(client) else name for name in self._roster]
        return self._next(rest, self._lineage.without(str(client)), roster)

    def _next(
        self, tables: Mapping[str, Any], lineage: Lineage, roster: list[str]
    ) -> Self:
        """Fit on these tables, all or nothing; who has left keeps its number."""
        twin = copy.copy(self)
        twin._lineage, twin._roster = lineage, roster
        twin._fit_tables(tables)
        self.__dict__.update(twin.__dict__)
        return self

    def _begin(self, names: list[str]) -> None:
        """Begin with a first answer; clients are numbered as they are named."""
        self._seed = seed_of(self.random_state)
        self._heaviest = 1
        self._lineage = Lineage()
        self._roster, self._tables = names, {}

    def _numbered(
        self, tables: Sequence[Table], names: list[str]
    ) -> tuple[Sequence[Table], frozenset[int]]:
        """Return everybody's table by number, and the numbers of who is gone."""
        if len(names) == len(self._roster):
            return tables, frozenset()
        held, empty = dict(zip(names, tables, strict=True)), tables[0].shape[1]
        gone = [c for c, name in enumerate(self._roster) if name not in held]
        nobody = np.empty((0, empty))
        return [held.get(n, nobody) for n in self._roster], frozenset(gone)

    def _follow(self, lineage: Lineage) -> None:
        """Show what the newest answer of a lineage is called."""
        self._lineage, newest = lineage, lineage.answers[-1]
        self.answer_ = newest.number
        self.cluster_names_ = list(newest.names)
        self.changes_ = list(newest.changes)
        self.history_ = list(lineage.answers)


def _updated(model: NumberedAnswers, tables: Mapping[Any, Any]) -> dict[str, Any]:
    """Return everybody's table, the new ones among them."""
    check_is_fitted(model, "n_clusters_")
    if not isinstance(tables, Mapping) or not tables:
        raise InputError(
            "update needs the new tables by the clients' names: "
            "update({'north': table})"
        )
    new = {str(name): table for name, table in tables.items()}
    return _complete(model, new, _members(model))


def _without(model: NumberedAnswers, client: Any) -> dict[str, Any]:
    """Return the tables of everybody but one."""
    check_is_fitted(model, "n_clusters_")
    name, known = str(client), _members(model)
    if name not in known:
        raise InputError(f"no client is called {name!r}, only {_listed(known)}")
    if len(known) == 1:
        raise InputError(f"{name} is the only client: nobody would be left")
    rest = [member for member in known if member != name]
    return _complete(model, {}, rest)


def _members(model: NumberedAnswers) -> list[str]:
    """Return whose rows the last answer is about."""
    if not hasattr(model, "_lineage"):
        raise InputError("this model is of an older version: fit it anew")
    return list(model._lineage.answers[-1].clients)


def _complete(
    model: NumberedAnswers, new: dict[str, Any], known: list[str]
) -> dict[str, Any]:
    """Return new tables and those that are kept; every client has one."""
    every = {**{name: model._tables.get(name) for name in known}, **new}
    lacking = [name for name, table in every.items() if table is None]
    if lacking:
        raise InputError(
            f"this model holds no rows of {_listed(lacking)}: pass their tables to "
            "update() too"
        )
    if "dp(" in str(model.privacy_):
        warn_user(PrivacyWarning(AGAIN))
    return every


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
