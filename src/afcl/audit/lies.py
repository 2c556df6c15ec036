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

import numpy as np

from afcl._typing import Bools, Floats
from afcl.audit.findings import Attempt
from afcl.audit.liar import (
    ask_for_more,
    bisect_column,
    compare_runs,
    many_levels,
    other_terms,
    regroup,
)
from afcl.audit.liar_of_sums import puppets, two_time_pad
from afcl.audit.scene import Learned, Scene
from afcl.audit.victims import Victim, honest_run, terms_for
from afcl.core.messages import Plan
from afcl.core.params import DefaultParams
from afcl.core.terms import AskAnnouncement, AskHello, AskStep, Terms
from afcl.methods import get_method
from afcl.privacy.attacks import Exchange
from afcl.privacy.levels import MASKS, Level

#: Levels in one request that no honest coordinator asks for.
THOUSANDS = 2400
#: Requests for groups of other sizes and other weights.
GROUPINGS = 120
#: Runs, hellos and steps by which a limit is tried.
TIMES = 10
#: Columns whose values are looked for by moving a box.
COLUMNS = 2
#: A continuous column is taken in so many steps.
FINE = 1000


class Lie(NamedTuple):
    """A way to lie: at which levels, in words, what it would break, and the attack."""

    name: str
    is_told: Callable[[Level], bool]
    tried: str
    promise: str
    attack: Callable[[Scene], Learned]


def lies_at(level: Level) -> list[Lie]:
    """Return what is tried at a level: nothing where no cells are sent."""
    return [lie for lie in LIES if level.sends_cells and lie.is_told(level)]


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


# ------------------------------------------------------------------ whatever the level


def _ask_for_more(scene: Scene) -> Learned:
    level, options = str(scene.level), scene.options
    return scene.on_every_site(
        lambda site, rows: ask_for_more(site, rows, level, scene.box, **options)
    )


def _other_terms(scene: Scene) -> Learned:
    level, options = str(scene.level), scene.options
    return scene.on_every_site(
        lambda site, rows: other_terms(site, rows, level, TIMES, scene.box, **options)
    )


def _further_runs(scene: Scene) -> Learned:
    return _in_several_runs(scene, lambda rows: rows)


def _fewer_rows(scene: Scene) -> Learned:
    rng = np.random.default_rng(scene.seed)
    return _in_several_runs(
        scene, lambda rows: np.delete(rows, rng.integers(len(rows)), axis=0)
    )


def _in_several_runs(scene: Scene, change: Callable[[Floats], Floats]) -> Learned:
    """Run honestly several times; learned is what the first run did not tell."""
    tables, heard, first = list(scene.tables), [], 0
    own, level = scene.options, str(scene.level)
    if scene.level.secure and scene.cohort is not None:
        own["cohort"] = scene.cohort
    for number in range(scene.runs):
        victims = [
            scene.victim(site, f"run {number}", rows)
            for site, rows in enumerate(tables)
        ]
        seed = scene.seed + number
        heard += honest_run(victims, f"run {number}", seed, level, scene.scale, **own)
        first = first or len(heard)
        tables = [change(rows) for rows in tables]
    rows = np.concatenate(scene.spoken)
    before, after = (_told(scene, part, rows) for part in (heard[:first], heard))
    return Learned(int((after & ~before).sum()), len(rows))


def _told(scene: Scene, heard: Sequence[Exchange], rows: Floats) -> Bools:
    return scene.known(compare_runs(heard, scene.box), rows)


# ------------------------------------------------------------------ summary, grouped


def _thousands_of_levels(scene: Scene) -> Learned:
    return _levels(scene, THOUSANDS, 1)


def _levels_within_limits(scene: Scene) -> Learned:
    agreed = DefaultParams(min_cell=scene.min_cell)
    return _levels(scene, agreed.candidates, agreed.contacts)


def _levels(scene: Scene, levels: int, steps: int) -> Learned:
    def attack(site: Victim, rows: Floats) -> list[Floats]:
        return many_levels(site, rows, levels, steps, scene.box, **scene.options)

    return scene.on_every_site(attack)


def _more_steps(scene: Scene) -> Learned:
    """Ask for more steps than agreed; learned are answers beyond these."""
    method = get_method("afcl")
    told = method.disclosure(method.parameters(privacy=str(scene.level)))
    agreed, beyond = told.steps or 0, 0
    for site, rows in enumerate(scene.tables):
        victim = scene.victim(site, "run")
        many_levels(victim, rows, 2, agreed + TIMES, scene.box, **scene.options)
        beyond += max(0, victim.asked - 1 - victim.refused - agreed)
    return Learned(beyond, TIMES * len(scene.tables), "answers")


def _regroup(scene: Scene) -> Learned:
    least, options = max(scene.level.group, scene.min_cell), scene.options

    return scene.on_every_site(
        lambda site, rows: regroup(site, rows, GROUPINGS, scene.box, least, **options)
    )


# ------------------------------------------------------------------ secure


def _masks_twice(scene: Scene) -> Learned:
    level, options = str(scene.level), scene.options

    def attack(site: Victim, rows: Floats) -> list[Floats]:
        return [two_time_pad(site, rows, box=scene.box, level=level, **options)]

    return scene.on_every_site(attack)


def _puppets(scene: Scene, sites: int, number: int, **options: int) -> Learned:
    """Join with members of the coordinator's own; learned are rows of the others."""
    victims = [scene.victim(site, "run") for site in range(sites)]
    found = puppets(
        victims,
        scene.tables[:sites],
        scene.box,
        number,
        str(scene.level),
        **scene.options,
        **options,
    )
    rows = np.concatenate(scene.spoken[:sites])
    return Learned(int(scene.known([found], rows).sum()), len(rows))


def _one_puppet(scene: Scene) -> Learned:
    return _puppets(scene, 2, 1)


def _fewer_holders(scene: Scene) -> Learned:
    return _puppets(scene, 2, 1, holders=2)


def _cohort_of_two(scene: Scene) -> Learned:
    return _puppets(scene, 1, 1)


def _two_puppets(scene: Scene) -> Learned:
    return _puppets(scene, 2, 2)


# ------------------------------------------------------------------ dp


def _extremes(scene: Scene) -> Learned:
    told = 0
    for site in range(len(scene.tables)):
        said = scene.victim(site, "run").ask(AskAnnouncement("run", extremes=True))
        if said is not None:
            told += said.low.size + said.high.size + said.middle.size
    return Learned(told, 3 * sum(rows.shape[1] for rows in scene.tables), "extremes")


def _jittered_box(scene: Scene) -> Learned:
    """Look for values; of a continuous column, for the step they lie in."""
    steps, fine = scene.steps, scene.box.span / FINE
    known, values = 0, 0
    for site, rows in enumerate(scene.tables):
        victim = scene.victim(site, "run")
        for column in range(min(COLUMNS, rows.shape[1])):
            step, near = (steps[column], 1 / 4) if steps[column] else (fine[column], 1)
            own = np.unique(rows[:, column])
            found = bisect_column(victim, rows, column, step, str(scene.level))
            gaps = np.abs(own[:, None] - found)
            known += int((gaps <= near * step).any(axis=1).sum())
            values += own.size
    return Learned(known, values, "values")


def _spent_ledger(scene: Scene) -> Learned:
    """Ask for a step in place of a hello, once the budget is spent."""
    beyond = 0
    for site, rows in enumerate(scene.tables):
        paid = _first_synopsis(scene, site, 0, rows)
        if paid is None:
            continue
        for run in range(1, TIMES + 1):
            victim = scene.victim(site, f"run {run}", rows, budget=scene.level.epsilon)
            # Around its own means a synopsis is told as it is.
            step = AskStep(_terms(scene, rows, run), 1, 1, Plan(paid, ()))
            said = victim.ask(step)
            beyond += said is not None and not _same(said.payload.cells.means, paid)
    return _synopses(beyond, scene)


def _sorted_anew(scene: Scene) -> Learned:
    """Ask again after the rows were put into another order."""
    rng, beyond = np.random.default_rng(scene.seed), 0
    for site, rows in enumerate(scene.tables):
        heard = set()
        for run in range(TIMES + 1):
            said = _first_synopsis(scene, site, run, rows)
            if said is not None:
                heard.add(said.tobytes())
            rows = rng.permutation(rows)
        beyond += max(0, len(heard) - 1)
    return _synopses(beyond, scene)


def _first_synopsis(scene: Scene, site: int, run: int, rows: Floats) -> Floats | None:
    """Return the means that a site's first message in a run tells, None if refused."""
    victim = scene.victim(site, f"run {run}", rows, budget=scene.level.epsilon)
    said = victim.ask(AskHello(_terms(scene, rows, run)))
    if said is None:
        return None
    means: Floats = said.payload.means
    return means


def _terms(scene: Scene, rows: Floats, run: int) -> Terms:
    name, level = f"run {run}", str(scene.level)
    return terms_for(rows, level, run=name, box=scene.box, **scene.options)


def _synopses(number: int, scene: Scene) -> Learned:
    return Learned(number, TIMES * len(scene.tables), "synopses")


def _same(said: Floats, known: Floats) -> bool:
    return said.shape == known.shape and np.allclose(said, known, rtol=0, atol=1e-9)


# ------------------------------------------------------------------ all of them


def _is_open(level: Level) -> bool:
    """Whether a site's cells can be read and have no noise."""
    return not level.secure and not level.private


def _is_masked(level: Level) -> bool:
    return level.secure and level.scheme == MASKS


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
        _ask_for_more,
    ),
    Lie(
        "other terms",
        _is_open,
        f"said hello {TIMES} times, with other seeds and in boxes a little wider",
        PINNED,
        _other_terms,
    ),
    Lie(
        "thousands of levels",
        lambda level: level.family == "summary" and _is_open(level),
        f"cut the rows by {THOUSANDS:,} planes in one request",
        PINNED,
        _thousands_of_levels,
    ),
    Lie(
        "more steps",
        lambda level: level.family == "summary" and _is_open(level),
        f"asked for {TIMES} steps more than agreed",
        PINNED,
        _more_steps,
    ),
    Lie(
        "planes within limits",
        lambda level: level.family == "summary" and _is_open(level),
        "cut the rows by as many planes as the terms allow",
        "",
        _levels_within_limits,
    ),
    Lie(
        "other groups",
        lambda level: level.group > 0 and _is_open(level),
        "asked for groups of other sizes, with columns repeated as weights",
        "a group is the finest thing that comes out, whatever is asked for",
        _regroup,
    ),
    Lie(
        "further runs",
        lambda level: not level.private,
        "ran again on the same rows, with other seeds",
        ONCE,
        _further_runs,
    ),
    Lie(
        "a row gone",
        _is_open,
        "ran again after every site had lost a row, without its saying so",
        ONCE,
        _fewer_rows,
    ),
    Lie(
        "masks used twice",
        _is_masked,
        "asked the same in a box without end, where the numbers are known",
        "no mask is used twice",
        _masks_twice,
    ),
    Lie(
        "one puppet",
        _is_masked,
        "joined with a site of 2,000 invented rows, and subtracted them",
        HELD,
        _one_puppet,
    ),
    Lie(
        "fewer holders",
        _is_masked,
        "the same, and asked for groups that two members hold",
        HELD,
        _fewer_holders,
    ),
    Lie(
        "a cohort of two",
        _is_masked,
        "summed one site with a puppet alone",
        "a cohort has three members at least (--cohort)",
        _cohort_of_two,
    ),
    Lie(
        "two puppets",
        _is_masked,
        "joined with two sites of invented rows",
        "",
        _two_puppets,
    ),
    Lie(
        "extremes",
        lambda level: level.private,
        "asked for minima, maxima and medians before the run",
        "dp tells no extremes",
        _extremes,
    ),
    Lie(
        "a jittered box",
        _is_noisy,
        "moved a box narrower than a step: do equal bytes tell where no row is?",
        "noise does not depend on rows",
        _jittered_box,
    ),
    Lie(
        "a spent ledger",
        _is_noisy,
        f"asked {TIMES} times for a step in place of a hello that is not paid for",
        ACCOUNT,
        _spent_ledger,
    ),
    Lie(
        "rows sorted anew",
        _is_noisy,
        f"asked in {TIMES} more runs, the rows in another order each time",
        ACCOUNT,
        _sorted_anew,
    ),
)
