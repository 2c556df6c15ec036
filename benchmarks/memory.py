# SPDX-License-Identifier: Apache-2.0
"""How much memory a whole run in memory needs: the peak of a process of its own.

Rows are generated in place, so that nothing but the data and the run is there.
``python benchmarks/memory.py [--gigabytes 1] [--out FILE]``
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FEATURES = (2, 16, 64)
FACTOR, BESIDES = 1.3, 200e6
RUN = """
import resource, sys
import numpy as np
n, d = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
X = np.empty((n, d))
centers = rng.random((8, d)) * 10
for start in range(0, n, 65536):
    part = X[start : start + 65536]
    rng.standard_normal(out=part)
    part *= 0.3
    part += centers[rng.integers(0, 8, part.shape[0])]
from afcl import AFCL
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
model = AFCL(random_state=0).fit_clients(np.array_split(X, 5))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(before, after, model.n_clusters_)
"""


def measure(gigabytes: float, d: int) -> dict[str, Any]:
    """Return the peak of one run, one line of the table."""
    n = int(gigabytes * 1e9 / (8 * d))
    command = [sys.executable, "-c", RUN, str(n), str(d)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    before, after, k = (int(word) for word in said.split())
    data = 8 * n * d
    return {
        "rows": n,
        "features": d,
        "data": data,
        "with_data": before,
        "peak": after,
        "asked": FACTOR * data + BESIDES,
        "k": k,
    }


def main() -> None:
    """Measure every width."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    asked = parser.parse_args()
    lines = []
    print("rows        features  data MB  before the run  peak MB  asked MB  k'")
    for d in FEATURES:
        line = measure(asked.gigabytes, d)
        lines.append(line)
        data, before, peak, limit = (
            line[name] / 1e6 for name in ("data", "with_data", "peak", "asked")
        )
        print(
            f"{line['rows']:>10}{d:>10}{data:>9.0f}{before:>16.0f}{peak:>9.0f}"
            f"{limit:>10.0f}{line['k']:>4}",
            flush=True,
        )
    if asked.out:
        asked.out.write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
