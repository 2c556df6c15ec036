# SPDX-License-Identifier: Apache-2.0
"""The canary test on what a site really sends as its first message."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core.messages import Cells
from afcl.core.terms import AskHello, Terms
from afcl.privacy.canary import canary_test, epsilon_lower_bound
from afcl.privacy.levels import Level
from afcl.runtime.codec import decode, encode
from afcl.runtime.site import Site
from afcl.scale import Box

#: Rows of the table.
ROWS = 40
#: Where they all are, in every column of the unit box.
PLACE = 0.25
#: Where the canary is, if it is in the table.
CANARY = 0.75


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """A claim, and the epsilon that the canary shows at least."""

    claimed: float
    measured: float


def canaries(
    level: Level, n_features: int, min_cell: int, trials: int, seed: int
) -> tuple[CanaryResult, ...]:
    """Test a level's own claim and, where trials cannot reach it, a smaller one.

    n trials can show an epsilon of about log(n) - 2 and no more. A mechanism whose
    claim is larger is tested a second time with a claim that the trials can refute;
    noise that is missing there is missing everywhere.
    """
    claims = [level.epsilon]
    half = trials - trials // 2
    most = epsilon_lower_bound(half, half, 0, half, level.delta)
    if 0 < most <= level.epsilon:
        claims.append(most / 2)
    rows, canary = np.full((ROWS, n_features), PLACE), np.full(n_features, CANARY)
    found = []
    for claim in claims:
        release = _release(replace(level, epsilon=claim), n_features, min_cell)
        rng = np.random.default_rng(seed)
        shown = canary_test(release, rows, canary, trials, rng, level.delta)
        found.append(CanaryResult(claim, shown.epsilon))
    return tuple(found)


def _release(
    level: Level, n_features: int, min_cell: int
) -> Callable[[Floats, np.random.Generator], Cells]:
    """Return the mechanism: a new site with its own secret says hello in bytes."""
    options: dict[str, Any] = {
        "privacy": f"{level.family}({level.epsilon!r},{level.delta!r})",
        "min_cell": min_cell,
    }
    if level.secure:
        options["privacy"] = f"{str(level).split('+')[0]}+{options['privacy']}"
    box = Box(np.zeros(n_features), np.ones(n_features))
    terms = Terms("canary", "afcl", json.dumps(options), 0, 0, box, ROWS)
    request = encode(AskHello(terms))

    def release(X: Floats, rng: np.random.Generator) -> Cells:
        payload = decode(Site(X, secret=rng.bytes(32)).answer(request)).payload
        cells: Cells = payload.cells if level.secure else payload
        return cells

    return release
