# SPDX-License-Identifier: Apache-2.0
"""What every level promises, and whether the bytes that were sent keep it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from afcl.audit.canaries import CanaryResult
from afcl.audit.findings import AcrossRuns, AttackResults, Attempt
from afcl.audit.wire import Tapped, TappedSite
from afcl.core.cohort_answers import numbers_for
from afcl.core.messages import Hello
from afcl.core.tasks import KEY, OPENING, Part
from afcl.core.terms import AskHello
from afcl.privacy.accountant import compose, epsilon_of
from afcl.privacy.attacks import Exchange, Released
from afcl.privacy.levels import MASKS, Level
from afcl.runtime.codec import decode
from afcl.runtime.site import Site, settled
from afcl.scale import Ranges

#: Masked bytes that are less likely than this if they were uniform are not.
UNLIKELY = 1e-9
#: Fewest bytes on which that can be tested.
ENOUGH = 2048


@dataclass(frozen=True, slots=True)
class AuditedRun:
    """What a level's promises are held against: a run at it, attacked and tested."""

    level: Level
    run: Tapped
    released: Sequence[Released]
    attacks: AttackResults
    canary: Sequence[CanaryResult]
    min_cell: int
    enumerated: float = 0.0
    across: Sequence[AcrossRuns] = ()
    lies: Sequence[Attempt] = ()


class Promise(NamedTuple):
    """Something promised: by which levels, in which words, and how that is tested."""

    is_made: Callable[[Level], bool]
    words: str
    broken: Callable[[AuditedRun], list[str]]


def least_rows(level: Level, min_cell: int) -> int:
    """Return how many rows a cell must hold at a level."""
    return max(min_cell, level.group) if level.sends_cells else 1


def in_words(level: Level, min_cell: int) -> str:
    """Say what a level promises: nothing, unless clients send cells."""
    least = least_rows(level, min_cell)
    made = (promise.words for promise in PROMISES if promise.is_made(level))
    return "; ".join(words.format(least=least, level=level) for words in made)


def broken_promises(found: AuditedRun) -> list[str]:
    """Return in words what a level promised and did not keep."""
    made = [promise for promise in PROMISES if promise.is_made(found.level)]
    return [reason for promise in made for reason in promise.broken(found)]


def _recovered(found: AuditedRun) -> list[str]:
    attacks, reasons = found.attacks, []
    if attacks.recovered > 0:
        which = [attack.name for attack in attacks.attacks if attack.counts]
        reasons.append(
            f"{attacks.recovered:.2%} of the rows were recovered ({', '.join(which)})"
        )
    if found.enumerated > 0:
        reasons.append(
            f"{found.enumerated:.2%} of the values follow from a single message "
            "(enumeration)"
        )
    return reasons + [
        f"what stands for the rows of client {client} was formed anew"
        for client, site in enumerate(found.run.sites)
        if len(site.stood) > 1
    ]


def _told_by_runs(found: AuditedRun) -> list[str]:
    """Return what several runs tell together that is promised not to be told."""
    if not found.across:
        return []
    last = found.across[-1]
    if last.reseeded > 0:
        return [
            f"{last.reseeded:.2%} of the rows follow from {last.runs} runs with "
            "other seeds"
        ]
    return []


def _believed_lies(found: AuditedRun) -> list[str]:
    """Return what a coordinator that lies learned though that is promised not to be."""
    return [
        f"{lie.name}: a coordinator that {lie.tried} learned {lie.learned} of {lie.of} "
        f"{lie.what} ({lie.promise})"
        for lie in found.lies
        if lie.broken
    ]


def _small_cells(found: AuditedRun) -> list[str]:
    least = least_rows(found.level, found.min_cell)
    for each in found.released:
        alone = len(each.clients) == 1
        allowed = least if alone else found.min_cell
        smallest = int(each.cells.counts.min())
        if smallest < allowed:
            whose = f"client {each.clients[0]}" if alone else "a cohort"
            return [f"a cell of {whose} holds {smallest} rows, fewer than {allowed}"]
    return []


# ------------------------------------------------------------------ secure


def _not_hidden(found: AuditedRun) -> list[str]:
    """Return what is readable after the first message though it should not be."""
    reasons, parts = [], []
    for one in found.run.exchanges:
        if isinstance(one.reply, Hello | Ranges):
            continue
        payload = one.reply.payload
        if not isinstance(payload, Part):
            kind = type(payload).__name__
            return [f"client {one.client} sent a {kind} in the clear"]
        parts.append(payload.values)
        if _plain(found.run, one):
            reasons.append(f"client {one.client} sent its own numbers unhidden")
    masked = b"".join(part.tobytes() for part in parts)
    uneven = len(masked) >= ENOUGH and uniform(masked) < UNLIKELY
    if found.level.scheme == MASKS and uneven:
        reasons.append("masked bytes are not uniform")
    return reasons


def _plain(run: Tapped, one: Exchange) -> bool:
    """Whether a client's own numbers stand in its answer, as bytes or one by one.

    By chance a masked number is the plain one in one of 2^64 cases.
    """
    part, task = one.reply.payload, one.request.payload.own
    if part.phase == KEY:
        return False
    questions = {opening: question for question, opening in OPENING.items()}
    working = run.sites[one.client].working(one.request.terms)
    _, params = settled(one.request.terms)
    own = numbers_for(task.question, working.rows, params.threshold)
    if own.tobytes() in part.values.tobytes():
        return True
    masked = task.public is None and part.phase not in questions
    return masked and bool(np.any(own == part.values))


def uniform(data: bytes) -> float:
    """Return how likely bytes at least as uneven are if all are equally likely.

    Pearson's chi-squared test over the 256 values.
    """
    counts = np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)
    expected = len(data) / 256
    return float(chdtrc(255, float(((counts - expected) ** 2 / expected).sum())))


# ------------------------------------------------------------------ dp


def _not_private(found: AuditedRun) -> list[str]:
    level = found.level
    reasons = [
        f"a canary shows epsilon {each.measured:.2f}, claimed is {each.claimed:.2f}"
        for each in found.canary
        if each.measured > each.claimed
    ]
    for client, site in enumerate(found.run.sites):
        cost = epsilon_of(compose(site.charged.values()), level.delta)
        if not site.charged:
            reasons.append(f"client {client} wrote nothing into its account")
        elif cost > level.epsilon * (1 + 1e-9):
            reasons.append(f"client {client} spent an epsilon of {cost:.3f}")
        if not _says_the_same(site):
            reasons.append(f"client {client} draws new noise when asked again")
    return reasons


def _says_the_same(site: TappedSite) -> bool:
    """Whether the first message, asked for again, has the same bytes."""
    for request, answer in site.wire:
        if isinstance(decode(request), AskHello):
            return Site.answer(site, request) == answer
    return True


#: All promises, in the order they are told. A new one is an entry here.
PROMISES = (
    Promise(
        lambda level: level.sends_cells and level.family != "summary",
        "no row recovered",
        _recovered,
    ),
    Promise(
        lambda level: level.sends_cells,
        "no cell of fewer than {least} rows",
        _small_cells,
    ),
    Promise(
        lambda level: bool(level.group) and not level.secure,
        "no row told by several runs with other seeds",
        _told_by_runs,
    ),
    Promise(
        lambda level: level.private, "epsilon at most {level.epsilon:g}", _not_private
    ),
    Promise(
        lambda level: level.secure,
        "sums over cohorts only after the first message, which is on a grid of 1/64",
        _not_hidden,
    ),
    Promise(
        lambda level: level.sends_cells,
        "the same to a coordinator that lies",
        _believed_lies,
    ),
)
