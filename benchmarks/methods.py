# SPDX-License-Identifier: Apache-2.0
"""What every method costs on one mixture: the figures of docs/methods.md.

``make methods`` prints, for k = 10, d = 10, n = 1000 and five clients that share no
cluster, with everybody always present: whether a method must be told k, the rounds
it took, the bytes all clients sent up, the k it answered and its agreement (ARI).
"""

from __future__ import annotations

import sys

from afcl import make_method, method_names
from afcl.data.split import kmeans_split
from afcl.data.synthetic import make_mixture
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.metrics import adjusted_rand

K, D, N = 10, 10, 1000


def main() -> None:
    """Run every registered method once."""
    X, y = make_mixture(K, D, separation=2.5, imbalance=1, random_state=0, n_samples=N)
    owner = kmeans_split(X, 5, random_state=0, min_rows=5)
    print("| method | told k | rounds | bytes up | k' | ARI | centres |")
    print("|---|---|---|---|---|---|---|")
    wrapped = [f"any-k:{name}" for name in ("dk++", "fcm-exact")]
    for name in [*method_names(), *wrapped]:
        needs_k = get_method(name).needs_k
        options = {"n_clusters": K} if needs_k else {}
        model = make_method(name, random_state=0, **options)
        try:
            model.fit(X, clients=owner)
        except InputError as why:  # a package of its own is not installed
            print(f"`{name}` is left out: {why}", file=sys.stderr)
            continue
        print(
            f"| `{name}` | {'yes' if needs_k else 'no'} | {model.n_rounds_} | "
            f"{model.upload_bytes_:,} | {model.n_clusters_} | "
            f"{adjusted_rand(y, model.labels_):.3f} | "
            f"{'no' if model.cluster_centers_ is None else 'yes'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
