# SPDX-License-Identifier: Apache-2.0
"""What a new process pays: ``afcl --help``, ``import afcl``, the first fit on Iris.

*Warm* is a process that finds compiled kernels and byte code where the last one left
them, *cold* one without compiled kernels, *bare* one without any byte code either, that
of the libraries included. Wall and CPU seconds of whole processes, medians.
``python benchmarks/first_fit.py [--runs 5] [--out FILE]``
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

FIT = (
    "import sys; import numpy; from afcl import AFCL; "
    "AFCL(random_state=0).fit(numpy.load(sys.argv[1]))"
)
HELP = (sys.executable, "-c", "from afcl.cli import main; main()", "--help")
IMPORT = (sys.executable, "-c", "import afcl")
IRIS = Path(tempfile.gettempdir()) / f"iris-{os.getpid()}.npy"
FIRST = (sys.executable, "-c", FIT, str(IRIS))
#: What is asked, in seconds.
CASES: dict[str, tuple[Sequence[str], Sequence[str], float | None]] = {
    "help": (HELP, (), 0.3),
    "import": (IMPORT, (), None),
    "first fit, warm": (FIRST, (), 2.0),
    "first fit, cold": (FIRST, ("NUMBA_CACHE_DIR",), 6.0),
    "first fit, bare": (FIRST, ("NUMBA_CACHE_DIR", "PYTHONPYCACHEPREFIX"), None),
}


def once(command: Sequence[str], elsewhere: Sequence[str]) -> tuple[float, float]:
    """Return CPU and wall seconds of one process; these caches are empty for it."""
    with tempfile.TemporaryDirectory() as empty:
        env = {**os.environ, **dict.fromkeys(elsewhere, empty)}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall


def main() -> None:
    """Measure every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    asked = parser.parse_args()
    lines: list[dict[str, Any]] = []
    print("case              wall s  (least to most)   CPU s  asked")
    np.save(IRIS, load_iris().data)
    for name, (command, elsewhere, limit) in CASES.items():
        once(command, ())
        taken = np.array([once(command, elsewhere) for _ in range(asked.runs)])
        cpu, wall = np.median(taken, axis=0).tolist()
        spread = [float(taken[:, 1].min()), float(taken[:, 1].max())]
        lines.append(
            {"case": name, "wall": wall, "cpu": cpu, "spread": spread, "asked": limit}
        )
        print(
            f"{name:<17}{wall:>7.2f}  ({spread[0]:.2f} to {spread[1]:.2f}){cpu:>10.2f}"
            f"  {'' if limit is None else limit}",
            flush=True,
        )
    IRIS.unlink()
    if asked.out:
        asked.out.write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
