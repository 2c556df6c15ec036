# SPDX-License-Identifier: Apache-2.0
"""Honest clients are never refused, however odd their rows and the order of things.

The benchmark ``benchmarks/hostile.py`` counts more than ten thousand messages.
"""

from __future__ import annotations

import numpy as np
import pytest

from afcl.runtime.schedule import Schedule
from afcl.runtime.site import Site
from hostile import federate, honest_run


@pytest.mark.no_cover
@pytest.mark.parametrize("turn", range(25))
def test_no_honest_message_is_refused(turn, seed):
    messages, rejected = honest_run(1000 * seed + turn)
    assert messages > 0
    assert rejected == 0


@pytest.mark.parametrize("privacy", ["grouped(5)", "dp(4)", "dp-rounds(4)", "secure"])
def test_no_level_of_privacy_is_refused(privacy, seed):
    rng = np.random.default_rng(seed)
    tables = [rng.normal(rng.random(3), 0.1, (60, 3)) for _ in range(5)]
    pooled = np.concatenate(tables)
    finished = federate(
        [Site(table) for table in tables],
        Schedule(late={4: 2}),
        seed,
        options={"privacy": privacy, "cohort": 3},
        scale=(pooled.min(axis=0), pooled.max(axis=0)),
    )
    assert finished.rejected == {}
    assert set(finished.tallies) == set(range(5))


def test_rows_up_to_a_width_outside_the_box_are_welcome(seed):
    rng = np.random.default_rng(seed)
    tables = [rng.random((50, 2)) for _ in range(3)]
    tables.append(rng.random((50, 2)) * 0.9 + 1.0)
    tables.append(rng.random((50, 2)) * 0.9 - 0.9)
    finished = federate(
        [Site(table) for table in tables],
        Schedule(late={3: 1, 4: 2}),
        seed,
        scale=(np.zeros(2), np.ones(2)),
    )
    assert finished.rejected == {}
    assert set(finished.tallies) == set(range(5))


def test_a_late_joiner_far_outside_the_box_is_refused_and_told_why(seed):
    rng = np.random.default_rng(seed)
    tables = [rng.random((50, 2)) for _ in range(3)]
    tables.append(rng.random((50, 2)) + 9.0)
    finished = federate([Site(t) for t in tables], Schedule(late={3: 1}), seed)
    reasons = {event["reason"] for event in finished.trace.of("rejected")}
    assert reasons == {"a mean lies more than one width outside the agreed box"}
    assert set(finished.rejected) == {3}
