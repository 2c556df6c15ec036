# SPDX-License-Identifier: Apache-2.0
"""Tables by split, by setting and of real sites, from frames made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afcl_bench.blocks_k import k_recovery
from afcl_bench.blocks_settings import setting, settings
from afcl_bench.blocks_sites import sites
from afcl_bench.blocks_splits import by_split
from afcl_bench.frame import frame_of, row_of
from afcl_bench.measures import MEASURES
from afcl_bench.spec import Cell
from afcl_bench.store import CAPPED, DONE
from afcl_bench.tables import NONE, Table

UNKNOWN, KNOWN = "unknown k", "given k*"


def row(dataset: str, method: str, score: float, **more):
    """Return a run that answered; every measure is the score unless given."""
    where: dict[str, Any] = {"group": UNKNOWN, "split": "kmeans:5"}
    where |= {"seed": 0, "options": (), "participation": "random"}
    where |= {name: more.pop(name) for name in list(more) if name in where}
    cell = Cell(dataset=dataset, method=method, **where)
    found = {**dict.fromkeys(MEASURES, score), "k": 2, "k_true": 2, "reason": ""}
    found |= {"clients": 5, "redrawn": 0, "merged": 0, **more}
    return row_of(cell, DONE, **found)


def capped(dataset: str, method: str, **more):
    where = {"group": UNKNOWN, "split": "kmeans:5", "seed": 0, "options": (), **more}
    cell = Cell(dataset=dataset, method=method, participation="random", **where)
    return row_of(cell, CAPPED, reason="stopped after 20 s", k_true=0)


def table(name: str, block, *rows) -> Table:
    (found,) = [t for t in block(frame_of(rows)) if t.name == name]
    assert isinstance(found, Table)
    return found


# ------------------------------------------------------------------ by split

SPLIT_ROWS = (
    row("A", "afcl", 0.5),
    row("A", "afcl", 0.7, seed=1, k=3, redrawn=2),
    row("A", "afcl", 0.4, split="iid:50", clients=30, merged=20),
    row("B", "afcl", 0.2),
    row("B", "afcl", 0.2, split="iid:50"),
    row("A", "fkm", 0.605, group=KNOWN),
    row("A", "fkm", 0.45, group=KNOWN, split="iid:50", k=4),
    row("A", "fedgem", 0.9, k=7),
    capped("B", "fedgem"),
    row("B", "fkm", 0.1, group=KNOWN),
)


def test_ours_by_set_and_split():
    found = table("by-split-ours", by_split, *SPLIT_ROWS)
    assert found.header == ("data", "k-means 5", "random 50")
    assert found.rows == (
        ("A", "0.600 (2-3)", "0.400 (2)"),
        ("B", "0.200 (2)", "0.200 (2)"),
    )


def test_runs_with_everybody_present_are_a_line_of_their_own():
    there = row("A", "afcl", 0.8, participation="always", k=5)
    found = table("by-split-present", by_split, *SPLIT_ROWS, there)
    assert found.rows == (("A", "0.800 (5)", f"{NONE} ({NONE})"),)
    assert "everybody always present" in found.caption
    means = table("by-split-sc", by_split, *SPLIT_ROWS, there)
    assert means.rows[-1] == ("afcl, everybody present", "0.800 (1 sets)", NONE)
    # We do not lose against ourselves.
    lost = table("by-split-lost", by_split, *SPLIT_ROWS, there)
    assert [line[3] for line in lost.rows] == ["fedgem", "fkm"]


def test_means_over_sets_say_how_many_answered():
    found = table("by-split-sc", by_split, *SPLIT_ROWS)
    # Ours: (.6 + .2) / 2; a mean over one set is never the best.
    assert found.rows == (
        ("afcl", "**0.400**", "**0.300**"),
        ("fkm, told k*", "0.352", "0.450 (1 sets)"),
        ("fedgem", "0.900 (1 sets)", NONE),
    )


def test_where_a_rival_is_better_is_listed():
    found = table("by-split-lost", by_split, *SPLIT_ROWS)
    # .605 is not more than .01 above .600.
    assert found.rows == (
        ("A", "k-means 5", "0.600", "fedgem", "0.900", "7", "1"),
        ("A", "random 50", "0.400", "fkm", "0.450", "4 (told k*)", "1"),
    )


def test_another_setting_is_another_line():
    one = row("A", "fedgem", 0.95, k=3, options=(("local_clusters", 1),))
    means = table("by-split-sc", by_split, *SPLIT_ROWS, one)
    lines = [line[0] for line in means.rows]
    assert lines.count("fedgem") == lines.count("fedgem, local_clusters = 1") == 1
    lost = table("by-split-lost", by_split, *SPLIT_ROWS, one)
    assert lost.rows[0][3:6] == ("fedgem, local_clusters = 1", "0.950", "3")


def test_what_was_done_to_splits_is_said():
    found = table("by-split-repaired", by_split, *SPLIT_ROWS)
    assert found.rows == (("A", "1 of 2 drawn again", "30.0 of 50.0 clients left"),)


# ------------------------------------------------------------------ the number of k


def drawn(k, ari, method="afcl", **given):
    return row("mixture", method, ari, group="mixtures", k=k, k_true=7, **given)


def test_mixtures_by_split():
    found = table(
        "k-recovery",
        k_recovery,
        drawn(7, 1.0),
        drawn(8, 0.5, seed=1),
        drawn(9, 0.3, seed=2),
        capped("mixture", "afcl", group="mixtures", seed=3),
        drawn(7, 0.9, split="iid:50"),
        drawn(7, 0.8, participation="always"),
        drawn(2, 0.1, options=(("privacy", "summary"),)),
        drawn(2, 0.2, "fedgem"),
        drawn(3, 0.4, "pooled-hdbscan", options=(("min_cluster_size", 5),)),
    )
    assert found.header == ("method", "k-means 5", "random 50")
    few = "(1 runs; afcl 1.00 / 1.00)"
    assert found.rows == (
        ("afcl", "0.25 / 0.50 · 0.450, 1 capped", "1.00 / 1.00 · 0.900"),
        ("afcl, everybody present", f"1.00 / 1.00 · 0.800 {few}", NONE),
        ("afcl, privacy = summary", f"0.00 / 0.00 · 0.100 {few}", NONE),
        # One run beside four of the default, which is right in the same one.
        ("fedgem", f"0.00 / 0.00 · 0.200 {few}", NONE),
        ("pooled-hdbscan, min_cluster_size = 5", f"0.00 / 0.00 · 0.400 {few}", NONE),
    )


def test_sets_with_known_classes():
    def on(name, k, method="afcl", **given):
        return row(name, method, 0.5, group="suite", k=k, k_true=15, **given)

    rows = (
        on("s1", 15),
        on("s1", 15, seed=1),
        on("s1", 14, split="iid:5"),
        on("s1", 14, "fedgem"),
        capped("s1", "fedgem", group="suite", seed=1),
        capped("s1", "any-k:fkm", group="suite"),
        on("r15", 15),
    )
    found = table("k-recovery-suite", k_recovery, *rows)
    assert found.header == ("data", "k*", "afcl", "fedgem", "any-k:fkm")
    assert found.rows == (
        ("s1", "15", "**2/2**", "0/2 (14)", "cap"),
        ("r15", "15", "**1/1**", NONE, NONE),
    )
    over = table("k-recovery-splits", k_recovery, *rows)
    assert over.header == ("method", "k-means 5", "random 5")
    assert over.rows == (
        ("afcl", "3 of 3", "0 of 1"),
        ("fedgem", "0 of 2, 1 capped", NONE),
        ("any-k:fkm", "0 of 1, 1 capped", NONE),
    )


# ------------------------------------------------------------------ by setting


def test_the_best_of_a_sweep_beside_what_was_given():
    told = (("n_clusters", "true"),)
    rows = (
        row("A", "afcl", 0.5, group="as given"),
        row("B", "afcl", 0.6, group="as given"),
        row("A", "fedsc", 0.2, group="as given", options=told),
        row("B", "fedsc", 0.3, group="as given", options=told),
        row("A", "fedsc", 0.4, group="sweep", options=(*told, ("neighbours", 0))),
        capped("B", "fedsc", group="sweep", options=(*told, ("neighbours", 0))),
        capped("A", "f-fcm", group="as given", options=told),
    )
    found = table("settings-sc", settings, *rows)
    assert found.header == ("method", "setting", "A", "B")
    assert found.rows == (
        ("afcl", "defaults", "0.500", "0.600"),
        ("fedsc", "defaults (as given)", "0.200", "**0.300**"),
        ("fedsc", "neighbours = 0", "**0.400**", "cap"),
        ("fedsc", "*best of its sweep*", "0.400", "0.300"),
        ("f-fcm", "defaults (as given)", "cap", NONE),
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("", "defaults"),
        ("n_clusters = true", "defaults"),
        ("local_clusters = 1, n_clusters = true", "local_clusters = 1"),
    ],
)
def test_what_tells_k_is_no_setting(options, text):
    assert setting(options) == text


# ------------------------------------------------------------------ sites


def labelled(method: str, split: str, seed: int, labels: list[int], **more):
    name = more.pop("dataset", "sites:x")
    found = {"clients": 2 if split == "sites" else 1, "labels": np.array(labels)}
    return row(name, method, 0.3, split=split, seed=seed, **found, **more)


def test_real_sites_by_hand():
    rows = (
        labelled("afcl", "sites", 0, [0, 0, 1, 1]),
        labelled("afcl", "sites", 1, [1, 1, 0, 0]),
        labelled("afcl", "pooled", 0, [0, 0, 1, 1]),
        # Crossed: of the pairs none agree beyond chance, ARI = -.5.
        labelled("afcl", "pooled", 1, [0, 1, 0, 1]),
        labelled("afcl", "sites", 0, [0, 1, 2, 3], dataset="sites:x:mixed", k=4),
        labelled("fkm", "sites", 0, [0, 0, 0, 1], group=KNOWN),
        capped("sites:x", "hfdpc", split="sites"),
    )
    found = table("sites-x", sites, *rows)
    assert found.caption == "x: 4 rows at 2 sites, 2 classes."
    assert found.rows == (
        ("afcl", "2 of 2", "2", "0.300", "0.300", "1.000", "0.250"),
        ("afcl, with categories and gaps", "1 of 1", "4", "0.300", "0.300", NONE, NONE),
        ("fkm, told k*", "1 of 1", "2", "0.300", "0.300", NONE, NONE),
        ("hfdpc", "0 of 1", "stopped after 20 s", "cap", "cap", NONE, NONE),
    )


def test_sites_without_a_class_have_no_rand_index():
    rows = (
        labelled("afcl", "sites", 0, [0, 0, 1], k_true=0),
        labelled("fedgem", "sites", 0, [0, 1, 1], options=(("v", 1),), k_true=0),
    )
    found = table("sites-x", sites, *rows)
    assert "no class is known" in found.caption
    assert [line[3] for line in found.rows] == [NONE, NONE]
    assert found.rows[1][0] == "fedgem, v = 1"


def test_pooled_runs_alone_are_no_line():
    found = table("sites-x", sites, labelled("afcl", "pooled", 0, [0, 1]))
    assert (found.caption, found.rows) == ("x: no method answered.", ())
