# SPDX-License-Identifier: Apache-2.0
"""What a pass of the `paper` preset costs, in Lloyd iterations of scikit-learn.

A pass is everything a round does to one client's rows: the client's step (competition,
intensities and cells), the server's checks, its interaction row by row and the
objective. A Lloyd iteration is that of ``KMeans`` with as many centres on the same
rows, a difference of two fits, so that neither start nor end counts. One thread each,
turn by turn in one process. The case `collapsed` starts with all seeds in one place,
where every row pulls many of them.

Prints a table, exits 1 if a median ratio of CPU times is above the promised one.
``python benchmarks/paper_pass.py [--repeats 9] [--out FILE]``
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from afcl._typing import Floats
from afcl.core.messages import Broadcast, Positions
from afcl.core.paper.server import PaperState
from afcl.core.protocol import client_rng
from afcl.data import make_mixture
from afcl.methods.afcl_paper import AfclPaper
from turns import lloyd_iteration, timed

SHAPES = ((200_000, 2), (200_000, 16), (100_000, 64))
K = 32
PROMISED = 6.0


class Federation:
    """One client and its server, a round at a time."""

    def __init__(self, X: Floats, seed: int, collapsed: bool) -> None:
        self.X = X
        self.method = AfclPaper()
        self.params = self.method.parameters(n_seeds=K)
        rng = client_rng(seed, 0, 0)
        hello = self.method.hello(X[:: X.shape[0] // 10_000], self.params, rng)
        if collapsed:
            near = Positions(0.5 + 1e-3 * rng.random((K, X.shape[1])))
            hello = replace(hello, payload=near)
        hello = replace(hello, n_rows=X.shape[0], client=0)
        state = self.method.init([hello], self.params, seed)
        self.state: PaperState = self.method.prepare(state)

    def round(self) -> None:
        """Let the client answer, check and absorb the answer, move the seeds."""
        sent: Broadcast = self.method.broadcast(self.state)
        rng = client_rng(0, 0, 1)
        update, _ = self.method.client_step(sent, self.X, None, self.params, rng)
        stamped = replace(update, client=0, version=sent.version)
        absorbed, _ = self.method.absorb(self.state, stamped)
        self.state = self.method.end_round(absorbed)


def measure(n: int, d: int, collapsed: bool, repeats: int) -> dict[str, Any]:
    """Return times and ratios of one shape, one line of the table."""
    X, _ = make_mixture(8, d, separation=2.5, imbalance=1, random_state=0, n_samples=n)
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    start = X[np.random.default_rng(1).choice(n, K, replace=False)]
    federation = Federation(X, 0, collapsed)
    federation.round()
    lloyd_iteration(X, start)
    passes, iterations = [], []
    for _ in range(repeats):
        iterations.append(lloyd_iteration(X, start))
        passes.append(timed(federation.round)[1])
    ratios = np.array(passes) / np.array(iterations)
    return {
        "case": "collapsed" if collapsed else "as usual",
        "n": n,
        "d": d,
        "k": K,
        "lloyd_cpu": float(np.median([cpu for cpu, _ in iterations])),
        "pass_cpu": float(np.median([cpu for cpu, _ in passes])),
        "ratio_cpu": float(np.median(ratios[:, 0])),
        "ratio_wall": float(np.median(ratios[:, 1])),
        "ratio_cpu_quartiles": np.quantile(ratios[:, 0], (0.25, 0.75)).tolist(),
        "ratio_cpu_extremes": [float(ratios[:, 0].min()), float(ratios[:, 0].max())],
    }


def main() -> None:
    """Measure every shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    lines = []
    print("case        n       d   Lloyd ms  pass ms  ratio  quartiles    (wall)")
    with threadpool_limits(1):
        for collapsed in (False, True):
            for n, d in SHAPES:
                line = measure(n, d, collapsed, asked.repeats)
                lines.append(line)
                low, high = line["ratio_cpu_quartiles"]
                print(
                    f"{line['case']:<10}{n:>8}{d:>4}{1e3 * line['lloyd_cpu']:>10.1f}"
                    f"{1e3 * line['pass_cpu']:>10.1f}{line['ratio_cpu']:>7.2f}"
                    f"  {low:.2f} to {high:.2f}  ({line['ratio_wall']:.2f})",
                    flush=True,
                )
    if asked.out:
        asked.out.write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")
    usual = [line for line in lines if line["case"] == "as usual"]
    sys.exit(any(line["ratio_cpu"] > PROMISED for line in usual))


if __name__ == "__main__":
    main()
