# SPDX-License-Identifier: Apache-2.0
"""AFCL as a scikit-learn clusterer: pipeline, clone, parameters, a search over a grid.

Run it with ``python examples/sklearn_pipeline.py``; it takes a few seconds.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from afcl import AFCL
from afcl.exceptions import TrustWarning

X, kinds = load_wine(return_X_y=True)
owner = np.arange(len(X)) % 2  # two cellars, each with wines of every kind

# Scaling and PCA here see all rows: good for trying out, not for a real federation,
# where AFCL's own agreement on the scale (scale="minmax") is what stays private.
model = make_pipeline(
    StandardScaler(), PCA(3, random_state=0), AFCL(scale=None, random_state=0)
)
labels = model.fit_predict(X, afcl__clients=owner)
print(f"{model[-1].n_clusters_} kinds of wine, sizes {np.bincount(labels).tolist()}")
print(f"agreement with the cultivars (ARI): {adjusted_rand_score(kinds, labels):.3f}")
print(f"the first three again: {model.predict(X[:3]).tolist()}")

# Parameters are scikit-learn's: a grid is a loop over clones.
flat = model[:-1].transform(X)
warnings.simplefilter("ignore", TrustWarning)  # how sure each is stands in its line
for chosen in ParameterGrid({"min_cell": [2, 3, 5], "participation": [None, 0.5]}):
    trial = clone(model[-1]).set_params(**chosen).fit(flat, clients=owner)
    score = silhouette_score(flat, trial.labels_)
    said = f"min_cell {chosen['min_cell']}, participation {chosen['participation']}"
    sure = f"{trial.k_confidence_:.0%} sure"
    print(f"{said}: k = {trial.n_clusters_} ({sure}), silhouette {score:.3f}")
