# SPDX-License-Identifier: Apache-2.0
"""Tables with categories and gaps are audited as they are run."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.audit import audit
from afcl.audit.wire import tapped
from afcl.data.features import WIDTH, Feature, bounds_of
from afcl.exceptions import InputError
from afcl.privacy import grouped
from afcl.runtime import site as site_module

COLUMNS = ("age", "pressure", "kind=a", "kind=b", "kind=c")
BOUNDS = bounds_of(COLUMNS, [Feature("kind", ("a", "b", "c"))])
#: Rows of the third level, site by site: few at the first two.
RARE = (2, 3, 9)


def tables(seed, gaps=0):
    """Return three sites of forty rows; `gaps` cells of each have no value."""
    rng = np.random.default_rng(seed)
    made = []
    for rare in RARE:
        kinds = rng.permutation(np.repeat([0, 1, 2], [20 - rare, 20, rare]))
        spots = np.array([[40.0, 120], [70, 150], [55, 135]])
        numbers = np.round(rng.normal(spots[kinds], (4, 6)))
        X = np.column_stack([numbers, kinds[:, None] == np.arange(3)]).astype(float)
        for row in rng.choice(40, gaps, replace=False):
            column = rng.integers(0, 3)
            X[row, slice(2, 5) if column == 2 else column] = np.nan
        made.append(X)
    return made


def only(level, seed, gaps=0, **options):
    """Audit one level of such tables."""
    missing = "impute" if gaps else "error"
    given = {"rounds": 2, "runs": 1, "lies": False, "bounds": BOUNDS, **options}
    made = tables(seed, gaps)
    (found,) = audit(made, [level], seed=seed, missing=missing, **given).levels
    return found


def test_categories_have_the_box_of_a_run():
    run = tapped(
        "summary",
        tables(0),
        seed=0,
        scale="minmax",
        rounds=2,
        options={},
        bounds=BOUNDS,
    )
    assert run.terms.box.low[2:].tolist() == [0, 0, 0]
    assert run.terms.box.span[2:].tolist() == [WIDTH] * 3


@pytest.mark.no_cover
def test_means_tell_how_many_have_a_level_unless_it_is_rare(seed):
    """`summary` does not promise otherwise, `grouped` does."""
    found = only("summary", seed)
    assert found.columns is not None
    assert (found.columns["levels"], found.columns["counted"]) == (9, 9)
    assert (found.columns["rare"], found.columns["rare_counted"]) == (2, 2)
    assert any("9 of 9 levels at sites" in note for note in found.notes)
    assert found.enumerated >= 5 / 600
    assert not found.broken
    found = only("grouped(5)", seed)
    assert found.columns is not None
    assert (found.columns["counted"], found.columns["rare_counted"]) == (7, 0)
    assert (found.enumerated, found.broken) == (0, False)


def test_groups_that_tell_rare_levels_are_caught(seed, monkeypatch):
    for module in (grouped, site_module):
        monkeypatch.setattr(module, "without_rare", lambda X, smallest: X)
    found = only("grouped(5)", seed)
    assert found.broken
    assert any("enumeration" in reason for reason in found.reasons)


def test_tables_with_gaps_are_audited(seed):
    pytest.importorskip("cryptography")
    for level in ("summary", "grouped(5)", "secure+grouped(5)"):
        found = only(level, seed, gaps=6)
        assert found.columns is not None
        assert (found.columns["with_gaps"], found.columns["set_aside"]) == (3, 3)
        assert not found.broken, found.reasons
        assert any("set aside because of gaps" in note for note in found.notes)


def test_numbers_alone_have_nothing_to_tell_of_columns(seed):
    numbers = [rows[:, :2] for rows in tables(seed)]
    (found,) = audit(numbers, ["summary"], rounds=2, runs=1, lies=False).levels
    assert found.columns is None


def test_liars_learn_no_more_of_mixed_tables(seed):
    found = only("grouped(5)", seed, gaps=6, lies=True)
    assert found.lies
    assert not any(each.broken for each in found.lies)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"missing": "error"}, "finite"),
        ({"levels": ["dp(8)"]}, "gaps cannot be filled"),
        ({"min_cell": 39}, "rows whose gaps can be filled, fewer than 39"),
    ],
)
def test_what_gaps_do_not_allow_is_said_in_one_line(change, text):
    pytest.importorskip("cryptography")
    made = tables(0, gaps=20)
    made[1][:15, 0] = np.nan
    arguments = {"levels": ["summary"], "missing": "impute", "bounds": BOUNDS, **change}
    with pytest.raises(InputError, match=text) as caught:
        audit(made, scale=(np.zeros(5), np.full(5, 200.0)), **arguments)
    assert "\n" not in str(caught.value)
