# SPDX-License-Identifier: Apache-2.0
"""The ladder of privacy levels: how they are written, and which allow which.

Which there are says :data:`afcl.registry.LEVELS`. A level is written as text, so that
it travels in a run's options and stands in its result: ``summary``, ``grouped(5)``,
``dp(4)``, ``dp(4, 1e-6)``, ``secure+summary``, ``secure+grouped(5)``,
``secure(he)+grouped(5)``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

from afcl.exceptions import InputError
from afcl.registry import LEVELS, levels_of, ways_to_write

#: With fewer clients than this nobody is pointed at cohorts.
FEW = 6
#: Clients whose typical size is at most so many smallest cells are small.
SMALL = 5
#: Rows of a group where `grouped` does not say.
GROUP = 5
#: delta where `dp` does not say.
DELTA = 1e-5

#: The sums of `secure` are hidden by pairwise masks.
MASKS = "masks"
#: They are hidden by homomorphic encryption.
HE = "he"
#: They are not hidden: a simulation adds them up as they are.
PLAIN = "plain"
_SECURE = {"secure": MASKS, "secure(he)": HE, "secure(plain)": PLAIN}

EXACT_WARNING = (
    "privacy level 'exact' uploads every row in a form the server can invert; "
    "use the default preset for data that must not leave a site"
)

_FORM = re.compile(r"(?P<family>[a-z-]+)(?:\((?P<inside>[^()]*)\))?")


@dataclass(frozen=True, slots=True)
class Level:
    """One rung of the ladder.

    Attributes
    ----------
    family
        What a client makes of its rows, a name of the registry. Under `secure`, the
        companion that protects the hello.
    group
        Rows a group holds at least (`grouped`); 0 elsewhere.
    epsilon, delta
        What a run may cost a row (`dp`, `dp-rounds`); 0 elsewhere.
    secure
        Whether everything after the hello is a masked sum over a cohort.
    scheme
        How that sum is hidden: `masks`, `he` (encrypted under a cohort's key) or
        `plain` (not at all, in simulations).
    detail
        What the brackets hold where it is neither a group nor an epsilon.
    """

    family: str
    group: int = 0
    epsilon: float = 0.0
    delta: float = 0.0
    secure: bool = False
    scheme: str = MASKS
    detail: str = ""

    def __str__(self) -> str:
        text = self.family
        if self.group:
            text += f"({self.group})"
        elif self.epsilon:
            inside = f"{self.epsilon:g}"
            if self.delta != DELTA:
                inside += f", {self.delta:g}"
            text += f"({inside})"
        elif self.detail:
            text += f"({self.detail})"
        if not self.secure:
            return text
        how = "" if self.scheme == MASKS else f"({self.scheme})"
        return f"secure{how}+{text}"

    @property
    def private(self) -> bool:
        """Whether epsilon bounds what a row can change."""
        return self.epsilon > 0

    @property
    def listed_as(self) -> str:
        """Its name in the registry."""
        return "secure" if self.secure else self.family

    @property
    def sends_cells(self) -> bool:
        """Whether clients describe their rows by cells, as the default preset does."""
        return "default" in LEVELS[self.family].presets

    def allows(self, other: Level) -> bool:
        """Whether who insists on this level may take part in a run at `other`.

        Masks promise more than a key that one member holds.
        """
        if self.private:
            # Both have to hold: a smaller epsilon at a larger delta may promise less.
            kept = 0 < other.epsilon <= self.epsilon and other.delta <= self.delta
        elif self.group:
            kept = other.private or other.group >= self.group
        else:
            least = LEVELS[self.family].strictness
            kept = LEVELS[other.family].strictness >= least
        # Masks need no member to be trusted, so who agrees to a key agrees to them.
        hidden = other.secure and other.scheme in (MASKS, self.scheme)
        return kept and (hidden or not self.secure)


def parse_level(text: str) -> Level:
    """Read a level as a user writes it, or say in one line how to write it."""
    if not isinstance(text, str):
        raise _unknown(text)
    return _parsed(text)


@lru_cache(maxsize=256)  # a run's own level is asked for at every message
def _parsed(text: str) -> Level:
    parts = text.replace(" ", "").lower().split("+")
    scheme = _SECURE.get(parts[0], MASKS)
    secure = parts[0] in _SECURE
    if secure:
        # The hello is seen one by one: where nobody says how it is protected, groups do
        # it.
        parts = parts[1:] or [f"grouped({GROUP})"]
    form = _FORM.fullmatch(parts[0])
    if len(parts) != 1 or form is None or form["family"] not in LEVELS:
        raise _unknown(text)
    family = form["family"]
    if family == "secure":  # as a companion of itself, or with unknown brackets
        raise _unknown(text)
    protection = LEVELS[family].protection_class()
    level: Level = protection.read(family, form["inside"], text)
    if secure and not (protection.goes_with_secure and level.sends_cells):
        raise InputError(
            f"privacy {text!r}: secure goes with summary, grouped(m) or dp(epsilon), "
            "which say what the first message shows"
        )
    return replace(level, secure=secure, scheme=scheme)


def _unknown(text: Any) -> InputError:
    return InputError(
        f"privacy {text!r} is unknown: choose {ways_to_write('default')}, or with "
        f"preset paper {ways_to_write('paper')}, with matlab {ways_to_write('matlab')}"
    )


#: Fewest sites of which sums are read: of two, each could subtract itself.
FEWEST_SUMMED = 3


class Default(NamedTuple):
    """The level that a run has where nobody names one, and why."""

    level: str
    reason: str


def default_level(
    n_clients: int, scale: Any = "minmax", contacts: int = 3, live: bool = False
) -> Default:
    """Return the level at which the default preset runs unless it is told another.

    Sums over sites find clusters that the cells of one site mix, and reveal less. They
    take three sites, a common scale and, between machines, masks. A simulation adds up
    as it is: there is nobody to hide anything from.
    """
    plain = "summary"
    if n_clients < FEWEST_SUMMED:
        why = f"sums over sites take {FEWEST_SUMMED} of them, there "
        return Default(plain, why + ("is 1" if n_clients == 1 else f"are {n_clients}"))
    # Fixed-point sums need numbers of a known size.
    if scale is None:
        return Default(plain, "sums over sites take a common scale")
    # The sums are answers to questions after the hello.
    if contacts < 2:
        return Default(plain, "one message a site was asked for")
    if live and find_spec("cryptography") is None:
        return Default(plain, "sums over sites take masks: pip install 'afcl[privacy]'")
    how = "secure" if live else f"secure({PLAIN})"
    return Default(f"{how}+{plain}", f"sums over sites, of which there are {n_clients}")


def level_for(preset: str, privacy: str | None) -> Level:
    """Return the level a preset runs at, or say which ones there are."""
    families = levels_of(preset)
    if privacy is None:
        # The registry lists a preset's own level first.
        return Level(families[0])
    level = parse_level(privacy)
    if level.listed_as not in families:
        raise InputError(
            f"privacy {privacy!r} is not available with preset {preset!r}; "
            f"choose {' or '.join(repr(name) for name in families)}"
        )
    return level


def too_small(sizes: Sequence[int], min_cell: int, level: str) -> str | None:
    """Say so if most clients are too small for cells to tell their clusters apart.

    A cell of `min_cell` rows of a client that holds a few rows of each of several
    clusters mixes them (rule R8): its rows must be summed over a cohort first.
    """
    found = parse_level(level)
    least = max(min_cell, found.group)
    unfolded = found.secure or not found.sends_cells or least < 2
    if unfolded or len(sizes) < FEW:
        return None
    typical = _typical(sizes)
    if typical > SMALL * least:
        return None
    first = "privacy=None"
    if found.group:
        first = f"privacy='secure+{found}' or {first}"
    return (
        f"a typical client has {typical} rows, too few for cells of {least}: if its "
        "rows belong to several clusters, the number of clusters may come out wrong; "
        f"{first} sums over three sites or more first"
    )


def too_fine(
    sizes: Sequence[int], n_clusters: int, min_cell: int, level: str
) -> str | None:
    """Say so if an answer is finer than the cells of single clients can show.

    That is :func:`too_small` for every cluster, once their number is known; where that
    has warned already, and where there are too few clients for sums, nothing is said.
    """
    found = parse_level(level)
    least = max(min_cell, found.group)
    could_sum = LEVELS[found.family].protection_class().goes_with_secure
    if found.secure or found.private or not (found.sends_cells and could_sum):
        return None
    if least < 2 or n_clusters < 2 or len(sizes) < FEWEST_SUMMED:
        return None
    typical = _typical(sizes)
    known = too_small(sizes, min_cell, level) is not None
    if known or typical >= SMALL * least * n_clusters:
        return None
    return (
        f"sites hold about {typical} rows for {n_clusters} clusters: cells of {least} "
        "rows mix clusters there; let privacy=None choose sums over sites (three sites "
        f"or more), or secure+{found}"
    )


def small_sites(
    sizes: Sequence[int], n_clusters: int, parameters: Mapping[str, Any]
) -> list[str]:
    """Return what :func:`too_small` and :func:`too_fine` say of a run.

    Parameters
    ----------
    sizes
        Rows of every site.
    n_clusters
        The answer.
    parameters
        As in ``result.json``: ``privacy`` and ``min_cell``.

    Returns
    -------
    list of str
        Nothing of rivals, which have no level.
    """
    level = parameters.get("privacy") or "rival"
    if level == "rival" or not sizes:
        return []
    least = parameters["min_cell"]
    small = too_small(sizes, least, level)
    fine = too_fine(sizes, n_clusters, least, level)
    return [text for text in (small, fine) if text is not None]


def _typical(sizes: Sequence[int]) -> int:
    return sorted(sizes)[(len(sizes) - 1) // 2]
