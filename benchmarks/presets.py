# SPDX-License-Identifier: Apache-2.0
"""The presets beside each other, all runs counted: ``make presets DATA=dir``.

Five clients by k-means on the features, the paper's random participation; `paper`,
its variants and `matlab` start from k0 drawn in [k*, 2 k*], the default preset from
its own rule. Prints k', the share of exact k', the share of collapsed runs and the
Euclidean silhouette with a collapsed run counted as -1.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from afcl import make_method
from afcl.metrics import COLLAPSED, adjusted_rand, silhouette
from quality import load, owners, scaled

TRUE_K = {"SD1": 4, "SD2": 5, "IR": 3, "SE": 3}
PRESETS: dict[str, Mapping[str, Any]] = {
    "paper": {"method": "afcl-paper"},
    "paper, winner without γ": {"method": "afcl-paper", "winner": "nearest"},
    "paper, m_r current": {"method": "afcl-paper", "anchor": "current"},
    "paper, rows in random order": {"method": "afcl-paper", "order": "random"},
    "matlab": {"method": "afcl-matlab"},
    "AFCL-W (no interaction)": {"method": "afcl-w"},
    "default": {"method": "afcl"},
}


def one_run(folder: Path, name: str, preset: str, run: int) -> tuple[int, float, float]:
    """Return k', the silhouette and the agreement with the classes."""
    X, y = load(folder, name, run)
    options = dict(PRESETS[preset])
    if options["method"] != "afcl":
        k = TRUE_K[name]
        options["n_seeds"] = int(np.random.default_rng(run).integers(k, 2 * k + 1))
    method = options.pop("method")
    model = make_method(method, participation="random", random_state=run, **options)
    model.fit(X, clients=owners(X, run))
    score = silhouette(scaled(X), model.labels_)
    return model.n_clusters_, score, adjusted_rand(y, model.labels_)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    print("| data | preset | k' | exact | collapsed | SC, all runs | ARI |")
    print("|---|---|---|---|---|---|---|")
    for name, k in TRUE_K.items():
        for preset in PRESETS:
            rows = np.array(
                Parallel(n_jobs=2)(
                    delayed(one_run)(options.data, name, preset, run)
                    for run in range(options.runs)
                )
            )
            ks, scores, agreement = rows.T
            print(
                f"| {name} | {preset} | {ks.mean():.1f} ± {ks.std():.1f} | "
                f"{(ks == k).mean():.0%} | {(scores == COLLAPSED).mean():.0%} | "
                f"{scores.mean():.3f} | {agreement.mean():.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
