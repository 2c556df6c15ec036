# SPDX-License-Identifier: Apache-2.0
"""What a run is given and what it returns: both sides of the coordinator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from afcl._typing import ClientId, Floats
from afcl.core.protocol import AnyMethod, Clustering
from afcl.core.terms import Terms
from afcl.privacy.levels import parse_level
from afcl.runtime.agreement import MAX_ROWS, Agreement
from afcl.trace import SCHEMA, Trace


@dataclass(frozen=True)
class Spec:
    """What is to be run, apart from the data."""

    method: AnyMethod
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    scale: Any = "minmax"
    max_rounds: int = 100
    run: str = "run"
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    max_rows: int = MAX_ROWS
    #: What is done about gaps, see :mod:`afcl.gaps`; "": there are none.
    missing: str = ""
    #: What stands for a column that a client has no value of, if one has none.
    typical: Floats | None = None
    #: Bounds of columns that need no agreement (NaN: the others), such as categories.
    bounds: tuple[Floats, Floats] | None = None
    #: Lines for people that are known before the run.
    notes: tuple[str, ...] = ()
    #: What the noise of simulated clients is drawn from; None: from the seed.
    secret: bytes | None = None

    def secret_of(self, client: ClientId) -> bytes | None:
        """Return a simulated client's own secret, None where the seed makes it."""
        if self.secret is None:
            return None
        return hashlib.sha256(self.secret + str(client).encode()).digest()

    @cached_property
    def noisy(self) -> bool:
        """Whether the privacy level draws noise, so that a guarantee depends on it."""
        level = self.method.disclosure(self.parameters).level
        return bool(level) and parse_level(level).private

    @cached_property
    def parameters(self) -> Any:
        """The options, checked and completed by the method: once for the whole run."""
        return self.method.parameters(**self.options)


@dataclass
class Tally:
    """Messages and bytes that came up from one client, the agreement apart."""

    rows: int = 0
    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Finished:
    """A run's answer and how it came about.

    `rejected` counts the refused messages of every client that had any.
    """

    clustering: Clustering
    state: Any
    terms: Terms
    rounds: int
    tallies: dict[ClientId, Tally]
    trace: Trace
    rejected: dict[ClientId, int] = field(default_factory=dict)


def terms_of(spec: Spec, agreed: Agreement) -> Terms:
    """Return what every request of a run says, but for whom it asks."""
    shared = spec.method.told(spec.options)
    options = json.dumps(dict(shared), sort_keys=True)
    run = (spec.run, spec.method.name, options, spec.seed)
    settled = (agreed.box, agreed.n_rows, agreed.columns)
    return Terms(*run, -1, *settled, agreed.categories or None)


def introduction(spec: Spec) -> dict[str, Any]:
    """Return what the first event of a trace says of a run."""
    return {
        "schema": SCHEMA,
        "run": spec.run,
        "method": spec.method.name,
        "parameters": dict(spec.options),
        "seed": spec.seed,
        "clients": list(spec.names),
    }
