# SPDX-License-Identifier: Apache-2.0
"""Raw outputs of runs on disk: one file each, there whole or not at all.

``runs/DATASET/METHOD/OPTIONS/SPLIT/PARTICIPATION/SEED.npz``: the path is the run's
identity, so an existing file is a done run, and folders filled on several machines are
merged by copying them together. A run that failed or met its time cap has a file too,
which says so.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import AnyArray, Ints
from afcl.durable import part_of_this_process, replacing
from afcl.exceptions import InputError
from afcl_bench.spec import Run

RUNS = "runs"
# How a run ended.
DONE = "done"
FAILED = "failed"
#: Its time was up.
CAPPED = "capped"
#: What the head of a file says, beside its arrays.
HEAD = ("run", "status", "facts", "trace")


@dataclass(frozen=True)
class Record:
    """What one run gave.

    Attributes
    ----------
    run
        What was run.
    status
        ``done``, ``failed`` or ``capped`` (it met its time cap).
    facts
        JSON: reason of a failure; k', rounds, bytes, messages, seconds, CPU seconds,
        scores and sizes of the data, versions of the libraries, the time cap.
    labels
        Cluster of every row, in the order of the data set.
    arrays
        Centres (scaled), and of the path every k with its scores.
    trace
        Events, where the spec asks for them.
    """

    run: Run
    status: str
    facts: dict[str, Any]
    labels: Ints | None = None
    arrays: dict[str, AnyArray] = field(default_factory=dict)
    trace: list[dict[str, Any]] | None = None

    @property
    def k(self) -> int | None:
        """Return the number of clusters found; None where there is no answer."""
        return self.facts["k"] if self.status == DONE else None


class Store:
    """The folder of all runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, run: Run) -> Path:
        """Return the file of a run."""
        return self.folder / RUNS / run.path

    def has(self, run: Run) -> bool:
        """Whether the run has been made."""
        return self.path(run).is_file()

    def write(self, record: Record) -> None:
        """Store a run's record, whole or not at all."""
        path = self.path(record.run)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, "wb", part=part_of_this_process(path)) as file:
            file.write(_packed(record))

    def read(self, run: Run) -> Record | None:
        """Return a run's record, None if it has not been made."""
        path = self.path(run)
        return _unpacked(path) if path.is_file() else None

    def facts(self, run: Run) -> tuple[str, dict[str, Any]] | None:
        """Return a run's status and facts without its arrays."""
        path = self.path(run)
        if not path.is_file():
            return None
        head, _ = _loaded(path, head_only=True)
        return head["status"], head["facts"]

    def k_of(self, run: Run) -> int | None:
        """Return the k' that a run found; None without an answer."""
        known = self.facts(run)
        return int(known[1]["k"]) if known is not None and known[0] == DONE else None

    def has_trace(self, run: Run) -> bool:
        """Whether the run's events were kept."""
        return _loaded(self.path(run), head_only=True)[0]["trace"] is not None

    def forget(self, run: Run) -> None:
        """Remove a run, so that it is made again."""
        self.path(run).unlink(missing_ok=True)


def _packed(record: Record) -> bytes:
    head: dict[str, Any] = {
        "run": asdict(record.run),
        "status": record.status,
        "facts": record.facts,
        "trace": record.trace,
    }
    arrays: dict[str, Any] = dict(record.arrays)
    if record.labels is not None:
        small = all(0 <= label < 2**8 for label in np.unique(record.labels))
        arrays["labels"] = record.labels.astype(np.uint8 if small else np.int32)
    head["arrays"] = sorted(arrays)
    text = json.dumps(head, default=_plain).encode()
    arrays["head"] = np.frombuffer(text, dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _unpacked(path: Path) -> Record:
    head, arrays = _loaded(path)
    labels = arrays.pop("labels", None)
    run = head["run"]
    options = tuple((name, value) for name, value in run["options"])
    return Record(
        Run(**{**run, "options": options}),
        head["status"],
        head["facts"],
        None if labels is None else labels.astype(np.int64),
        arrays,
        head["trace"],
    )


def _loaded(
    path: Path, head_only: bool = False
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return a file's head and arrays; whatever damage raises, the file is named."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            head = json.loads(file["head"].tobytes())
            names = [] if head_only else [n for n in file.files if n != "head"]
            arrays = {name: file[name] for name in names}
            # Older files do not say what they hold.
            if not head_only and sorted(arrays) != head.get("arrays", sorted(arrays)):
                raise ValueError("an array is missing, or called otherwise")
        return {key: head[key] for key in HEAD}, arrays
    except Exception as error:
        raise InputError(
            f"{path} is damaged ({error}): remove it, and run the benchmark again"
        ) from error


def _plain(value: Any) -> Any:
    """Return NumPy's numbers and arrays as JSON has them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} does not go into JSON")
