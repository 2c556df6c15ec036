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


@dataclass(frozen=True, slots=True)
class PrivacyLevel:
    """A family of privacy levels: what people read of it, and where its work stands.

    Attributes
    ----------
    name
        What stands before the brackets.
    examples
        How a level of the family is written, for error messages and help.
    presets
        The presets that know it.
    strictness
        Its rung: who insists on a level takes part in runs at it or higher.
    protection
        ``package.module:Class``, or the class: a
        :class:`afcl.privacy.protection.Protection`.
    sent
        What left the sites, in half a sentence.
    promise
        What that means; ``{inside}`` is what the brackets hold, ``{min_cell}`` the
        smallest cell.
    exact_cells
        Whether a client's cells are sums of rows as they are: then the server refuses
        those that rows in the agreed box cannot have. Noise can make any.
    noisy
        Whether there is noise in what is sent: then it is never said that there are no
        clusters, only that none can be seen.
    audited
        Whether an audit of all levels tries the first of the examples.
    """

    name: str
    examples: tuple[str, ...]
    presets: tuple[str, ...]
    strictness: int
    protection: str | type[Any]
    sent: str
    promise: str
    exact_cells: bool = False
    noisy: bool = False
    audited: bool = True

    def protection_class(self) -> type[Any]:
        """Return the class that does the work, imported when it is asked for."""
        place = self.protection
        kind: type[Any] = resolve(place) if isinstance(place, str) else place
        return kind


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
        Index("free_bic", "BIC, own variances", f"{_FORMULAS}:free_bic"),
    )
}

#: Round clusters.
CONVEX = "convex"
#: Clusters of whatever hangs together.
CONNECTED = "connected"
#: Whichever of the two is seen.
EITHER = "auto"
#: What clusters may look like.
SHAPES = (CONVEX, CONNECTED, EITHER)
#: What is looked for where nobody says so.
SHAPE = EITHER

#: Indices of levels that only connected clusters have, and what people read of them.
OF_CONNECTED = {CONNECTED: "dearness of joining further"}

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


#: The levels in the order they are shown; the first that a preset knows is its default.
#: A new one is an entry here.
LEVELS = {
    level.name: level
    for level in (
        PrivacyLevel(
            "exact",
            ("exact",),
            ("paper", "matlab"),
            0,
            "afcl.privacy.protection:Protection",
            "this preset sends every row",
            "Every row is uploaded in a form the server can invert. Only for data that "
            "may leave its site.",
        ),
        PrivacyLevel(
            "affine",
            ("affine",),
            ("paper",),
            1,
            "afcl.privacy.protection:Protection",
            "sums of pulls were sent, and the rows that the seeds started from",
            "A site sends how often and how far its rows pulled every seed, and at the "
            "start the rows its seeds are drawn from. A seed that one row alone pulled "
            "gives that row away.",
        ),
        PrivacyLevel(
            "summary",
            ("summary",),
            ("default",),
            2,
            "afcl.privacy.protection:PlainSummary",
            "no row left its site, cells of several rows did",
            "A site sends groups of at least {min_cell} rows, each as count, mean and "
            "scatter, and how many rows lie between clusters; no row leaves its site. "
            "Summaries are not nothing: who subtracts several messages of a site from "
            "each other may find single rows.",
            exact_cells=True,
        ),
        PrivacyLevel(
            "grouped",
            ("grouped(5)",),
            ("default",),
            3,
            "afcl.privacy.grouped:Grouped",
            "no row left its site, groups of rows did",
            "Similar rows are put into groups of at least {inside} once, before the "
            "first message, and every message is made of whole groups: whatever is "
            "compared with whatever, a group is the finest thing that comes out.",
            exact_cells=True,
        ),
        PrivacyLevel(
            "secure",
            ("secure", "secure+summary", "secure+grouped(5)", "secure(he)"),
            ("default",),
            3,  # that of the level it goes with
            "afcl.privacy.secure:Secure",
            "after the first message only sums over cohorts of sites can be read",
            "The coordinator can read a site's first message, rounded to 1/64 of "
            "every column's range. Further numbers are masked or encrypted: only sums "
            "over a cohort of sites can be read, of groups of at least {min_cell} rows "
            "that three hold. A coordinator with two sites of its own, or that calls "
            "members gone who are there, can learn more.",
        ),
        PrivacyLevel(
            "dp",
            ("dp(8)", "dp(8, 1e-6)"),
            ("default",),
            5,
            "afcl.privacy.dp:ReleasedOnce",
            "noise hides every single row",
            "Differentially private: each site releases one noisy summary, so that "
            "whether a single row is in it can hardly be told (ε = {inside}; smaller "
            "is safer).",
            noisy=True,
        ),
        PrivacyLevel(
            "dp-rounds",
            ("dp-rounds(8)",),
            ("default",),
            4,
            "afcl.privacy.dp:PerMessage",
            "noise hides every single row",
            "Differentially private with fresh noise in every message (ε = {inside}; "
            "smaller is safer).",
            noisy=True,
            audited=False,  # it is there to be compared with
        ),
    )
}


def register_level(level: PrivacyLevel) -> None:
    """Add a privacy level for this process; see docs/how-to/add-a-privacy-level.md."""
    if LEVELS.get(level.name, level) != level:
        raise InputError(f"the name {level.name!r} is taken: choose another")
    LEVELS[level.name] = level


def levels_of(preset: str) -> tuple[str, ...]:
    """Return the names of the levels a preset knows, its default first."""
    return tuple(name for name, level in LEVELS.items() if preset in level.presets)


def ways_to_write(preset: str) -> str:
    """Return examples of a preset's levels, in words."""
    *most, last = (text for name in levels_of(preset) for text in LEVELS[name].examples)
    return f"{', '.join(most)} or {last}" if most else last
