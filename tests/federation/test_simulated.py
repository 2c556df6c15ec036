# SPDX-License-Identifier: Apache-2.0
"""Flower's simulation engine: many nodes, the same server, the same answers."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip(
    "flwr", reason="federation needs Flower: pip install 'afcl[flower]'"
)

from tests.docs.test_blocks import MACHINES, blocks_of

from afcl.data.synthetic import make_sd1
from afcl.exceptions import InputError
from afcl.runtime.flower import commands, simulated
from afcl.runtime.flower.simulated import lay_out, serve_simulated
from afcl.runtime.live.membership import Membership, open_membership
from afcl.runtime.live.server import FAILED
from afcl.runtime.results import RESULT, read_result

from .conftest import living, until
from .test_live import absorbed, assert_replays, write_sites

pytestmark = pytest.mark.federation

SITES = 8


def test_eight_nodes_are_served_as_eight_sites_are(tmp_path: Path):
    """By the block of docs/federation.md."""
    pytest.importorskip("ray", reason="needs Ray: pip install 'afcl[simulation]'")
    tables = write_sites(tmp_path, SITES)
    (tmp_path / "sites").mkdir()
    for site in range(SITES):
        (tmp_path / f"{site}.csv").rename(tmp_path / "sites" / f"site-{site}.csv")
    page = blocks_of(MACHINES.read_text(encoding="utf-8"))
    (block,) = [block.text for block in page if block.language == "python"]
    with contextlib.chdir(tmp_path):
        exec(compile(block, str(MACHINES), "exec"), {})
    run, sites = tmp_path / "trial", tmp_path / "nodes"
    result = read_result(run)
    assert result["n_clusters"] == 4
    assert sum(site["rows"] for site in result["sites"]) == len(make_sd1(0)[0])
    assert len(absorbed(run)) == len(set(absorbed(run))) == 3 * SITES
    assert_replays(run, tables)
    for site in range(SITES):
        labels = pl.read_csv(sites / str(site) / "labels.csv")["cluster"]
        assert len(labels) == len(tables[site])
        assert open_membership(sites / str(site)).state == "done"
    until(lambda: not living(tmp_path), 30)


class Link:
    """The engine's process as `_wait` sees it."""

    log = Path("superlink.log")

    def __init__(self, alive: bool = True) -> None:
        self.alive = alive


def test_a_run_without_result_says_why(tmp_path, monkeypatch):
    def wait(link: Any, seconds: float = 60.0) -> None:
        simulated._wait(tmp_path, link, "1", 1, {}, time.monotonic() + seconds)

    with pytest.raises(InputError, match=r"no result: see superlink\.log"):
        wait(Link(alive=False))
    with pytest.raises(InputError, match="no result"):
        wait(Link(), seconds=-1.0)
    monkeypatch.setattr(simulated, "_LOOK", 0.0)
    said = iter([("running", ""), ("finished:failed", "no memory left")])
    monkeypatch.setattr(commands, "status", lambda *_: next(said))
    with pytest.raises(InputError, match=r"\(finished:failed: no memory left\)"):
        wait(Link())
    (tmp_path / FAILED).write_text('{"reason": "no site has all columns"}')
    with pytest.raises(InputError, match="^no site has all columns\n"):
        wait(Link())
    (tmp_path / RESULT).write_text("{}")
    wait(Link(alive=False))


def test_without_ray_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(simulated, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'afcl\[simulation\]'"):
        serve_simulated(tmp_path, tmp_path)


def test_sites_get_folders_by_number_and_none_twice(tmp_path):
    members = [Membership(f"{site}.csv", f"site-{site}") for site in range(3)]
    lay_out(tmp_path / "sites", members)
    for site, member in enumerate(members):
        assert open_membership(tmp_path / "sites" / str(site)) == member
    with pytest.raises(FileExistsError):
        lay_out(tmp_path / "sites", members)
