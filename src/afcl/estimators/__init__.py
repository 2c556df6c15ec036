# SPDX-License-Identifier: Apache-2.0
"""The scikit-learn face: AFCL and every other method as clusterers.

The estimators use the simulator, which drives the same pure functions as the network.
"""

from __future__ import annotations

from afcl.estimators.afcl import AFCL
from afcl.estimators.kpath import KPath
from afcl.estimators.method import MethodClusterer, make_method
from afcl.estimators.profiles import ClusterProfiles

__all__ = ["AFCL", "ClusterProfiles", "KPath", "MethodClusterer", "make_method"]
