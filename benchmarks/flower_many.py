# SPDX-License-Identifier: Apache-2.0
"""Hundreds of sites on Flower, and what the coordinator itself costs a message.

``python benchmarks/flower_many.py --clients 200`` lets so many nodes of Flower's
simulation engine take part in one live run of the default preset: the server, the
admission, the journal and what a site answers are those of ``afcl serve`` and ``join``.
Printed are the time of every phase, messages, and the peak of memory of all processes
together (proportional shares, so that what they share counts once).

Then the same server runs without an engine, with clients that answer in this process
(``--overhead 200,10000`` says how many): what is left when their own work is taken off
is the coordinator's overhead. Each part of it is timed where it is called; what is
called rarely, such as preparing the seeds, is shown per call too. ``--batch`` is how
many answers come back at a time; every batch makes the server think. Clients beyond the
first 200 repeat what one of these said: the server cannot tell, and it saves time.

``--clients 0`` leaves the engine out. All of it stays on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from afcl._typing import Floats
from afcl.core.terms import AskAnnouncement, AskStep, Finish, Noted
from afcl.methods import get_method
from afcl.runtime import coordinator
from afcl.runtime.codec import decode, encode
from afcl.runtime.journal import Journal
from afcl.runtime.live import admission, server
from afcl.runtime.live.announcement import announce
from afcl.runtime.live.membership import Membership
from afcl.runtime.live.server import RunPlan, serve_run
from afcl.runtime.live.settlement import settle
from afcl.runtime.results import read_result
from afcl.runtime.site import Site
from afcl.runtime.transport import Failure, Reply, Ticket
from afcl.trace import Trace, read_trace

#: True clusters, and how many of them a site has.
CLUSTERS, OWN = 8, 2
#: Clients of the run without an engine that have rows of their own.
DISTINCT = 200
RUN = "many"


def make_tables(clients: int, rows: int, columns: int, seed: int) -> list[Floats]:
    """Return the rows of every site: a few of the clusters each."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(0, 100, (CLUSTERS, columns))
    tables = []
    for _ in range(clients):
        own = rng.choice(CLUSTERS, OWN, replace=False)
        tables.append(rng.normal(centers[own[np.arange(rows) % OWN]], 1.5))
    return tables


def make_plan(folder: Path, clients: int, options: dict[str, Any], seed: int) -> None:
    """Write what is to be run."""
    folder.mkdir(parents=True)
    plan = RunPlan(RUN, "afcl", options, seed, 10**6, clients, grace=600.0)
    plan.write(folder)


# ------------------------------------------------------------------ on the engine


class Memory:
    """The peak of the memory of this process's descendants, looked at in a thread."""

    def __init__(self, pause: float = 0.5) -> None:
        self.peak = 0
        self.processes = 0
        self._pause = pause
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        import psutil

        while not self._over.wait(self._pause):
            total = count = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    total += process.memory_full_info().pss
                    count += 1
                except psutil.Error:
                    continue
            self.peak, self.processes = (
                max(self.peak, total),
                max(self.processes, count),
            )


def on_flower(
    where: Path,
    tables: Sequence[Floats],
    options: dict[str, Any],
    seed: int,
    cores: int,
) -> dict[str, Any]:
    """Run all tables as sites of Flower's simulation; return what it took."""
    from afcl.runtime.flower.simulated import lay_out, serve_simulated

    where.mkdir()
    names = ",".join(f"x{column}" for column in range(tables[0].shape[1]))
    members = []
    for site, rows in enumerate(tables):
        file = where / f"{site}.csv"
        np.savetxt(file, rows, delimiter=",", header=names, comments="")
        members.append(Membership(str(file), f"site-{site}"))
    lay_out(where / "sites", members)
    run = where / "run"
    make_plan(run, len(tables), options, seed)
    begun = time.perf_counter()
    with Memory() as memory:
        serve_simulated(run, where / "sites", cores=cores)
    wall = time.perf_counter() - begun
    result, events = read_result(run), read_trace(run / "trace.jsonl").events
    at = {e["event"]: e["at"] for e in events if "at" in e}
    counts = Counter(event["event"] for event in events)
    labelled = len(list((where / "sites").glob("*/labels.csv")))
    return {
        "clients": len(tables),
        "k": result["n_clusters"],
        "labelled": labelled,
        "messages": sum(site["messages"] for site in result["sites"]),
        "bytes": sum(site["bytes"] for site in result["sites"]),
        "prepares": counts["prepare"],
        "wall": wall,
        "agreement": at["agreed"] - events[0]["at"],
        "hellos": at["hello"] - at["agreed"],
        "rounds": at["end"] - at["hello"],
        "peak_mb": memory.peak / 2**20,
        "processes": memory.processes,
    }


# ------------------------------------------------------------------ without it


class Meter:
    """Time spent in parts, each without the parts that are called inside it."""

    def __init__(self) -> None:
        self.wall: defaultdict[str, float] = defaultdict(float)
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._inside: list[list[float]] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add what happens inside to this part."""
        self._inside.append([0.0, 0.0])
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            other_wall, other_cpu = self._inside.pop()
            self.wall[name] += wall - other_wall
            self.cpu[name] += cpu - other_cpu
            self.calls[name] += 1
            if self._inside:
                self._inside[-1][0] += wall
                self._inside[-1][1] += cpu

    def of(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and is timed."""

        def timed(*values: Any, **options: Any) -> Any:
            with self.part(name):
                return work(*values, **options)

        return timed


class Timed:
    """A method whose steps at the server are timed."""

    def __init__(self, method: Any, meter: Meter) -> None:
        self._method = method
        self.absorb = meter.of("check and absorb", method.absorb)
        self.prepare = meter.of("prepare", method.prepare)
        self.broadcast = meter.of("prepare", method.broadcast)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)


class Crowd:
    """An engine whose clients answer in this process, at once and in batches."""

    def __init__(
        self, clients: int, tables: Sequence[Floats], batch: int, meter: Meter
    ) -> None:
        self._columns = [f"x{column}" for column in range(tables[0].shape[1])]
        self._tables = tables
        self._sites = [Site(rows, self._columns) for rows in tables]
        self._said: dict[tuple[object, ...], bytes] = {}
        self.send = meter.of("clients", self._send)
        self.poll = meter.of("clients", self._poll)
        self._addresses, self._batch = range(clients), batch
        self._answers: list[Reply | Failure] = []
        self._tickets = 0

    def nodes(self) -> Sequence[int]:
        """Everybody is always here."""
        return self._addresses

    def _send(self, address: int, data: bytes) -> Ticket:
        self._tickets += 1
        self._answers.append(Reply(self._tickets, address, self._answer(address, data)))
        return self._tickets

    def _answer(self, address: int, data: bytes) -> bytes:
        asked, own = decode(data), address % len(self._sites)
        if isinstance(asked, AskAnnouncement):
            name, rows = f"site-{address}", self._tables[own]
            return encode(announce(name, self._columns, rows, {}, True))
        if isinstance(asked, Finish):
            return encode(Noted(RUN))
        key: tuple[object, ...] = (own, type(asked).__name__)
        if isinstance(asked, AskStep):
            key += asked.version, asked.contact
        if key not in self._said:
            self._said[key] = self._sites[own].answer(data)
        return self._said[key]

    def _poll(self) -> list[Reply | Failure]:
        ready = self._answers[: self._batch]
        del self._answers[: self._batch]
        return ready

    def close(self) -> None:
        """Nothing to let go of."""


def without_engine(
    where: Path,
    clients: int,
    tables: Sequence[Floats],
    options: dict[str, Any],
    seed: int,
    batch: int,
) -> dict[str, Any]:
    """Serve clients of this process; return where the server's time went."""
    meter = Meter()
    engine = Crowd(clients, tables, batch, meter)
    make_plan(where, clients, options, seed)
    method = Timed(get_method("afcl"), meter)
    with (
        patch.object(server, "get_method", lambda _: method),
        patch.object(coordinator, "decode", meter.of("decode", decode)),
        patch.object(coordinator, "encode", meter.of("encode", encode)),
        patch.object(admission, "decode", meter.of("decode", decode)),
        patch.object(admission, "encode", meter.of("encode", encode)),
        patch.object(admission, "settle", meter.of("agreement", settle)),
        patch.object(server, "encode", meter.of("farewell", encode)),
        patch.object(Journal, "record", _bound(meter, "journal", Journal.record)),
        patch.object(Trace, "add", _bound(meter, "trace", Trace.add)),
        patch.object(os, "fsync", meter.of("sync to disk", os.fsync)),
        patch.dict(admission.Admission.__init__.__kwdefaults__, pause=0.0),
        meter.part("admission and loop"),
    ):
        serve_run(engine, where)
    result = read_result(where)
    messages = sum(site["messages"] for site in result["sites"])
    parts = {
        name: {
            "calls": meter.calls[name],
            "wall": meter.wall[name],
            "cpu": meter.cpu[name],
        }
        for name in meter.wall
    }
    own = parts.pop("clients")
    return {
        "clients": clients,
        "k": result["n_clusters"],
        "messages": messages,
        "parts": parts,
        "in_clients": own,
    }


def _bound(meter: Meter, name: str, work: Callable[..., Any]) -> Any:
    """Return a timed method for a class."""

    def timed(self: Any, *values: Any, **options: Any) -> Any:
        with meter.part(name):
            return work(self, *values, **options)

    return timed


# ------------------------------------------------------------------ showing


def show_engine(found: dict[str, Any]) -> None:
    """Print what a run on the engine took."""
    print(
        f"Flower's simulation, {found['clients']} nodes: k = {found['k']}, "
        f"{found['labelled']} sites have their labels\n"
        f"  {found['wall']:.1f} s: {found['agreement']:.1f} s to the agreement (the "
        f"engine's start included), {found['hellos']:.1f} s hellos, "
        f"{found['rounds']:.1f} s rounds with {found['prepares']} prepares\n"
        f"  {found['messages']} messages, {found['bytes'] / 1e6:.2f} MB; "
        f"{found['processes']} processes, {found['peak_mb']:.0f} MB at the peak"
    )


def show_overhead(found: dict[str, Any]) -> None:
    """Print the coordinator's own time, part by part."""
    messages = found["messages"]
    print(
        f"the coordinator alone, {found['clients']} clients, {messages} messages, "
        f"k = {found['k']}"
    )
    print(f"  {'part':18} {'calls':>8} {'us/message':>11} {'CPU':>9} {'ms/call':>9}")
    rows = dict(found["parts"])
    for name in ("every part", "but prepare"):
        kept = [v for k, v in found["parts"].items() if (name, k) != (BUT, "prepare")]
        rows[name] = {key: sum(v[key] for v in kept) for key in ("wall", "cpu")}
    for name, part in rows.items():
        wall, cpu = (1e6 * part[key] / messages for key in ("wall", "cpu"))
        each = ""
        if part.get("calls"):
            each = f"{1e3 * part['wall'] / part['calls']:9.3f}"
        print(f"  {name:18} {part.get('calls', ''):>8} {wall:11.0f} {cpu:9.0f} {each}")


BUT = "but prepare"


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=200, help="nodes on Flower")
    parser.add_argument("--overhead", default="200,10000", help="clients without it")
    parser.add_argument("--rows", type=int, default=100, help="rows of a site")
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=64, help="n_seeds of the method")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--batch", type=int, default=1000, help="answers at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write the figures here, as JSON")
    said = parser.parse_args()
    options = {"n_seeds": said.seeds}
    found: dict[str, Any] = {"arguments": {k: str(v) for k, v in vars(said).items()}}
    where = Path(tempfile.mkdtemp(prefix="afcl-many-"))
    try:
        if said.clients:
            tables = make_tables(said.clients, said.rows, said.columns, said.seed)
            found["engine"] = on_flower(
                where / "engine", tables, options, said.seed, said.cores
            )
            show_engine(found["engine"])
        found["overhead"] = []
        for clients in filter(None, map(int, said.overhead.split(","))):
            distinct = min(clients, DISTINCT)
            tables = make_tables(distinct, said.rows, said.columns, said.seed)
            folder = where / f"overhead-{clients}"
            one = without_engine(
                folder, clients, tables, options, said.seed, said.batch
            )
            found["overhead"].append(one)
            show_overhead(one)
    finally:
        shutil.rmtree(where, ignore_errors=True)
    if said.out is not None:
        said.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
