# SPDX-License-Identifier: Apache-2.0
"""The grid: worker processes, a time cap per run, what is left and how long it takes.

Runs are handed out one at a time. What is stored is done; an interrupted or killed
benchmark goes on with what is not. A run that fails or meets its cap is stored as such.
"""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, TimeoutError, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from afcl.exceptions import InputError
from afcl.runtime.results import versions, write_text
from afcl_bench.execute import end_with_parent, facts_of, work
from afcl_bench.spec import BenchSpec, Cell, Run
from afcl_bench.store import CAPPED, DONE, FAILED, Record, Store

SPECS = "specs"
#: The file that says where the data of a folder's runs were.
DATA = "data-folder"
#: Runs of a kind that meet their cap, none ending, before the rest are given up.
GIVE_UP = 2
#: A worker ends by itself when its CPU time is used up. One that does not (it waits, or
#: is in the middle of one long call) is killed after so many caps of wall time,
STUCK = 10
#: and so many seconds for its start.
STARTING = 60.0
#: Threads of a worker: parallel runs beat parallel steps, and times stay comparable.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
KERNELS = "AFCL_KERNELS"

#: Called with (runs done, runs in all, seconds left or None, what was just done).
Progress = Callable[[int, int, float | None, str], None]


@dataclass(frozen=True)
class Task:
    """A run with its cap."""

    run: Run
    cap: float
    trace: bool


@dataclass
class Counts:
    """How the runs of a grid ended, and how many were there already."""

    stored: int = 0
    done: int = 0
    failed: int = 0
    capped: int = 0


def run_grid(
    spec: BenchSpec,
    cells: Sequence[Cell],
    root: Path,
    folder: Path | None,
    *,
    jobs: int = 2,
    part: tuple[int, int] = (1, 1),
    retry: bool = False,
    progress: Progress | None = None,
) -> Counts:
    """Make every run of the cells that has not been made.

    Parameters
    ----------
    spec : BenchSpec
        Kept beside the runs, for the report.
    cells : sequence of Cell
        Those of the spec that are asked for.
    root : Path
        Where runs are stored.
    folder : Path, optional
        Where files of data sets are looked for.
    jobs : int
        Worker processes, each of one thread.
    part : (int, int)
        The i-th of m parts of the grid, for m machines.
    retry : bool
        Make runs again that failed or met their cap.
    progress
        Told after every run.

    Returns
    -------
    Counts
    """
    store = Store(root)
    counts = Counts()
    with _locked(root, part):
        write_text(root / SPECS / f"{spec.name}.toml", spec.text)
        if folder is not None:
            write_text(root / DATA, f"{folder.resolve()}\n")
        needed = [_task(cell, cell.learns) for cell in cells if cell.learns]
        plain = [cell for cell in cells if not cell.learns]
        first = [_task(c, resolve(c, store, folder)) for c in plain]
        seen: set[Run] = set()
        left = _left([*first, *needed], store, part, retry, counts, seen)
        waiting = len(cells) - len(plain)
        _work(left, store, folder, jobs, counts, progress, 0, waiting)
        second = list(_learned(cells, store, folder))
        after = _left(second, store, part, retry, counts, seen)
        _work(after, store, folder, jobs, counts, progress, len(left), 0)
    return counts


def data_of(root: Path, folder: Path | None) -> Path | None:
    """Return where the data are: the folder that is given, or else the runs' own."""
    remembered = root / DATA
    if folder is not None or not remembered.is_file():
        return folder
    last = Path(remembered.read_text(encoding="utf-8").removesuffix("\n"))
    return last if last.is_dir() else None


def resolve(cell: Cell, store: Store, folder: Path | None) -> Run | None:
    """Return the run of a cell; None while the k' it needs is not known."""
    learned = None
    if cell.learns is not None:
        learned = store.k_of(cell.learns)
        if learned is None:
            return None
    return cell.resolve(lambda: _data_facts(cell, folder), learned)


def _data_facts(cell: Cell, folder: Path | None) -> Any:
    return facts_of(cell.dataset, cell.seed, folder)


def _task(cell: Cell, run: Run | None) -> Task:
    assert run is not None
    return Task(run, cell.cap, cell.trace)


def _learned(
    cells: Iterable[Cell], store: Store, folder: Path | None
) -> Iterator[Task]:
    """Tasks whose k comes from another run; without an answer there is no task."""
    for cell in cells:
        if cell.learns is not None:
            run = resolve(cell, store, folder)
            if run is not None:
                yield Task(run, cell.cap, cell.trace)


def _left(
    tasks: Iterable[Task],
    store: Store,
    part: tuple[int, int],
    retry: bool,
    counts: Counts,
    seen: set[Run],
) -> list[Task]:
    """Tasks of this part that have no record yet, each run once.

    A run that several cells ask for has the longest of their caps, and is traced if
    one of them wants it; one that is stored without a trace is then made again.
    """
    asked: dict[Run, Task] = {}
    for task in tasks:
        other = asked.get(task.run, task)
        trace, cap = task.trace or other.trace, max(task.cap, other.cap)
        asked[task.run] = Task(task.run, cap, trace)
    left = []
    for task in asked.values():
        if task.run in seen:
            continue
        seen.add(task.run)
        known, own = store.facts(task.run), _part_of(task.run, part[1]) == part[0]
        if known is not None and own:
            if retry and known[0] != DONE:
                store.forget(task.run)
                known = None
            elif not _suffices(task, known[0], store):
                known = None
        if known is not None:
            counts.stored += 1
        elif own:
            left.append(task)
    return left


def _suffices(task: Task, status: str, store: Store) -> bool:
    """Whether what is stored has all that the task asks for."""
    return not task.trace or status != DONE or store.has_trace(task.run)


def _part_of(run: Run, parts: int) -> int:
    """Return which of m machines makes a run: the same one for what depends on it."""
    name = f"{run.dataset}/{run.split}/{run.participation}/{run.seed}"
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % parts + 1


def _work(
    tasks: list[Task],
    store: Store,
    folder: Path | None,
    jobs: int,
    counts: Counts,
    progress: Progress | None,
    before: int,
    waiting: int,
) -> None:
    """Hand the tasks to worker processes, a few ahead, and note how each ends.

    So many runs were made `before`, and so many may still be `waiting` for these.
    """
    if not tasks:
        return
    clock = _Estimate(tasks, jobs)
    hopeless = _Hopeless(store)
    with _pool(jobs) as pool:
        running: dict[Future[Any], Task] = {}
        queue = iter(tasks)
        while True:
            while len(running) < jobs and (task := next(queue, None)) is not None:
                if hopeless.is_so(task.run):
                    future = _given_up()
                else:
                    limits = (task.trace, task.cap)
                    arguments = [store.folder, task.run, folder, *limits]
                    patience = STUCK * task.cap + STARTING
                    future = pool.schedule(work, args=arguments, timeout=patience)
                running[future] = task
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                seconds = _note(future, task, store, counts)
                hopeless.note(task.run)
                left = clock.ended(task, seconds)
                if progress is not None:
                    done, total = before + clock.done, before + len(tasks) + waiting
                    progress(done, total, left, str(task.run.path))


def _note(future: Future[Any], task: Task, store: Store, counts: Counts) -> float:
    """Count how a run ended; what could not store its own end is stored here."""
    try:
        future.result()
    except TimeoutError as error:
        if store.has(task.run):  # it was done just before it was stopped
            return _ended(task, store, counts)
        given_up = isinstance(error, _GivenUp)
        reason = str(error) if given_up else "did not end when its time was used up"
        facts = {"reason": reason, "cap": task.cap, "versions": versions()}
        store.write(Record(task.run, CAPPED, facts))
        counts.capped += 1
        return 0.0 if given_up else task.cap
    except Exception as error:
        facts = {"reason": f"the process died: {error}", "versions": versions()}
        store.write(Record(task.run, FAILED, facts))
        counts.failed += 1
        return 0.0
    return _ended(task, store, counts)


def _ended(task: Task, store: Store, counts: Counts) -> float:
    """Count a run that has stored its own end; return its seconds."""
    known = store.facts(task.run)
    assert known is not None
    status, found = known
    if status == DONE:
        counts.done += 1
    elif status == FAILED:
        counts.failed += 1
    elif status == CAPPED:
        counts.capped += 1
    return float(found.get("seconds", found.get("cap", 0.0)))


class _GivenUp(TimeoutError):
    """A run that was not started, because others of its kind met their cap."""


def _given_up() -> Future[Any]:
    future: Future[Any] = Future()
    text = f"not started: {GIVE_UP} runs of its kind met the cap and none ended"
    future.set_exception(_GivenUp(text))
    return future


class _Hopeless:
    """Which kinds of runs only ever meet their cap."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ends: dict[Any, dict[int, str]] = {}

    def note(self, run: Run) -> None:
        """Remember how a run ended."""
        known = self.store.facts(run)
        assert known is not None
        self._of(run)[run.seed] = known[0]

    def is_so(self, run: Run) -> bool:
        """Whether runs of this kind are given up."""
        met = list(self._of(run).values())
        return met.count(CAPPED) >= GIVE_UP and DONE not in met

    def _of(self, run: Run) -> dict[int, str]:
        """Return how runs of this kind ended, those before read once."""
        if run.kind not in self.ends:
            self.ends[run.kind] = self._stored(run)
        return self.ends[run.kind]

    def _stored(self, run: Run) -> dict[int, str]:
        """Return how runs of this kind ended before."""
        ends = {}
        for seed in range(run.seed):
            known = self.store.facts(replace(run, seed=seed))
            if known is not None:
                ends[seed] = known[0]
        return ends


class _Estimate:
    """Time left, from how long runs of the same kind took."""

    def __init__(self, tasks: Iterable[Task], jobs: int) -> None:
        self.left: dict[Any, int] = defaultdict(int)
        for task in tasks:
            self.left[task.run.kind] += 1
        self.took: dict[Any, list[float]] = defaultdict(list)
        self.done = 0
        self.jobs = jobs
        self.started = time.monotonic()

    def ended(self, task: Task, seconds: float) -> float:
        """Note a run's time and return the seconds left."""
        self.done += 1
        self.left[task.run.kind] -= 1
        self.took[task.run.kind].append(seconds)
        known = [sum(took) / len(took) for took in self.took.values()]
        typical = sum(known) / len(known)
        expected = sum(
            count * (_mean(self.took[kind]) if kind in self.took else typical)
            for kind, count in self.left.items()
        )
        spent = sum(sum(took) for took in self.took.values())
        # What reading, splitting and storing add shows in the time that has passed.
        passed = time.monotonic() - self.started
        slower = max(1.0, passed * self.jobs / spent) if spent > 0 else 1.0
        return slower * expected / self.jobs


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


@contextmanager
def _pool(jobs: int) -> Iterator[Any]:
    """Worker processes of one thread each that can be stopped in the middle."""
    pebble = import_module("pebble")
    before = {name: os.environ.get(name) for name in (*THREADS, KERNELS)}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    os.environ.setdefault(KERNELS, "native")
    context = multiprocessing.get_context("spawn")
    pool = pebble.ProcessPool(
        max_workers=jobs, initializer=end_with_parent, context=context
    )
    try:
        _start(pool)
        yield pool
        pool.close()
    except BaseException:
        pool.stop()
        raise
    finally:
        pool.join()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start(pool: Any) -> None:
    """Start the workers deaf to Ctrl-C, which a terminal sends to them as well.

    They inherit what is blocked here, as do the pool's threads, which start others.
    """
    resource_tracker.ensure_running()  # it would unblock the signal
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        assert pool.active
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def _locked(root: Path, part: tuple[int, int]) -> Iterator[None]:
    """Hold the folder's lock; a second benchmark in the same folder is refused."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(
            f"{root} cannot be made, a file is in its way: choose another folder"
        ) from None
    with (root / f".lock-{part[0]}-of-{part[1]}").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"another benchmark is running in {root}: wait for it, or give each "
                "its own --part"
            ) from None
        yield
