# SPDX-License-Identifier: Apache-2.0
"""The ladder of privacy levels: their names, their promises, which presets know them.

A level is written as text, so that it travels in a run's options and stands in its
result: ``summary``, ``grouped(5)``, ``dp(4)``, ``dp(4, 1e-6)``, ``secure+grouped(5)``,
``secure(he)+grouped(5)``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from afcl.exceptions import InputError

#: With fewer clients than this nobody is pointed at cohorts.
FEW = 6
#: Groups of `grouped` and delta of `dp` where the text does not say.
GROUP, DELTA = 5, 1e-5

#: How the sums of `secure` are hidden: pairwise masks, or homomorphic encryption.
MASKS, HE = "masks", "he"
_SECURE = {"secure": MASKS, "secure(he)": HE}

#: The families each preset knows, its default first.
FAMILIES = {
    "default": ("summary", "grouped", "secure", "dp", "dp-rounds"),
    "paper": ("exact", "affine"),
    "matlab": ("exact",),
}

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
        `exact`, `affine`, `summary`, `grouped`, `dp` or `dp-rounds`: what a client
        makes of its rows. Under `secure`, the companion that protects the hello.
    group
        Rows a group holds at least (`grouped`); 0 elsewhere.
    epsilon, delta
        What a run may cost a row (`dp`, `dp-rounds`); 0 elsewhere.
    secure
        Whether everything after the hello is a masked sum over a cohort.
    scheme
        How that sum is hidden: `masks` or `he` (encrypted under a cohort's key).
    """

    family: str
    group: int = 0
    epsilon: float = 0.0
    delta: float = 0.0
    secure: bool = False
    scheme: str = MASKS

    def __str__(self) -> str:
        text = self.family
        if self.group:
            text += f"({self.group})"
        elif self.epsilon:
            inside = f"{self.epsilon:g}"
            if self.delta != DELTA:
                inside += f", {self.delta:g}"
            text += f"({inside})"
        if not self.secure:
            return text
        return f"secure(he)+{text}" if self.scheme == HE else f"secure+{text}"

    @property
    def private(self) -> bool:
        """Whether epsilon bounds what a row can change."""
        return self.epsilon > 0

    def allows(self, other: Level) -> bool:
        """Whether who insists on this level may take part in a run at `other`.

        Masks promise more than a key that one member holds.
        """
        if self.private:
            kept = 0 < other.epsilon <= self.epsilon and other.delta <= self.delta
        elif self.group:
            kept = other.private or other.group >= self.group
        else:
            order = ("exact", "affine", "summary", "grouped", "dp-rounds", "dp")
            kept = order.index(other.family) >= order.index(self.family)
        hidden = other.secure and other.scheme in (MASKS, self.scheme)
        return kept and (hidden or not self.secure)


def parse_level(text: str) -> Level:
    """Read a level as a user writes it, or say in one line how to write it."""
    if not isinstance(text, str):
        raise InputError(f"privacy {text!r} is unknown: {_known()}")
    parts = text.replace(" ", "").lower().split("+")
    scheme = _SECURE.get(parts[0], MASKS)
    secure = parts[0] in _SECURE
    if secure:
        parts = parts[1:] or [f"grouped({GROUP})"]
    if len(parts) != 1:
        raise InputError(f"privacy {text!r} is unknown: {_known()}")
    level = _plain(parts[0], text)
    if secure and level.family not in ("grouped", "dp"):
        raise InputError(
            f"privacy {text!r}: secure goes with grouped(m) or dp(epsilon), "
            "which protect the first message"
        )
    return replace(level, secure=secure, scheme=scheme)


def _known() -> str:
    return (
        "choose summary, grouped(5), secure, secure+grouped(5), secure(he), dp(8), "
        "dp(8, 1e-6) or dp-rounds(8), or with preset paper exact or affine, with "
        "matlab exact"
    )


def _plain(part: str, text: str) -> Level:
    form = _FORM.fullmatch(part)
    families = {name for known in FAMILIES.values() for name in known} - {"secure"}
    if form is None or form["family"] not in families:
        raise InputError(f"privacy {text!r} is unknown: {_known()}")
    family, inside = form["family"], form["inside"]
    if family == "grouped":
        return Level(family, group=_group(inside, text))
    if family in ("dp", "dp-rounds"):
        epsilon, delta = _budget(inside, text)
        return Level(family, epsilon=epsilon, delta=delta)
    if inside is not None:
        raise InputError(f"privacy {text!r}: {family} takes nothing in brackets")
    return Level(family)


def _group(inside: str | None, text: str) -> int:
    said = str(GROUP) if inside is None else inside.removeprefix("m=")
    if not said.isascii() or not said.isdigit() or int(said) < 2:
        raise InputError(
            f"privacy {text!r}: groups hold a whole number of rows, at least 2, "
            "as in grouped(5)"
        )
    return int(said)


def _budget(inside: str | None, text: str) -> tuple[float, float]:
    said = [] if inside is None else inside.split(",")
    named = [
        part.removeprefix(name)
        for part, name in zip(said, ("epsilon=", "delta="), strict=False)
    ]
    try:
        numbers = [float(part) for part in named]
    except ValueError:
        numbers = []
    if not 1 <= len(said) <= 2 or len(numbers) != len(said):
        raise InputError(
            f"privacy {text!r}: say how much a row may cost, as in dp(8) or dp(8, 1e-6)"
        )
    epsilon, delta = numbers[0], numbers[1] if len(numbers) > 1 else DELTA
    if not (math.isfinite(epsilon) and epsilon > 0 and 0 < delta < 1):
        raise InputError(
            f"privacy {text!r}: epsilon must be positive and delta between 0 and 1"
        )
    return epsilon, delta


def level_for(preset: str, privacy: str | None) -> Level:
    """Return the level a preset runs at, or say which ones there are."""
    families = FAMILIES[preset]
    if privacy is None:
        return Level(families[0])
    level = parse_level(privacy)
    if ("secure" if level.secure else level.family) not in families:
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
    unfolded = found.secure or found.family in ("exact", "affine") or least < 2
    if unfolded or len(sizes) < FEW:
        return None
    typical = sorted(sizes)[(len(sizes) - 1) // 2]
    if typical > 5 * least:
        return None
    return (
        f"a typical client has {typical} rows, too few for cells of {least}: if its "
        "rows belong to several clusters, the number of clusters may come out wrong; "
        "privacy='secure' sums over cohorts of clients first"
    )
