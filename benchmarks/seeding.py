# SPDX-License-Identifier: Apache-2.0
"""Whether the hello's sample shows: k' and scores with samples of different sizes.

Above a number of rows the cells of a hello are placed on a seeded sample of that size
(all rows are then counted into them). Prints, for generated mixtures, k', the adjusted
Rand index and the silhouette from summaries with each size.
``python benchmarks/seeding.py [--runs 10] [--out FILE]``
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from afcl import AFCL
from afcl.core import client
from afcl.data import make_mixture

#: Eight times as many rows of wide tables, see `core.client`.
SIZES = (1_024, 4_096, 16_384, 1 << 40)
#: Clusters and features; 200 000 rows at two sites.
MIXTURES = ((4, 2), (8, 2), (20, 2), (8, 16), (20, 16))
ROWS = 200_000


def measure(k: int, d: int, size: int, runs: int) -> dict[str, Any]:
    """Return one line of the table."""
    before, client.SEEDING_SAMPLE = client.SEEDING_SAMPLE, size
    found, agreement, silhouette = [], [], np.empty(runs)
    for seed in range(runs):
        X, y = make_mixture(
            k, d, separation=2.5, imbalance=3, random_state=seed, n_samples=ROWS
        )
        model = AFCL(random_state=seed).fit_clients(np.array_split(X, 2))
        found.append(model.n_clusters_)
        agreement.append(adjusted_rand_score(y, model.labels_))
        silhouette[seed] = model.scores_["silhouette"]
    client.SEEDING_SAMPLE = before
    return {
        "clusters": k,
        "features": d,
        "sample": min(size * (client.WIDE_SAMPLE if d > client.WIDE else 1), ROWS // 2),
        "right": int(np.sum(np.array(found) == k)),
        "runs": runs,
        "ari": float(np.mean(agreement)),
        "silhouette": float(np.mean(silhouette)),
    }


def main() -> None:
    """Measure every mixture with every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    asked = parser.parse_args()
    lines = []
    print("clusters  features  sample   k' right  ARI     silhouette")
    for k, d in MIXTURES:
        for size in SIZES:
            line = measure(k, d, size, asked.runs)
            lines.append(line)
            print(
                f"{k:>8}{d:>10}{line['sample']:>9}{line['right']:>6} of {asked.runs}"
                f"{line['ari']:>8.4f}{line['silhouette']:>10.4f}",
                flush=True,
            )
    if asked.out:
        asked.out.write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
