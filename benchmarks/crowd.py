# SPDX-License-Identifier: Apache-2.0
"""Very many simulated clients: the overhead per client step, and a million of them.

``python benchmarks/crowd.py [--only step,rounds,summary,secure] [--out FILE]``

- ``step``: 10 000 clients of 100 rows (d 2, 8 seeds), 20 rounds in which everybody
  answers. The overhead is what is left of the run's CPU time without the kernels' (the
  same calls on the same rows, alone), for every step; beside it the server's share,
  which is the method's own thinking, and what is the simulator's alone.
- ``rounds``: the same clients, each taking part in a round with probability 0.15.
- ``summary``, ``secure``: a million clients of 20 rows (d 4, 10 clusters), with
  ``min_cell=1`` and as the default has it, in cohorts of 256. Each runs in a process
  of its own, so that the peak of its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.batch import Tables
from afcl.core.cells import empty_columns
from afcl.core.messages import Plan
from afcl.kernels.batches import around
from afcl.methods.afcl import Afcl
from afcl.runtime.batch import PART, SiteBatch, Threads
from afcl.runtime.batch_coordinator import BatchCoordinator
from afcl.runtime.schedule import Rounds, Schedule
from afcl.runtime.simulate import simulate_batch
from afcl.runtime.spec import Spec

PARTS = ("step", "rounds", "summary", "secure")


def mixture(n_clients: int, rows: int, d: int, k: int) -> tuple[Floats, Ints]:
    """Return well separated Gaussians, dealt to clients at random, and offsets."""
    rng = np.random.default_rng(0)
    spots = rng.permuted(np.tile(np.arange(float(k))[:, None], (1, d)), axis=0)
    n = n_clients * rows
    X = spots[rng.integers(0, k, n)] + rng.normal(0, 0.2, (n, d))
    return X, np.arange(n_clients + 1) * rows


def step(n_clients: int, rounds: int) -> dict[str, Any]:
    """Measure rounds in which everybody answers."""
    X, offsets = mixture(n_clients, 100, 2, 8)
    spec = Spec(Afcl(), {"n_seeds": 8, "contacts": rounds + 2}, max_rounds=rounds)
    simulate_batch(spec, X[:10_000], offsets[:101])  # compiled, or read from the cache
    everybody = np.arange(n_clients)
    kernels, thinking, whole, walls = [], [], [], []
    with Threads() as threads:
        params = spec.method.parameters(**spec.options)
        sites = SiteBatch(X, offsets, params, spec.seed, threads)
        run = BatchCoordinator(spec, sites, Schedule().bind(n_clients, spec.seed))
        run._start()
        run._prepare()
        for _ in range(rounds):
            # Everybody answers, also who has said enough.
            sent = replace(spec.method.broadcast(run._state), group=everybody)
            wall = time.perf_counter()
            begin = time.process_time()
            run._dispatch(sent)
            run._absorb_all()
            answered = time.process_time()
            run._prepare()
            done = time.process_time()
            walls.append(time.perf_counter() - wall)
            alone = _alone(sites.tables, sent.payload)
            per = 1e6 / n_clients
            kernels.append(alone * per)
            thinking.append((done - answered) * per)
            whole.append((done - begin) * per)
    overhead = [a - b for a, b in zip(whole, kernels, strict=True)]
    bare = [a - b for a, b in zip(overhead, thinking, strict=True)]
    return {
        "steps": n_clients * rounds,
        "seconds a round": _spread(walls),
        "us a step, all": _spread(whole),
        "us a step, kernels alone": _spread(kernels),
        "us a step, server": _spread(thinking),
        "us a step, overhead with the server": _spread(overhead),
        "us a step, overhead": _spread(bare),
    }


def _alone(tables: Tables, plan: Plan) -> float:
    """Return the CPU time of the clients' kernel alone, on the same rows."""
    rows, offsets = tables.rows, tables.offsets
    n_clients = offsets.shape[0] - 1
    none = np.empty(0)
    asked = [(plan.seeds, none, none)]
    asked += [(level.centers, level.spreads, level.counts) for level in plan.candidates]
    total = 0.0
    for about in asked:
        for clients in np.array_split(np.arange(n_clients), -(-n_clients // PART)):
            n = clients.shape[0]
            places = np.arange(n + 1) * about[0].shape[0]
            cells = empty_columns(int(places[-1]), rows.shape[1])
            sums = np.empty((n, 2))
            valleys = np.zeros((n, about[1].shape[0], 3), dtype=np.uint16)
            held = np.zeros(n, dtype=np.int64)
            begin = time.process_time()
            around(
                rows, offsets, clients, *about, 5, places, held, cells, sums, valleys
            )
            total += time.process_time() - begin
    return total


def _spread(values: list[float]) -> dict[str, float]:
    low, middle, high = np.percentile(values, [10, 50, 90])
    return {"median": float(middle), "low": float(low), "high": float(high)}


def rounds(n_clients: int) -> dict[str, Any]:
    """Measure a run of 20 rounds in which clients come and go."""
    X, offsets = mixture(n_clients, 100, 2, 8)
    spec = Spec(Afcl(), {"n_seeds": 8, "contacts": 22}, max_rounds=20)
    return _measured(spec, X, offsets, Rounds(probability=0.15))


def million(n_clients: int, options: dict[str, Any]) -> dict[str, Any]:
    """Measure a run of very many small clients."""
    X, offsets = mixture(n_clients, 20, 4, 10)
    return _measured(Spec(Afcl(), options, max_rounds=200), X, offsets, None)


def _measured(
    spec: Spec, X: Floats, offsets: Ints, schedule: Schedule | None
) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = simulate_batch(spec, X, offsets, schedule)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    finished = outcome.finished
    return {
        "clients": int(offsets.shape[0] - 1),
        "rows": int(X.shape[0]),
        "k": outcome.clustering.k,
        "rounds": finished.rounds,
        "messages": finished.trace.of("end")[0]["messages"],
        "bytes": finished.trace.of("end")[0]["bytes"],
        "wall seconds": wall,
        "CPU seconds": cpu,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def work(part: str, clients: int) -> dict[str, Any]:
    """Measure one part in this process."""
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "step": lambda: step(clients // 100, 20),
        "rounds": lambda: rounds(clients // 100),
        "summary": lambda: million(clients, {"min_cell": 1}),
        "secure": lambda: million(clients, {"privacy": "secure(plain)+summary"}),
    }
    return made[part]()


def show(part: str, figures: dict[str, Any]) -> None:
    """Print one measurement, a line for each figure."""
    print(part)
    for name, value in figures.items():
        if isinstance(value, dict):
            low, high = value["low"], value["high"]
            print(f"  {name:<36}{value['median']:>12.2f}  ({low:.2f} to {high:.2f})")
        elif isinstance(value, float):
            print(f"  {name:<36}{value:>12.2f}")
        else:
            print(f"  {name:<36}{value:>12,}")
    sys.stdout.flush()


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--here", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here is not None:
        print(json.dumps(work(options.here, options.clients)))
        return
    found = {}
    for part in options.only.split(","):
        command = [sys.executable, __file__, "--here", part]
        command += ["--clients", str(options.clients)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found[part] = json.loads(done.stdout)
        show(part, found[part])
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
