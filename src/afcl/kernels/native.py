# SPDX-License-Identifier: Apache-2.0
"""The kernels compiled by Numba; signatures and bits of the NumPy ones.

The order of every sum is the reference's, so that the choice between the two never
shows in a result; but where the nearest of many centres is all that is asked of a large
wide table, distances to it agree to rounding (:mod:`.singles`). Compiled code is cached
on disk.
"""

from __future__ import annotations

from afcl.kernels.groups import join_seeds as join_seeds
from afcl.kernels.groups import microaggregate as microaggregate
from afcl.kernels.nests import halved as halved
from afcl.kernels.nests import nearest_inside as nearest_inside
from afcl.kernels.nests import sums_around as sums_around
from afcl.kernels.paper import compete as compete
from afcl.kernels.paper import intensities as intensities
from afcl.kernels.paper import interact as interact
from afcl.kernels.paper import interact_affine as interact_affine
from afcl.kernels.paper import interact_matlab as interact_matlab
from afcl.kernels.passes import assign as assign
from afcl.kernels.passes import lloyd as lloyd
from afcl.kernels.passes import scaled as scaled
from afcl.kernels.passes import silhouettes as silhouettes
from afcl.kernels.passes import squared_distances as squared_distances
from afcl.kernels.passes import sums as sums
from afcl.kernels.passes import tally as tally
from afcl.kernels.passes import valleys as valleys
from afcl.kernels.path import crowding as crowding
from afcl.kernels.path import levels as levels
from afcl.kernels.path import ward as ward
from afcl.kernels.picks import plus_plus as plus_plus
from afcl.kernels.ways import shortest_ways as shortest_ways
from afcl.kernels.ways import ward_of_distances as ward_of_distances
