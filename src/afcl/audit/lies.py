# SPDX-License-Identifier: Apache-2.0
"""What a coordinator that lies learns of the audited sites: one entry an attack.

An entry says what is tried, at which levels, and which promise it would break; none,
where nothing is promised and the figure is there to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from afcl.audit import telling
from afcl.audit.findings import Attempt
from afcl.audit.scene import Learned, Scene
from afcl.audit.telling import THOUSANDS, TIMES
from afcl.audit.victims import Victim
from afcl.privacy.levels import MASKS, Level


class Lie(NamedTuple):
    """A way to lie: at which levels, in words, what it would break, and the attack."""

    name: str
    is_told: Callable[[Level], bool]
    tried: str
    promise: str
    attack: Callable[[Scene], Learned]


def lies_at(level: Level) -> list[Lie]:
    """Return what is tried at a level: nothing where no cells are sent.

    Nor where sums are not masked: encrypted ones promise less, plain ones nothing.
    """
    if not level.sends_cells or (level.secure and level.scheme != MASKS):
        return []
    return [lie for lie in LIES if lie.is_told(level)]


def attempt(lie: Lie, scene: Scene) -> Attempt:
    """Tell a lie to the sites, and see what that is worth."""
    # In a folder of its own: what one attack has spent must not refuse the next.
    alone = replace(scene, folder=scene.folder / lie.name, victims=[])
    found, asked = lie.attack(alone), alone.victims
    return Attempt(
        lie.name,
        lie.tried,
        lie.promise,
        _rows_of(asked),
        found.number,
        found.of,
        found.what,
        found.number / found.of if found.of else 0.0,
        sum(victim.asked for victim in asked),
        sum(victim.refused for victim in asked),
        bool(lie.promise) and found.number > 0,
    )


def _rows_of(asked: Sequence[Victim]) -> int:
    """Return how many rows the sites have that were asked, each as it was at first."""
    sizes: dict[Path, int] = {}
    for each in asked:
        sizes.setdefault(each.folder.parent, len(each.rows))
    return sum(sizes.values())


# ------------------------------------------------------------------ all of them


def _is_open(level: Level) -> bool:
    """Whether a site's cells can be read and have no noise."""
    return not level.secure and not level.private


def _is_masked(level: Level) -> bool:
    return level.secure


def _is_noisy(level: Level) -> bool:
    return level.family == "dp" and not level.secure


PINNED = "a run's terms stay what they were, whoever asks"
ONCE = "further runs tell nothing that the first has not told (--runs 1)"
HELD = "a sum is of groups that three members hold, or of whom it belongs to"
ACCOUNT = "epsilon bounds all runs together (--budget)"

#: All lies, in the order they are told. A new one is an entry here.
LIES = (
    Lie(
        "a weaker level",
        lambda level: True,
        "asked for rows as they are, and for cells of one row",
        "no weaker level and no smaller cells than the site allows",
        telling.ask_for_more,
    ),
    Lie(
        "other terms",
        _is_open,
        f"said hello {TIMES} times, with other seeds and in boxes a little wider",
        PINNED,
        telling.other_terms,
    ),
    Lie(
        "thousands of levels",
        lambda level: level.family == "summary" and _is_open(level),
        f"cut the rows by {THOUSANDS:,} planes in one request",
        PINNED,
        telling.thousands_of_levels,
    ),
    Lie(
        "thousands agreed",
        lambda level: level.family == "summary" and _is_open(level),
        f"wrote terms that allow {THOUSANDS:,} planes in one request, then the same",
        "a site has limits of its own, whatever the terms say",
        telling.thousands_agreed,
    ),
    Lie(
        "more steps",
        lambda level: level.family == "summary" and _is_open(level),
        f"asked for {TIMES} steps more than agreed",
        PINNED,
        telling.more_steps,
    ),
    Lie(
        "planes within limits",
        lambda level: level.family == "summary" and _is_open(level),
        "cut the rows by as many planes as the terms allow",
        "",
        telling.levels_within_limits,
    ),
    Lie(
        "other groups",
        lambda level: level.group > 0 and _is_open(level),
        "asked for groups of other sizes, with columns repeated as weights",
        "a group is the finest thing that comes out, whatever is asked for",
        telling.regroup,
    ),
    Lie(
        "other sizes",
        lambda level: not level.private,
        f"agreed on scales {TIMES} times more, by groups of other sizes each time",
        "extremes and medians are told in one way, whoever asks",
        telling.other_sizes,
    ),
    Lie(
        "agreed otherwise",
        lambda level: level.group > 0,
        "agreed on scales by groups of one size, then asked for groups of another",
        "an agreement and a first message are of the same groups",
        telling.agreed_otherwise,
    ),
    Lie(
        "further runs",
        lambda level: not level.private,
        "ran again on the same rows, with other seeds",
        ONCE,
        telling.further_runs,
    ),
    Lie(
        "a row gone",
        _is_open,
        "ran again after every site had lost a row, without its saying so",
        ONCE,
        telling.fewer_rows,
    ),
    Lie(
        "masks used twice",
        _is_masked,
        "asked the same in a box without end, where the numbers are known",
        "no mask is used twice",
        telling.masks_twice,
    ),
    Lie(
        "one puppet",
        _is_masked,
        "joined with a site of 2,000 invented rows that runs afcl as it is, and "
        "subtracted them",
        HELD,
        telling.one_puppet,
    ),
    Lie(
        "fewer holders",
        _is_masked,
        "the same, and asked for groups that two members hold",
        HELD,
        telling.fewer_holders,
    ),
    Lie(
        "a cohort of two",
        _is_masked,
        "summed one site with a puppet alone",
        "a cohort has three members at least (--cohort)",
        telling.cohort_of_two,
    ),
    Lie(
        "a puppet that lies",
        _is_masked,
        "joined with one site that says of every group that many hold rows of it",
        "",
        telling.lying_puppet,
    ),
    Lie(
        "two puppets",
        _is_masked,
        "joined with two sites of invented rows",
        "",
        telling.two_puppets,
    ),
    Lie(
        "extremes",
        lambda level: level.private,
        "asked for minima, maxima and medians before the run",
        "dp tells no extremes",
        telling.extremes,
    ),
    Lie(
        "a jittered box",
        _is_noisy,
        "moved a box narrower than a step: do equal bytes tell where no row is?",
        "noise does not depend on rows",
        telling.jittered_box,
    ),
    Lie(
        "a spent ledger",
        _is_noisy,
        f"asked {TIMES} times for a step in place of a hello that is not paid for",
        ACCOUNT,
        telling.spent_ledger,
    ),
    Lie(
        "rows sorted anew",
        _is_noisy,
        f"asked in {TIMES} more runs, the rows in another order each time",
        ACCOUNT,
        telling.sorted_anew,
    ),
)
