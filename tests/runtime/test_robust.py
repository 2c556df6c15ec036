# SPDX-License-Identifier: Apache-2.0
"""Runs with a box of quantiles: at every level, from memory and from files."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from afcl import AFCL
from afcl.core.terms import AskRanges
from afcl.data.sites import open_sites
from afcl.exceptions import (
    InputError,
    RejectedMessage,
    SmallClientsWarning,
    TrustWarning,
)
from afcl.metrics import adjusted_rand
from afcl.robust import SHARES, quantiles_of
from afcl.runtime.agreement import AgreementRequest, check_ranges
from afcl.runtime.codec import decode, encode
from afcl.runtime.site import Site


def tables_with_far_values(seed, sites=4, n=120):
    """Three clusters; at every site one row in forty is far off in one column."""
    rng = np.random.default_rng(seed)
    spots = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    tables, labels = [], []
    for _ in range(sites):
        y = rng.integers(0, 3, n)
        X = spots[y] + rng.normal(0, 0.6, (n, 2))
        far = rng.choice(n, n // 40, replace=False)
        X[far, 0] += 1000 * rng.choice([-1.0, 1.0], far.size)
        tables.append(X)
        labels.append(y)
    return tables, np.concatenate(labels)


@pytest.mark.parametrize(
    "privacy",
    [None, "summary", "grouped(5)", "secure+grouped(5)", "secure+summary"],
)
def test_far_values_do_not_hide_the_clusters(seed, privacy):
    tables, y = tables_with_far_values(seed)
    told = {"random_state": seed, "privacy": privacy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrustWarning)
        warnings.simplefilter("ignore", SmallClientsWarning)
        plain = AFCL(**told).fit_clients(tables)
        model = AFCL(scale="robust", **told).fit_clients(tables)
    assert adjusted_rand(y, model.labels_) > 0.85
    assert adjusted_rand(y, plain.labels_) < adjusted_rand(y, model.labels_)
    assert np.array_equal(model.predict(np.concatenate(tables)), model.labels_)


def test_gaps_and_a_column_that_a_site_lacks(seed):
    tables, y = tables_with_far_values(seed)
    tables[0][::9, 1] = np.nan
    wide = [np.hstack([X, X + 1, X * 2, X - 3]) for X in tables]
    wide[1][:, 7] = np.nan
    model = AFCL(random_state=seed, scale="robust", missing="impute")
    model.fit_clients(wide)
    assert adjusted_rand(y, model.labels_) > 0.8


def test_at_dp_quantiles_are_not_told():
    tables, _ = tables_with_far_values(0)
    with pytest.raises(InputError, match="needs public bounds of every column"):
        AFCL(scale="robust", privacy="dp(8)").fit_clients(tables)
    with pytest.raises(InputError, match="'minmax', 'robust', "):
        AFCL(scale="standard").fit_clients(tables)  # type: ignore[arg-type]


def test_rows_in_files_tell_the_same(tmp_path):
    tables, _ = tables_with_far_values(0, sites=1)
    path = tmp_path / "a.csv"
    pl.DataFrame(tables[0], schema=["x", "y"]).write_csv(path)
    ask = encode(AskRanges("r", True, 1, True))
    held, streamed = (
        decode(Site(open_sites([path], stream=stream).tables[0].rows).answer(ask))
        for stream in (False, True)
    )
    assert np.array_equal(held.quantiles, quantiles_of(tables[0]))
    assert np.array_equal(streamed.quantiles, held.quantiles)


def test_groups_tell_quantiles_of_what_they_say():
    """From `grouped` up no quantile is a value of the rows."""
    rows = np.random.default_rng(0).normal(0, 1, (60, 2))
    ask = AskRanges("r", True, 5, True)
    said = decode(Site(rows).answer(encode(ask)))
    assert not np.isin(said.quantiles, quantiles_of(rows)).any()
    check_ranges(said, True, True)


def test_what_is_told_is_checked():
    rows = np.random.default_rng(0).normal(0, 1, (60, 2))
    plain = decode(Site(rows).answer(encode(AskRanges("r", True))))
    assert plain.quantiles is None
    said = decode(Site(rows).answer(encode(AskRanges("r", True, 1, True))))
    known = said.quantiles
    assert known is not None
    assert known.shape == (len(SHARES), 2)
    assert check_ranges(said, True, True) is said
    for odd, asked in (
        (plain, True),
        (said, False),
        (replace(said, quantiles=known[:3]), True),
        (replace(said, quantiles=known[::-1].copy()), True),
        (replace(said, quantiles=known * np.nan), True),
        (replace(said, quantiles=known + 100), True),
        (replace(said, quantiles=known.astype(np.float32)), True),
    ):
        with pytest.raises(RejectedMessage, match="quantiles"):
            check_ranges(odd, True, asked)
    assert AgreementRequest(scale="robust").quantiles
    assert not AgreementRequest(scale=(np.zeros(1), np.ones(1))).quantiles


def test_quantiles_are_not_told_where_extremes_are_not():
    rows = np.random.default_rng(0).normal(0, 1, (60, 2))
    said = decode(Site(rows).answer(encode(AskRanges("r", False, 1, True))))
    assert said.quantiles is None
    assert said.low.size == 0
