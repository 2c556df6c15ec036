# SPDX-License-Identifier: Apache-2.0
"""Runs whose bytes are looked at: the real protocol, with a tap at every site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import Broadcast, Cells
from afcl.core.protocol import AnyMethod, KeptT
from afcl.core.terms import Terms
from afcl.gaps import IMPUTE, has_gaps
from afcl.methods import get_method
from afcl.methods.afcl import Shown
from afcl.methods.presets import PRESETS
from afcl.privacy.attacks import Exchange
from afcl.privacy.levels import Level, parse_level
from afcl.privacy.masks import Sealed
from afcl.registry import LEVELS
from afcl.runtime.codec import decode, encode
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.inprocess import InProcess
from afcl.runtime.requirements import requirements
from afcl.runtime.schedule import Schedule
from afcl.runtime.simulate import Outcome, label_all, with_gaps
from afcl.runtime.site import Site, settled
from afcl.runtime.spec import Spec


class TappedSite(Site):
    """A site whose requests and answers are kept, byte by byte.

    Attributes
    ----------
    wire
        What was asked and what was answered; a refused request leaves no trace, as
        nothing goes out.
    charged
        What the site wrote down for its messages (mu), by purpose.
    stood
        The different cells that stood for its rows; more than one set of them means
        that groups were formed, or noise drawn, anew.
    """

    def __init__(self, rows: Floats, missing: str = IMPUTE) -> None:
        self.wire: list[tuple[bytes, bytes]] = []
        self.charged: dict[str, float] = {}
        self.stood: set[bytes] = set()
        self._answers: dict[str, Any] = {}
        super().__init__(rows, keep=self._once, missing=missing)

    def answer(self, request: bytes) -> bytes:
        """Answer, and keep both."""
        answer = super().answer(request)
        self.wire.append((request, answer))
        return answer

    def working(self, terms: Terms) -> Any:
        """Return what this site's level lets it work on."""
        method, params = settled(terms)
        return _stands(self._working(terms, method, params))

    def _working(self, terms: Terms, method: AnyMethod, params: Any) -> Any:
        view = super()._working(terms, method, params)
        stands = _stands(view)
        cells = stands.shown if isinstance(stands, Sealed) else stands
        if isinstance(cells, Cells):
            self.stood.add(encode(cells))
        return view

    def _once(self, what: str, make: Callable[[], KeptT], cost: float = 0.0) -> KeptT:
        """Keep what is said, as a site of a live run does."""
        if what not in self._answers:
            self._answers[what] = make()
            if cost > 0:
                self.charged[what] = cost
        kept: KeptT = self._answers[what]
        return kept


def _stands(view: Any) -> Any:
    """Return what stands for the rows in a client's view."""
    return view.stands if isinstance(view, Shown) else view


class Curious:
    """A method's server that is never satisfied: it asks everybody, every round.

    What it sends is what the method sends; only the end is put off.
    """

    def __init__(self, method: AnyMethod) -> None:
        self._method = method

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    def done(self, state: Any) -> bool:
        """Never."""
        return False

    def broadcast(self, state: Any) -> Broadcast:
        """Return the method's own broadcast, for everybody it can be meant for."""
        own = self._method.broadcast(state)
        return own if own.personal is not None else replace(own, wanted=None)


@dataclass(frozen=True)
class Tapped:
    """A run and everything that went over its wire.

    Attributes
    ----------
    outcome
        The run as everybody else knows it.
    sites
        The sites, each with its own wire.
    exchanges
        All answers in the order of the sites, decoded.
    """

    outcome: Outcome
    sites: tuple[TappedSite, ...]
    exchanges: tuple[Exchange, ...] = field(repr=False)

    @property
    def terms(self) -> Terms:
        """The agreement."""
        return self.outcome.finished.terms

    def rows(self) -> Floats:
        """Return everybody's rows in agreed units: what the attacks are judged by.

        They are those that take part, their gaps filled.
        """
        return np.concatenate([site.scaled(self.terms) for site in self.sites])

    def spoken(self) -> list[Floats]:
        """Return every site's rows that take part, in the units of the data."""
        if not any(has_gaps(site.rows) for site in self.sites):
            return [site.rows for site in self.sites]
        box = self.terms.box
        return [box.unscale(site.scaled(self.terms)) for site in self.sites]

    def labels(self) -> Ints:
        """Return everybody's labels, site after site."""
        return np.concatenate(self.outcome.labels)


def method_at(level: Level) -> AnyMethod:
    """Return the method that knows a level: the first preset that does."""
    return get_method(PRESETS[LEVELS[level.listed_as].presets[0]])


def tapped(
    level: str,
    tables: Sequence[Floats],
    *,
    seed: int,
    scale: Any,
    rounds: int,
    options: Mapping[str, Any],
    curious: bool = False,
    names: Sequence[str] = (),
    bounds: tuple[Floats, Floats] | None = None,
    missing: str = "",
) -> Tapped:
    """Run a level on tables and keep what crosses the wire.

    With `curious` the server keeps asking for all the rounds. `bounds` are those of
    columns that need no agreement, `missing` says what is done about gaps.
    """
    method = method_at(parse_level(level))
    chosen = {**options, "privacy": level}
    requirements(method, method.parameters(**chosen), scale, len(tables))
    if curious:
        method = cast(AnyMethod, Curious(method))
    spec = Spec(
        method,
        chosen,
        seed,
        scale,
        rounds,
        names=tuple(names),
        bounds=bounds,
        missing=missing,
    )
    sites = tuple(TappedSite(table, missing or IMPUTE) for table in tables)
    spec = with_gaps(spec, sites)
    bound = Schedule().bind(len(sites), seed)
    finished = Coordinator(spec, InProcess(sites, bound)).run()
    exchanges = tuple(
        Exchange(client, decode(request), decode(answer))
        for client, site in enumerate(sites)
        for request, answer in site.wire
    )
    return Tapped(label_all(spec, finished, sites), sites, exchanges)
