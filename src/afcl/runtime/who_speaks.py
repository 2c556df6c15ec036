# SPDX-License-Identifier: Apache-2.0
"""Which clients have rows enough to take part, and what is said of the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from afcl._typing import Floats
from afcl.core.rows import Source
from afcl.exceptions import InputError
from afcl.gaps import IMPUTE, KEEPING, speaking
from afcl.privacy import parse_level
from afcl.reliance import no_part_words
from afcl.runtime.spec import Spec


def least_rows(spec: Spec) -> int:
    """Return how many rows a client needs to take part."""
    told = spec.method.disclosure(spec.parameters)
    group = parse_level(told.level).group if told.level else 1
    return max(1, told.min_cell or 1, group)


def rows_that_speak(
    table: Floats | Source, missing: str, bounds: tuple[Floats, Floats] | None
) -> int:
    """Return how many rows of a client take part, as far as it knows beforehand."""
    if isinstance(table, np.ndarray):
        return speaking(table, missing if missing in KEEPING else IMPUTE, bounds)
    return table.shape[0]


def too_small(
    spec: Spec,
    tables: Sequence[Floats | Source],
    gone: Collection[int] = (),
    called: Sequence[str] = (),
) -> dict[int, str]:
    """Return the clients with too few rows to take part, and a line on each.

    They are labelled in the end, like everybody else. Who is `gone` is none of them.
    Lines have what clients are `called`, or their names in the result.
    """
    least, small = least_rows(spec), {}
    for client, table in enumerate(tables):
        if client in gone:
            continue
        n = rows_that_speak(table, spec.missing, spec.bounds)
        if n < least:
            name = spec.names[client] if spec.names else str(client)
            who = f"client {name}" if name.isdecimal() else name
            who = called[client] if called else who
            gaps = "" if n == table.shape[0] else " whose gaps can be filled"
            small[client] = (
                f"{who} has {n} {'row' if n == 1 else 'rows'}{gaps}, fewer than "
                f"{least}: {no_part_words(table.shape[0])}"
            )
    if len(small) + len(gone) == len(tables):
        most = max((table.shape[0] for table in tables), default=0)
        if most >= least:
            raise InputError(
                f"no client has {least} rows whose gaps can be filled: leave the "
                "emptiest columns out, or use missing='impute'"
            )
        raise InputError(
            f"no client has as many rows as a cell or group needs, {least} (the "
            f"largest has n_samples = {most}): merge clients or lower min_cell"
        )
    return small
