"""As a user writes it, checked by mypy --strict and pyright, and run."""

import numpy as np
from numpy.typing import NDArray

from afcl import AFCL, KPath

rng = np.random.default_rng(0)
spots = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
tables: list[NDArray[np.float64]] = [
    np.vstack([rng.normal(spot, 1.0, (40, 2)) for spot in spots]) for _ in range(3)
]
model = AFCL(preset="default", missing="error", granularity="auto", random_state=0)
model = model.fit_clients(tables)

k: int = model.n_clusters_
centers: NDArray[np.float64] = model.cluster_centers_
labels: NDArray[np.int64] = model.predict(tables[0])
path: KPath = model.path_
levels: NDArray[np.int64] = path.k
shares: NDArray[np.float64] = model.predict_proba(tables[0])
score: float = model.score(np.concatenate(tables))
again: NDArray[np.int64] = AFCL(privacy="summary").fit_predict(
    tables[0], sample_weight=np.full(120, 2)
)
model.report("report.html").unlink()
assert (k, labels.shape, shares.shape) == (3, (120,), (120, 3))
assert centers.shape == (3, 2)
assert score > 0.5
assert levels[0] == 2
