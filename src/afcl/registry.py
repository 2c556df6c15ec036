# SPDX-License-Identifier: Apache-2.0
"""Where things of which one adds more are listed: one line each.

A line says what people read of a thing, and where it stands; that is imported when it
is used, so that a page which only shows names and words needs none of the machinery.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from afcl.exceptions import InputError


@cache
def resolve(place: str) -> Any:
    """Return what stands at ``package.module:name``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, slots=True)
class Index:
    """A number that says how good a clustering is, and that may choose k.

    Attributes
    ----------
    name
        As in ``criterion=``, in `path_.scores` and as a column of ``path.csv``.
    title
        For people, as within a sentence.
    formula
        ``package.module:function``, or the function: takes a
        :class:`afcl.core.indices.Partition`, returns None where it is not defined.
    higher_is_better
        Whether the largest value is the best.
    """

    name: str
    title: str
    formula: str | Callable[[Any], float | None]
    higher_is_better: bool = True

    def score(self, partition: Any) -> float | None:
        """Return the index of one clustering."""
        formula = self.formula
        found: float | None = (
            resolve(formula) if isinstance(formula, str) else formula
        )(partition)
        return found


_FORMULAS = "afcl.core.indices"

#: The indices in the order they are shown. A new one is a line here.
INDICES = {
    index.name: index
    for index in (
        Index(
            "silhouette", "silhouette (from summaries)", f"{_FORMULAS}:mean_silhouette"
        ),
        Index("simplified", "simplified silhouette", f"{_FORMULAS}:mean_simplified"),
        Index("ch", "Calinski–Harabasz", f"{_FORMULAS}:calinski_harabasz"),
        Index("db", "Davies–Bouldin", f"{_FORMULAS}:davies_bouldin", False),
        Index("bic", "BIC", f"{_FORMULAS}:bic"),
    )
}

#: The rule that chooses k by several indices; no index may be called so.
AUTO = "auto"


def register_index(index: Index) -> None:
    """Add an index for this process; see docs/how-to/add-an-index.md."""
    if index.name == AUTO or INDICES.get(index.name, index) != index:
        raise InputError(f"the name {index.name!r} is taken: choose another")
    INDICES[index.name] = index


def criteria() -> tuple[str, ...]:
    """Return what may choose k."""
    return (AUTO, *INDICES)
