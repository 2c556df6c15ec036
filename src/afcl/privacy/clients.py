# SPDX-License-Identifier: Apache-2.0
"""A client of the default preset, at whatever level its parameters name.

What each level does is in its own module, which :data:`afcl.registry.LEVELS` names.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from afcl._typing import Floats
from afcl.core.messages import Hello, Update
from afcl.core.params import DefaultParams
from afcl.core.protocol import Requirements
from afcl.core.rows import Rows
from afcl.privacy.levels import Level, parse_level
from afcl.privacy.protection import Protection
from afcl.registry import LEVELS

#: What a client works on; its level knows what that is.
Working: TypeAlias = Any


def protection_at(level: Level) -> Protection:
    """Return what protects a client at a level."""
    protection: Protection = LEVELS[level.listed_as].worker()
    return protection


def requirements(params: DefaultParams) -> Requirements:
    """Return what the level asks of the agreement on scales."""
    level = parse_level(params.privacy)
    return protection_at(level).requirements(level, params)


def view(X: Floats | Rows, params: DefaultParams, rng: np.random.Generator) -> Working:
    """Return what the level lets a client work on, formed once."""
    level = parse_level(params.privacy)
    return protection_at(level).view(X, level, params, rng)


def spends(params: DefaultParams, contact: int) -> float:
    """Return what a message costs a row's privacy (mu of Gaussian DP), 0 for none."""
    level = parse_level(params.privacy)
    return protection_at(level).spends(level, params, contact)


def hello(view: Working, params: DefaultParams, rng: np.random.Generator) -> Hello:
    """Return the first message."""
    level = parse_level(params.privacy)
    return protection_at(level).hello(view, level, params, rng)


def step(
    payload: Any, view: Working, memory: Any, params: DefaultParams
) -> tuple[Update, Any]:
    """Return the answer to a broadcast, and what the client remembers."""
    level = parse_level(params.privacy)
    return protection_at(level).step(payload, view, memory, level, params)
