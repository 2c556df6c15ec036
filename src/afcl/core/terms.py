# SPDX-License-Identifier: Apache-2.0
"""What the server asks of a client; each request says everything the client needs.

A client keeps nothing between requests but its rows and its method's memory, so that
it may run as a new process every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afcl.core.messages import payload
from afcl.core.scale import Box


@payload
@dataclass(frozen=True, slots=True)
class Terms:
    """The agreement: method and its options (JSON), root seed, box, rows in all."""

    run: str
    method: str
    options: str
    seed: int
    client: int
    box: Box
    n_rows: int


@payload
@dataclass(frozen=True, slots=True)
class AskRanges:
    """Step 0: how many rows and features, and (if `extremes`) the column extremes."""

    run: str
    extremes: bool


@payload
@dataclass(frozen=True, slots=True)
class AskHello:
    """First contact: say hello under these terms."""

    terms: Terms


@payload
@dataclass(frozen=True, slots=True)
class AskStep:
    """A broadcast of `version`, to be answered as the client's `contact`-th message."""

    terms: Terms
    version: int
    contact: int
    payload: Any
