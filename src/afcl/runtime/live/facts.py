# SPDX-License-Identifier: Apache-2.0
"""What a site is told at the end, for people: JSON of a stranger, made fit to keep."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from afcl.exceptions import RejectedMessage
from afcl.runtime.codec import DEPTH_LIMIT, bounded
from afcl.texts import plain

#: Of facts that cannot be kept.
NO_FACTS = "the facts of the end are no result"
#: Where the names of the columns stand, which are the site's own.
COLUMNS = "columns"


def read_facts(text: str, columns: Sequence[str]) -> dict[str, Any]:
    """Return the facts as a site keeps them: finite numbers and plain, short texts.

    Parameters
    ----------
    text : str
        JSON, as it came.
    columns : sequence of str
        The agreed ones; the facts must be about these, whatever they are called.

    Raises
    ------
    RejectedMessage
        If they are not what the end of a run comes with.
    """
    try:
        facts = json.loads(bounded(text), parse_constant=_no_number)
        kept = {plain(name): _kept(value, 1) for name, value in facts.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise RejectedMessage(NO_FACTS) from error
    if facts.get(COLUMNS) != list(columns):
        raise RejectedMessage(f"{NO_FACTS} of the agreed columns")
    return {**kept, COLUMNS: list(columns)}


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _kept(value: Any, depth: int) -> Any:
    if depth > DEPTH_LIMIT:
        raise ValueError("too deep")
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_kept(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {plain(name): _kept(each, depth + 1) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is not finite")
    return value
