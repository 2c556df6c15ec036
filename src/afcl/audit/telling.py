# SPDX-License-Identifier: Apache-2.0
"""How every lie is told to the sites of a scene, and what it is worth.

The attacks themselves are in :mod:`afcl.audit.liar` and :mod:`.liar_of_sums`, the table
of all of them in :mod:`afcl.audit.lies`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from afcl._typing import Bools, Floats
from afcl.audit import liar, liar_of_sums
from afcl.audit.scene import Learned, Scene
from afcl.audit.victims import Victim, honest_run, terms_for
from afcl.core.messages import Plan
from afcl.core.params import DefaultParams
from afcl.core.terms import AskAnnouncement, AskHello, AskStep, Terms
from afcl.methods import get_method
from afcl.privacy.attacks import Exchange

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

# ------------------------------------------------------------------ whatever the level


def ask_for_more(scene: Scene) -> Learned:
    """Ask for what the level forbids."""
    level, options = str(scene.level), scene.options
    return scene.on_every_site(
        lambda site, rows: liar.ask_for_more(site, rows, level, scene.box, **options)
    )


def other_terms(scene: Scene) -> Learned:
    """Say hello under other terms, again and again."""
    level, options = str(scene.level), scene.options
    return scene.on_every_site(
        lambda site, rows: liar.other_terms(
            site, rows, level, TIMES, scene.box, **options
        )
    )


def further_runs(scene: Scene) -> Learned:
    """Run again on the same rows."""
    return _in_several_runs(scene, lambda rows: rows)


def fewer_rows(scene: Scene) -> Learned:
    """Run again after every site has lost a row."""
    rng = np.random.default_rng(scene.seed)
    return _in_several_runs(
        scene, lambda rows: np.delete(rows, rng.integers(len(rows)), axis=0)
    )


def _in_several_runs(scene: Scene, change: Callable[[Floats], Floats]) -> Learned:
    """Run honestly several times; learned is what the first run did not tell."""
    tables, exchanges, first = list(scene.tables), [], 0
    own, level = scene.options, str(scene.level)
    if scene.level.secure and scene.cohort is not None:
        own["cohort"] = min(scene.cohort, len(tables))
    for number in range(scene.runs):
        victims = [
            scene.victim(site, f"run {number}", rows)
            for site, rows in enumerate(tables)
        ]
        seed = scene.seed + number
        exchanges += honest_run(
            victims, f"run {number}", seed, level, scene.scale, **own
        )
        first = first or len(exchanges)
        tables = [change(rows) for rows in tables]
    rows = np.concatenate(scene.spoken)
    before, after = (
        _known_rows(scene, part, rows) for part in (exchanges[:first], exchanges)
    )
    return Learned(int((after & ~before).sum()), len(rows))


def _known_rows(scene: Scene, exchanges: Sequence[Exchange], rows: Floats) -> Bools:
    return scene.known(liar.compare_runs(exchanges, scene.box), rows)


# ------------------------------------------------------------------ summary, grouped


def thousands_of_levels(scene: Scene) -> Learned:
    """Cut the rows by far more planes than agreed."""
    return _levels(scene, THOUSANDS, 1)


def thousands_agreed(scene: Scene) -> Learned:
    """Do the same under terms that allow it."""
    return _levels(scene, THOUSANDS, 1, candidates=THOUSANDS)


def levels_within_limits(scene: Scene) -> Learned:
    """Cut the rows by as many planes as agreed."""
    agreed = DefaultParams(min_cell=scene.min_cell)
    return _levels(scene, agreed.candidates, agreed.contacts)


def _levels(scene: Scene, levels: int, steps: int, **options: int) -> Learned:
    asked = {**scene.options, **options}

    def attack(site: Victim, rows: Floats) -> list[Floats]:
        return liar.many_levels(site, rows, levels, steps, scene.box, **asked)

    return scene.on_every_site(attack)


def more_steps(scene: Scene) -> Learned:
    """Ask for more steps than agreed; learned are answers beyond these."""
    method = get_method("afcl")
    disclosure = method.disclosure(method.parameters(privacy=str(scene.level)))
    agreed, beyond = disclosure.steps or 0, 0
    for site, rows in enumerate(scene.tables):
        victim = scene.victim(site, "run")
        liar.many_levels(victim, rows, 2, agreed + TIMES, scene.box, **scene.options)
        beyond += max(0, victim.asked - 1 - victim.refused - agreed)
    return Learned(beyond, TIMES * len(scene.tables), "answers")


def regroup(scene: Scene) -> Learned:
    """Ask for groups of other sizes and weights."""
    least, options = max(scene.level.group, scene.min_cell), scene.options

    return scene.on_every_site(
        lambda site, rows: liar.regroup(
            site, rows, GROUPINGS, scene.box, least, **options
        )
    )


def other_sizes(scene: Scene) -> Learned:
    """Agree on scales in run after run, each of groups a little larger."""
    least, beyond = max(scene.level.group, 1), 0
    for site in range(len(scene.tables)):
        replies = set()
        for number in range(TIMES + 1):
            run = f"run {number}"
            asked = AskAnnouncement(run, extremes=True, group=least + number)
            reply = scene.victim(site, run).ask(asked)
            if reply is not None:
                parts = reply.low, reply.high, reply.middle
                replies.add(b"".join(part.tobytes() for part in parts))
        beyond += max(0, len(replies) - 1)
    return Learned(beyond, TIMES * len(scene.tables), "answers")


def agreed_otherwise(scene: Scene) -> Learned:
    """Agree on groups of one size, and ask for a first message of another.

    In the run of the agreement, and in the next one.
    """
    size, answers = scene.level.group, 0
    larger = str(replace(scene.level, group=size + 1))
    for site, rows in enumerate(scene.tables):
        asked = AskAnnouncement("run 0", extremes=True, group=size)
        agreed = scene.victim(site, "run 0")
        if agreed.ask(asked) is None:
            continue
        for number, victim in enumerate((agreed, scene.victim(site, "run 1"))):
            terms = terms_for(
                rows, larger, run=f"run {number}", box=scene.box, **scene.options
            )
            answers += victim.ask(AskHello(terms)) is not None
    return Learned(answers, 2 * len(scene.tables), "answers")


# ------------------------------------------------------------------ secure


def masks_twice(scene: Scene) -> Learned:
    """Ask the same in two boxes, under one mask if there is but one."""
    level, options = str(scene.level), scene.options

    def attack(site: Victim, rows: Floats) -> list[Floats]:
        return [
            liar_of_sums.two_time_pad(site, rows, box=scene.box, level=level, **options)
        ]

    return scene.on_every_site(attack)


def _puppets(
    scene: Scene, sites: int, number: int, lying: bool = False, **options: int
) -> Learned:
    """Join with members of the coordinator's own; learned are rows of the others."""
    victims = [scene.victim(site, "run") for site in range(sites)]
    found = liar_of_sums.puppets(
        victims,
        scene.tables[:sites],
        scene.box,
        number,
        str(scene.level),
        lying,
        **scene.options,
        **options,
    )
    rows = np.concatenate(scene.spoken[:sites])
    return Learned(int(scene.known([found], rows).sum()), len(rows))


def one_puppet(scene: Scene) -> Learned:
    """Join two sites with one member of the coordinator's own."""
    return _puppets(scene, 2, 1)


def lying_puppet(scene: Scene) -> Learned:
    """Do the same with one that says of every group that many hold it."""
    return _puppets(scene, 2, 1, lying=True)


def fewer_holders(scene: Scene) -> Learned:
    """Do the same, where two holders shall be enough."""
    return _puppets(scene, 2, 1, holders=2)


def cohort_of_two(scene: Scene) -> Learned:
    """Sum one site with a puppet."""
    return _puppets(scene, 1, 1)


def two_puppets(scene: Scene) -> Learned:
    """Join two sites with two members of the coordinator's own."""
    return _puppets(scene, 2, 2)


# ------------------------------------------------------------------ dp


def extremes(scene: Scene) -> Learned:
    """Ask for minima, maxima and medians."""
    learned = 0
    for site in range(len(scene.tables)):
        reply = scene.victim(site, "run").ask(AskAnnouncement("run", extremes=True))
        if reply is not None:
            learned += reply.low.size + reply.high.size + reply.middle.size
    return Learned(learned, 3 * sum(rows.shape[1] for rows in scene.tables), "extremes")


def jittered_box(scene: Scene) -> Learned:
    """Look for values; of a continuous column, for the step they lie in."""
    steps, fine = scene.steps, scene.box.span / FINE
    known, values = 0, 0
    for site, rows in enumerate(scene.tables):
        victim = scene.victim(site, "run")
        for column in range(min(COLUMNS, rows.shape[1])):
            step, near = (steps[column], 1 / 4) if steps[column] else (fine[column], 1)
            own = np.unique(rows[:, column])
            found = liar.bisect_column(victim, rows, column, step, str(scene.level))
            gaps = np.abs(own[:, None] - found)
            known += int((gaps <= near * step).any(axis=1).sum())
            values += own.size
    return Learned(known, values, "values")


def spent_ledger(scene: Scene) -> Learned:
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
            reply = victim.ask(step)
            if reply is not None and not _same(reply.payload.cells.means, paid):
                beyond += 1
    return _synopses(beyond, scene)


def sorted_anew(scene: Scene) -> Learned:
    """Ask again after the rows were put into another order."""
    rng, beyond = np.random.default_rng(scene.seed), 0
    for site, rows in enumerate(scene.tables):
        synopses = set()
        for run in range(TIMES + 1):
            synopsis = _first_synopsis(scene, site, run, rows)
            if synopsis is not None:
                synopses.add(synopsis.tobytes())
            rows = rng.permutation(rows)
        beyond += max(0, len(synopses) - 1)
    return _synopses(beyond, scene)


def _first_synopsis(scene: Scene, site: int, run: int, rows: Floats) -> Floats | None:
    """Return the means that a site's first message in a run tells, None if refused."""
    victim = scene.victim(site, f"run {run}", rows, budget=scene.level.epsilon)
    reply = victim.ask(AskHello(_terms(scene, rows, run)))
    if reply is None:
        return None
    means: Floats = reply.payload.means
    return means


def _terms(scene: Scene, rows: Floats, run: int) -> Terms:
    name, level = f"run {run}", str(scene.level)
    return terms_for(rows, level, run=name, box=scene.box, **scene.options)


def _synopses(number: int, scene: Scene) -> Learned:
    return Learned(number, TIMES * len(scene.tables), "synopses")


def _same(means: Floats, known: Floats) -> bool:
    return means.shape == known.shape and np.allclose(means, known, rtol=0, atol=1e-9)
