# SPDX-License-Identifier: Apache-2.0
"""Arrays in, clusters out: sites that share no cluster find how many there are.

Run it with ``python examples/numpy_arrays.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np

from afcl import AFCL
from afcl.data import kmeans_split, make_sd1
from afcl.metrics import adjusted_rand

# 2300 rows of four groups. The groups are hidden from here on.
X, hidden = make_sd1(random_state=0)

# Who owns each row: five sites, split so that they overlap as little as possible.
owner = kmeans_split(X, 5, random_state=0)
tables = [X[owner == site] for site in range(5)]

# Every site takes part at random, some often, some rarely. k is not given.
model = AFCL(participation="random", random_state=0).fit_clients(tables)

print(f"{model.n_clusters_} clusters of {model.cluster_sizes_.tolist()} rows")
print(f"centres, in the units of the data:\n{model.cluster_centers_.round(2)}")
for site, labels in enumerate(model.client_labels_):
    held = np.bincount(labels, minlength=model.n_clusters_)
    print(f"site {site} holds {held.tolist()} rows of them")

pooled = np.concatenate([hidden[owner == site] for site in range(5)])
agreement = adjusted_rand(pooled, model.labels_)
print(f"agreement with the hidden groups (ARI): {agreement:.3f}")
print(f"{model.upload_bytes_:,} bytes were sent; the rows are {X.nbytes:,}")

# The other numbers of clusters are there too, with their scores.
for k, score in zip(model.path_.k[:5], model.path_.scores["silhouette"], strict=False):
    print(f"k = {k}: silhouette {score:.3f}")
print(f"cut at k = 2: {np.bincount(model.cut(2)).tolist()} rows")
print(f"a new row belongs to cluster {model.predict(X[:1])[0]}")
