# SPDX-License-Identifier: Apache-2.0
"""A crowd at its privacy level: batches of messages, and the server that hears them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self, TypeVar

import numpy as np

from afcl._typing import Ints
from afcl.core import crowd_cohorts, rebuild, server
from afcl.core.batch import Crowd, one_after_another
from afcl.core.crowd import CrowdState, absorb_hellos, absorb_replies, condense, replies
from afcl.core.params import DefaultParams
from afcl.core.protocol import Clustering, Diagnostics
from afcl.kernels.threads import workers
from afcl.privacy import crowd as private
from afcl.privacy.levels import parse_level
from afcl.privacy.masks import MOST_COUNTS, MOST_SUMS

T = TypeVar("T")
#: Clients or cohorts of one call: what it works on stays in the cache.
PART = 1024


class Threads:
    """Shares a crowd's work out to threads; the result does not depend on how many."""

    def __init__(self, n: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(n or workers())

    def __call__(self, work: Callable[[Ints], T], index: Ints) -> list[T]:
        """Return what `work` gives for parts of an index, in their order."""
        return list(self._pool.map(work, self.parts(index)))

    @staticmethod
    def parts(index: Ints) -> list[Ints]:
        """Return an index in parts of at most :data:`PART`, at least one."""
        return np.array_split(index, max(1, -(-index.shape[0] // PART)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


@dataclass(frozen=True)
class Round:
    """What came from clients: whose messages, the bytes of each, and facts."""

    clients: Ints
    array_bytes: Ints
    facts: Diagnostics = field(default_factory=dict)


class Summaries:
    """The level `summary`: cells up, seeds and candidates down.

    Attributes
    ----------
    state
        The server's.
    """

    def __init__(
        self, crowd: Crowd, params: DefaultParams, seed: int, threads: Threads
    ) -> None:
        self.state = CrowdState(params, seed)
        self._crowd = crowd
        self._threads = threads

    def greet(self) -> Round:
        """Hear the hellos of all."""
        crowd, state = self._crowd, self.state
        everybody = np.arange(crowd.sizes.shape[0])
        cells = one_after_another(
            self._threads(
                lambda some: condense(crowd, some, state.params, state.seed), everybody
            )
        )
        self.state = absorb_hellos(state, cells, crowd.sizes)
        each = cells.sizes * 8 * (crowd.rows.shape[1] + 2)
        return Round(everybody, each, {"cells": int(cells.offsets[-1])})

    def wanted(self) -> Ints:
        """Return whose answers would still help."""
        return np.flatnonzero(self.state.wanted())

    def answer(self, clients: Ints) -> Round:
        """Let these clients answer the newest plan, and absorb what they say."""
        crowd, state = self._crowd, self.state
        said = replies(crowd, clients, state.sent[-1], state.params, self._threads)
        self.state, finer = absorb_replies(state, said)
        facts = {
            "version": state.version,
            "cells": int(said.cells.offsets[-1]),
            "finer": finer,
        }
        return Round(clients, said.array_bytes, facts)

    def end_round(self) -> None:
        """Nothing: the default preset does not think in rounds."""

    def prepare(self) -> None:
        """Do the server's heavy work."""
        state = rebuild.prepare(self.state)
        assert isinstance(state, CrowdState)
        self.state = state

    def done(self) -> bool:
        """Whether everybody has said what it can."""
        return self.state.prepared and not self.state.wanted().any()

    def progress(self) -> Diagnostics:
        """Numbers worth showing."""
        return server.progress(self.state)

    def result(self) -> Clustering:
        """Return the best level, and the whole path."""
        return server.result(self.state)


class Cohorts:
    """The level `secure`: hellos by groups, then sums over cohorts and nothing else.

    Attributes
    ----------
    state
        The server's.
    """

    def __init__(
        self, crowd: Crowd, params: DefaultParams, seed: int, threads: Threads
    ) -> None:
        self.state: crowd_cohorts.CohortState
        self._crowd = crowd
        self._params = params
        self._seed = seed
        self._threads = threads

    def greet(self) -> Round:
        """Hear the hellos of all."""
        crowd, params = self._crowd, self._params
        group = parse_level(params.privacy).group
        cells = private.hellos(crowd, group, params, self._seed, self._threads)
        limits = (MOST_COUNTS, MOST_SUMS)
        self.state = crowd_cohorts.heard(params, self._seed, cells, crowd.sizes, limits)
        each = cells.sizes * 8 * (crowd.rows.shape[1] + 2)
        facts = {"cells": int(cells.offsets[-1])}
        return Round(np.arange(crowd.sizes.shape[0]), each, facts)

    def wanted(self) -> Ints:
        """Return who owes its cohort a part."""
        return self.state.wanted()

    def answer(self, clients: Ints) -> Round:
        """Let these members give their parts, and read the sums that are complete."""
        before = self.state
        self.state, said = crowd_cohorts.absorb(
            before, self._crowd, clients, self._threads
        )
        facts = {"version": before.version, "cohorts": before.open()}
        if said.refused:
            facts["refused"] = said.refused
        return Round(said.clients, said.array_bytes, facts)

    def end_round(self) -> None:
        """Stop waiting for who is silent for too long."""
        self.state = crowd_cohorts.end_round(self.state)

    def prepare(self) -> None:
        """Do the server's heavy work, and let the next cohorts begin."""
        self.state = crowd_cohorts.prepare(self.state)

    def done(self) -> bool:
        """Whether no cohort is at work and none can be formed."""
        return crowd_cohorts.done(self.state)

    def progress(self) -> Diagnostics:
        """Numbers worth showing."""
        return crowd_cohorts.progress(self.state)

    def result(self) -> Clustering:
        """Return the best level on what the cohorts have said."""
        return crowd_cohorts.result(self.state)
