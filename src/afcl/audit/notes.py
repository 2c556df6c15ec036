# SPDX-License-Identifier: Apache-2.0
"""What else a level's messages say, in words: nothing that is promised otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afcl.audit.findings import AcrossRuns, Attempt
from afcl.audit.wire import Tapped
from afcl.privacy.levels import Level
from afcl.scale import Ranges


def of_steps(found: float) -> tuple[str, ...]:
    """Say what follows from one message because columns are measured in steps."""
    if not found:
        return ()
    return (
        f"{found:.1%} of the values follow from a single message, by going through "
        "everything that fits it: the columns are measured in few steps",
    )


def of_ends(found: float, known: float) -> tuple[str, ...]:
    """Say what follows for whoever also knows between what values columns lie."""
    if known <= found:
        return ()
    return (
        f"{known:.2%} of the values follow if it is also known between what values a "
        "column lies, against which nothing is promised",
    )


def of_runs(across: Sequence[AcrossRuns]) -> tuple[str, ...]:
    """Say what several runs tell together, which no single one does."""
    if not across:
        return ()
    # The last entry compares all runs; those before it compare fewer.
    last, lines = across[-1], []
    if last.reseeded > 0:
        lines.append(
            f"{last.reseeded:.1%} of the rows follow from {last.runs} "
            f"{'run' if last.runs == 1 else 'runs'} with other seeds, unless a "
            "site keeps what it has said"
        )
    if last.after_leaving > 0 and last.runs > 1:
        lines.append(
            f"{last.after_leaving:.1%} follow from {last.runs} runs if every site "
            "loses a row between two of them: no level but dp hides who has left"
        )
    return tuple(lines)


def of_lies(lies: Sequence[Attempt]) -> tuple[str, ...]:
    """Say what lies are worth about which nothing is promised."""
    return tuple(
        f"{each.name}: a coordinator that {each.tried} learned {each.learned} of "
        f"{each.of} {each.what}, against which nothing is promised"
        for each in lies
        if each.learned and not each.promise
    )


def of_extremes(level: Level, run: Tapped) -> tuple[str, ...]:
    """Say what the agreement on scales gave away."""
    sent = [one.reply for one in run.exchanges if isinstance(one.reply, Ranges)]
    exact = 0
    for ranges, site in zip(sent, run.sites, strict=True):
        if ranges.low.size:
            exact += int((ranges.low == np.nanmin(site.rows, axis=0)).sum())
            exact += int((ranges.high == np.nanmax(site.rows, axis=0)).sum())
    if not exact:
        return ()
    # A run in one process asks for no medians, so that there are none to be counted.
    more = ", and between machines the medians too"
    shared = " (values that several rows share)" if level.group else more
    return (f"{exact} column extremes of sites were told exactly{shared}",)
