# SPDX-License-Identifier: Apache-2.0
"""Rows and where they come from: the sites' tables, drawn mixtures, splits.

Light to import: Polars and scikit-learn are loaded by the functions that need them.
"""

from __future__ import annotations

from afcl.data.dialect import Dialect
from afcl.data.frames import from_frames
from afcl.data.names import site_names
from afcl.data.sites import Sites, read_sites
from afcl.data.split import (
    column_split,
    dirichlet_split,
    iid_split,
    kmeans_split,
    merge_small,
    paper_leak_split,
)
from afcl.data.synthetic import make_mixture, make_sd1, make_sd2, random_mixture
from afcl.data.synthetic_mixed import Mixed, make_mixed, random_mixed
from afcl.data.tables import Table, fingerprint, in_input_order

__all__ = [
    "Dialect",
    "Mixed",
    "Sites",
    "Table",
    "column_split",
    "dirichlet_split",
    "fingerprint",
    "from_frames",
    "iid_split",
    "in_input_order",
    "kmeans_split",
    "make_mixed",
    "make_mixture",
    "make_sd1",
    "make_sd2",
    "merge_small",
    "paper_leak_split",
    "random_mixed",
    "random_mixture",
    "read_sites",
    "site_names",
]
