# SPDX-License-Identifier: Apache-2.0
"""What a privacy level requires of a run before it begins: scale, bounds, clients."""

from __future__ import annotations

from typing import Any

from afcl.core.protocol import AnyMethod, Requirements
from afcl.exceptions import InputError
from afcl.methods import get_method

#: The levels at which a client reads its rows part by part, by how they end.
_IN_PARTS = "summary"


def reads_in_parts(level: str) -> bool:
    """Whether clients read their rows part by part at a level."""
    return level.rpartition("+")[2] == _IN_PARTS


def needs_all_rows(method: str, level: str) -> str:
    """Name what needs all rows of a site in memory; "" if nothing does.

    Parameters
    ----------
    method, level : str
        What a site takes part in, and how private.
    """
    if not get_method(method).in_parts:
        return f"method {method}"
    return "" if reads_in_parts(level) else f"privacy level {level}"


def requirements(
    method: AnyMethod,
    parameters: Any,
    scale: Any,
    clients: int | None = None,
) -> Requirements:
    """Return what a level asks of the agreement, or say what it lacks."""
    asked = method.requirements(parameters)
    if asked.bounds and (isinstance(scale, str) or scale is None):
        raise InputError(
            f"privacy {parameters.privacy} needs public bounds of every column, "
            "because a site's own extremes would give rows away: scale=(low, high), or "
            "--ranges COLUMN=LOW:HIGH on the command line"
        )
    if asked.box and scale is None:
        raise InputError(
            f"privacy {parameters.privacy} needs a common scale: leave out scale=None"
        )
    if clients is not None and clients < asked.clients:
        raise InputError(
            f"privacy {parameters.privacy} reads sums over cohorts of {asked.clients} "
            f"clients, there are {clients}: lower cohort (3 at least), or choose "
            "grouped(5)"
        )
    return asked
