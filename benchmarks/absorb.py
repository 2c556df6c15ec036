# SPDX-License-Identifier: Apache-2.0
"""How fast the server of the default preset absorbs, and what a client costs it.

``python benchmarks/absorb.py`` lets 100, 1 000 and 10 000 clients say hello and answer
once, at ten features and 64 seeds: 64 cells a message, and in an answer the replies
about every candidate as well. All checks are on (a box was agreed, extremes were told).
One thread; messages a second are the median over batches of a hundred, of CPU time.
`decoded` counts from the message's bytes on. The coordinator's own bookkeeping (ticket,
stamp, trace) is measured apart. Exits 1 if a rate without decoding is below 1 000 a
second, or if one with the most clients is less than half of that with the fewest.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core import rebuild, server
from afcl.core.client import condense, reply
from afcl.core.messages import Hello, Update, array_bytes
from afcl.core.params import DefaultParams
from afcl.core.protocol import client_rng
from afcl.core.state import ServerState
from afcl.methods import get_method
from afcl.runtime.agreement import Agreement
from afcl.runtime.codec import decode, encode
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.spec import Spec
from afcl.runtime.transport import Failure, Reply
from afcl.scale import given_box

FEATURES, SEEDS, ROWS = 10, 64, 2000
CLIENTS = (100, 1000, 10_000)
#: Clients whose rows differ; the others hold the same rows as one of these.
TABLES = 25
BATCH = 100
LEAST = 1000.0
#: Six candidates and the one the rule picks, however good they are.
PARAMS = DefaultParams(n_seeds=SEEDS, cells_per_root=SEEDS / ROWS**0.5, prune=2.0)

Say = tuple[ClientId, bytes]


def tables() -> list[Floats]:
    """Return rows in the unit box: eight groups that overlap."""
    rng = np.random.default_rng(0)
    spots = rng.random((8, FEATURES)) * 0.6 + 0.2
    groups = rng.integers(0, len(spots), (TABLES, ROWS))
    noise = rng.normal(0, 0.1, (TABLES, ROWS, FEATURES))
    return list(np.clip(spots[groups] + noise, 0.0, 1.0))


def empty(rows: list[Floats], clients: int) -> ServerState:
    """Return the state before any message: everybody told its extremes."""
    state = server.agreed(ServerState(PARAMS, 0), FEATURES, True)
    for client in range(clients):
        X = rows[client % TABLES]
        state = server.announced(state, client, X.min(axis=0), X.max(axis=0))
    return state


def hellos(rows: list[Floats]) -> list[bytes]:
    """Return what the clients say first."""
    said = [condense(X, PARAMS, client_rng(0, g, 0)) for g, X in enumerate(rows)]
    return [encode(Hello(ROWS, cells)) for cells in said]


def answers(rows: list[Floats], state: ServerState) -> list[bytes]:
    """Return what the clients answer to the plan that is out."""
    plan = server.broadcast(state).payload
    return [encode(Update(reply(X, plan, PARAMS))) for X in rows]


# ------------------------------------------------------------------ measuring


def rate(work: Callable[[Any], None], items: Iterable[Any]) -> float:
    """Return items a second of CPU time: the median over batches."""
    every = list(items)
    costs = []
    for at in range(0, len(every), BATCH):
        batch = every[at : at + BATCH]
        start = time.process_time()
        for item in batch:
            work(item)
        costs.append((time.process_time() - start) / len(batch))
    return float(1.0 / np.median(costs))


class Server:
    """Holds the newest state; absorbs messages, or their bytes."""

    def __init__(self, state: ServerState) -> None:
        self.state = state

    def hear(self, message: Hello | Update) -> None:
        """Absorb a message."""
        if isinstance(message, Hello):
            self.state, _ = server.absorb_hello(self.state, message)
        else:
            self.state, _ = server.absorb_update(self.state, message)

    def read(self, said: Say) -> None:
        """Decode, stamp and absorb."""
        self.hear(stamped(*said, self.state.version))


def stamped(client: ClientId, data: bytes, version: int) -> Hello | Update:
    """Return the message behind these bytes, as the coordinator stamps it."""
    message: Hello | Update = decode(data)
    if isinstance(message, Update):
        return replace(message, client=client, version=version, contact=1)
    return replace(message, client=client)


def dealt(data: list[bytes], clients: int) -> Iterator[Say]:
    """Yield every client with its bytes."""
    for client in range(clients):
        yield client, data[client % len(data)]


def measured(rows: list[Floats], clients: int) -> dict[str, float]:
    """Return the rates with so many clients, and what preparing takes."""
    first = empty(rows, clients)
    said = hellos(rows)
    heard = Server(first)
    messages = [stamped(*each, 0) for each in dealt(said, clients)]
    found = {"clients": float(clients), "hellos": rate(heard.hear, messages)}
    decoded = Server(first)
    found["hellos decoded"] = rate(decoded.read, dealt(said, clients))
    start = time.process_time()
    ready = rebuild.prepare(decoded.state)
    found["prepare seconds"] = time.process_time() - start
    said = answers(rows, ready)
    heard = Server(ready)
    messages = [stamped(*each, ready.version) for each in dealt(said, clients)]
    found["updates"] = rate(heard.hear, messages)
    decoded = Server(ready)
    found["updates decoded"] = rate(decoded.read, dealt(said, clients))
    start = time.process_time()
    server.done(decoded.state)
    server.broadcast(ready)
    found["tick seconds"] = time.process_time() - start
    start = time.process_time()
    rebuild.prepare(decoded.state)
    found["polish seconds"] = time.process_time() - start
    message = stamped(0, said[0], ready.version)
    found["update array bytes"] = float(array_bytes(message))
    found["update cells"] = float(len(message.payload.cells))
    found["candidates"] = float(len(message.payload.levels))
    return found


def kilobytes(rows: list[Floats], clients: int = 500) -> float:
    """Return what the server holds per client that said hello and answered."""
    known = Server(empty(rows, clients))
    first = hellos(rows)
    tracemalloc.start()
    for each in dealt(first, clients):
        known.read(each)
    known.state = rebuild.prepare(known.state)
    second = answers(rows, known.state)
    before = tracemalloc.get_traced_memory()[0]
    for each in dealt(second, clients):
        known.read(each)
    after = tracemalloc.get_traced_memory()[0]
    del known
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after >= before
    return (after - left) / clients / 1024


# ------------------------------------------------------------------ the coordinator


class Hall:
    """A transport that only counts: everybody is there, nobody answers by itself."""

    round = 0

    def __init__(self, clients: int) -> None:
        self.sent = 0
        self.clients = clients
        self.arrived: list[Reply | Failure] = []

    def members(self) -> range:
        """Everybody."""
        return range(self.clients)

    def send(self, client: ClientId, contact: int, data: bytes) -> int:
        """Count a message."""
        self.sent += 1
        return self.sent - 1

    def poll(self) -> list[Reply | Failure]:
        """Return what was laid here."""
        arrived, self.arrived = self.arrived, []
        return arrived

    def advance(self) -> None:
        """Nothing moves."""

    def expecting(self) -> bool:
        """Nobody is waited for."""
        return False

    def close(self) -> None:
        """Nothing is open."""


def coordinated(rows: list[Floats], clients: int) -> dict[str, float]:
    """Return the coordinator's rates: asking, and taking what comes, all included."""
    hall = Hall(clients)
    options = {"n_seeds": SEEDS, "cells_per_root": SEEDS / ROWS**0.5}
    spec = Spec(get_method("afcl"), options, 0)
    loop = Coordinator(spec, hall)
    box = given_box(np.zeros(FEATURES), np.ones(FEATURES))
    loop._open(loop._settled(Agreement((), box, clients * ROWS)))
    asked = rate(loop._send_hello, range(clients))
    said = hellos(rows)
    hall.arrived = [Reply(c, c, data) for c, data in dealt(said, clients)]
    start = time.process_time()
    loop._absorb_all()
    heard = clients / (time.process_time() - start)
    return {"clients": float(clients), "asking": asked, "hellos taken": heard}


# ------------------------------------------------------------------ the command


def show(found: list[dict[str, float]]) -> None:
    """Print a line a figure, a column for every number of clients."""
    for name in found[0]:
        print(f"{name:<22}" + "".join(f"{each[name]:>14,.6g}" for each in found))


def main() -> int:
    """Print the figures; return 1 if a rate does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=list(CLIENTS))
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    chosen = parser.parse_args()
    rows = tables()
    measured(rows, BATCH)  # compiles, and warms up
    found = []
    print(f"d = {FEATURES}, k0 = {SEEDS}; messages a second of CPU time")
    for clients in chosen.clients:
        found.append(measured(rows, clients))
    show(found)
    loops = [coordinated(rows, clients) for clients in chosen.clients]
    print("with the coordinator's bookkeeping")
    show(loops)
    held = kilobytes(rows)
    print(f"{held:.1f} KB a client that said hello and answered")
    rates = ("hellos", "updates")
    holds = all(each[name] >= LEAST for each in found for name in rates)
    falls = any(found[-1][name] < found[0][name] / 2 for name in rates)
    if chosen.out is not None:
        figures = {"server": found, "coordinator": loops, "kilobytes a client": held}
        chosen.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if holds and not falls else 1


if __name__ == "__main__":
    sys.exit(main())
