# SPDX-License-Identifier: Apache-2.0
"""How a live run began, as its journal has it: for a trace that has lost it."""

from __future__ import annotations

from collections.abc import Iterator

from afcl.core.terms import Terms
from afcl.runtime.codec import decode
from afcl.runtime.journal import AGREEMENT, COORDINATOR, Entry, Journal
from afcl.runtime.live.announcement import Announcement
from afcl.runtime.spec import Spec, introduction
from afcl.trace import Event


def opening(spec: Spec, journal: Journal) -> Iterator[Event]:
    """Yield the events up to the agreement; of late joiners, that they were let in."""
    yield {"event": "run", "tick": 0, **introduction(spec)}
    for entry in journal.log:
        if entry.contact == AGREEMENT and entry.client == COORDINATOR:
            yield _agreed(decode(entry.data))
        elif entry.contact == AGREEMENT:
            yield _let_in(entry, decode(entry.data))


def _let_in(entry: Entry, site: Announcement) -> Event:
    return {
        "event": "ranges",
        "tick": 0,
        "client": entry.client,
        "name": site.name,
        "rows": site.n_rows,
        "bytes": len(entry.data),
    }


def _agreed(terms: Terms) -> Event:
    return {
        "event": "agreed",
        "tick": 0,
        "columns": list(terms.columns),
        "rows": terms.n_rows,
        "low": terms.box.low.tolist(),
        "span": terms.box.span.tolist(),
    }
