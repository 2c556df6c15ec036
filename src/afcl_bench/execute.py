# SPDX-License-Identifier: Apache-2.0
"""One run, from its names to its record; this is what a worker process does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.protocol import Clustering
from afcl.data.mixed import embedding_of, rows_of
from afcl.exceptions import AfclError
from afcl.gaps import IMPUTE
from afcl.methods import load_payloads
from afcl.methods.presets import at_default_level
from afcl.runtime.coordinator import Spec
from afcl.runtime.results import versions
from afcl.runtime.simulate import Outcome, simulate
from afcl_bench.ablations import Ablation, find_method
from afcl_bench.datasets import Dataset, fingerprint, load
from afcl_bench.settings import LEAST_ROWS, divided, schedule
from afcl_bench.spec import Facts, Run
from afcl_bench.store import CAPPED, DONE, FAILED, Record, Store

#: Options that are the run's own, not the method's.
OWN = ("max_rounds", "scale")


@lru_cache(maxsize=32)
def dataset(name: str, seed: int, folder: Path | None) -> Dataset:
    """Load a data set, and keep it for the next runs."""
    return load(name, seed=seed, folder=folder)


def facts_of(name: str, seed: int, folder: Path | None) -> Facts:
    """Return what words in options refer to."""
    data = dataset(name, seed, folder)
    return Facts(data.X.shape[0], data.k)


def end_with_parent() -> None:
    """End this worker process when the benchmark that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_outlive, args=(parent,), daemon=True).start()


def _outlive(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def work(
    root: Path, run: Run, folder: Path | None, keep_trace: bool, cap: float
) -> None:
    """Make a run and store what it gave, or why it failed.

    The cap is on CPU seconds, so that a busy machine does not strike. An interruption
    is passed on: such a run has no record and is made again.
    """
    _get_ready(run)
    limit = _Limit(cap)
    try:
        with limit:
            record = execute(run, folder, keep_trace)
    except (_Capped, Exception) as error:
        # Compiled code turns what is raised inside it into errors of its own.
        if limit.struck:
            status, facts = CAPPED, {"reason": f"stopped after {cap:g} s", "cap": cap}
        else:
            what = str(error) if isinstance(error, AfclError) else repr(error)
            status, facts = FAILED, {"reason": what}
        record = Record(run, status, {**facts, "versions": versions()})
    Store(root).write(record)


def _get_ready(run: Run) -> None:
    """Import what the run needs first: a cap must not strike in the middle of that.

    What is imported by halves stays so, and the worker's next runs would fail. A method
    that does not exist fails where its record says so.
    """
    load_payloads()
    with suppress(AfclError):
        find_method(run.method)
    import_module("afcl.kernels.native")
    import_module("sklearn.cluster")


class _Capped(BaseException):
    """The CPU time of a run is used up."""


class _Limit:
    """Raises in the middle of whatever is going on when the CPU time is used up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.struck = False

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGPROF, self._strike)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    def _strike(self, number: int, frame: object) -> None:
        self.struck = True
        raise _Capped


def execute(run: Run, folder: Path | None = None, keep_trace: bool = False) -> Record:
    """Make a run.

    Parameters
    ----------
    run : Run
    folder : Path, optional
        Where files of data sets are looked for.
    keep_trace : bool
        Whether to keep every event.

    Returns
    -------
    Record
        Seconds are those of the federation alone: reading, splitting and scoring do not
        count.
    """
    data = dataset(run.dataset, run.seed, folder)
    division = divided(run.split, data, run.seed)
    owner = division.owner
    groups = [np.flatnonzero(owner == g) for g in range(int(owner.max()) + 1)]
    options = dict(run.options)
    own = {name: options.pop(name) for name in OWN if name in options}
    method, scale = find_method(run.method), own.get("scale", "minmax")
    if not isinstance(method, Ablation):  # these are steps to `summary`
        options, _ = at_default_level(method, options, len(groups), scale)
    tables, how = _given(data, groups)
    spec = Spec(method, options, run.seed, **own, **how)
    habits = schedule(run.participation, len(groups), run.seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wall, cpu = time.perf_counter(), time.process_time()
        outcome = simulate(spec, tables, habits)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    facts = {
        **_facts(outcome),
        "seconds": wall,
        "cpu_seconds": cpu,
        "warnings": sorted({str(w.message) for w in caught}),
        "data": {
            "n": data.X.shape[0],
            "d": data.X.shape[1],
            "k": data.k,
            "clients": len(groups),
            "redrawn": division.redrawn,
            "merged": division.merged,
            "fingerprint": fingerprint(data),
        },
        "versions": versions(),
    }
    labels = _in_order(outcome, groups, data.X.shape[0])
    trace = outcome.finished.trace.events if keep_trace else None
    return Record(run, DONE, facts, labels, _arrays(outcome.clustering), trace)


def _given(data: Dataset, groups: list[Ints]) -> tuple[list[Floats], dict[str, Any]]:
    """Return everybody's table, and what a run must know of its columns.

    Categories become indicators with bounds of their own; gaps stay, for the run to
    fill.
    """
    if data.frame is None:
        return [data.X[rows] for rows in groups], {}
    frames = [data.frame[rows] for rows in groups]
    embedding, _ = embedding_of(frames, LEAST_ROWS)
    tables = [rows_of(frame, embedding, i) for i, frame in enumerate(frames, 1)]
    return tables, {"missing": IMPUTE, "bounds": embedding.bounds}


def _facts(outcome: Outcome) -> dict[str, Any]:
    tallies = outcome.finished.tallies.values()
    found = np.unique(np.concatenate(outcome.labels))
    return {
        "k": int(found.shape[0]),
        "rounds": outcome.finished.rounds,
        "bytes": sum(tally.bytes for tally in tallies),
        "messages": sum(tally.messages for tally in tallies),
        "most_messages": max(tally.messages for tally in tallies),
        "scores": dict(outcome.clustering.scores),
    }


def _in_order(outcome: Outcome, groups: list[Ints], n: int) -> Ints:
    """Return everybody's labels in the order of the data set."""
    labels = np.empty(n, dtype=np.int64)
    for rows, own in zip(groups, outcome.labels, strict=True):
        labels[rows] = own
    return labels


def _arrays(clustering: Clustering) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    if clustering.centers is not None:
        arrays["centers"] = clustering.centers
    levels = clustering.path
    if levels:
        arrays["path_k"] = np.array([level.k for level in levels])
        for name in sorted({name for level in levels for name in level.scores}):
            scores = [level.scores.get(name) for level in levels]
            arrays[f"path_{name}"] = np.array(scores, dtype=np.float64)
    return arrays
