# SPDX-License-Identifier: Apache-2.0
"""Whole runs between processes: `afcl serve`, `afcl join`, the engine; on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip(
    "flwr", reason="federation needs Flower: pip install 'afcl[flower]'"
)

from afcl import Replay
from afcl._typing import Floats
from afcl.data.split import kmeans_split
from afcl.data.synthetic import make_sd1
from afcl.methods import get_method
from afcl.runtime.flower.network import free_port
from afcl.runtime.heartbeat import read_beat
from afcl.runtime.results import read_result
from afcl.runtime.simulate import simulate
from afcl.runtime.spec import Spec
from afcl.trace import Event, read_trace

from .conftest import Party, living, until

pytestmark = pytest.mark.federation

Start = Callable[..., Party]
COLUMNS = ["height", "weight"]


def write_sites(where: Path, n_sites: int) -> list[Floats]:
    X, _ = make_sd1(0)
    owner = kmeans_split(X, n_sites, random_state=0)
    tables = [X[owner == site] for site in range(n_sites)]
    for site, rows in enumerate(tables):
        pl.DataFrame(rows, schema=COLUMNS).write_csv(where / f"{site}.csv")
    return tables


def events(run: Path, *kinds: str) -> list[Event]:
    path = run / "trace.jsonl"
    found = read_trace(path).events if path.is_file() and path.stat().st_size else []
    return [event for event in found if event["event"] in kinds]


def assert_replays(run: Path, tables: list[Floats]) -> None:
    """The trace, run again in the simulator, gives the same bits."""
    names = {e["client"]: str(e["name"]) for e in events(run, "ranges")}
    ordered = [tables[int(names[client].split("-")[1])] for client in sorted(names)]
    plan = json.loads((run / "plan.json").read_text())
    spec = Spec(get_method("afcl"), plan["options"], plan["seed"], run=plan["run"])
    outcome = simulate(spec, ordered, Replay.of(read_trace(run / "trace.jsonl")))
    centers = outcome.finished.clustering.centers
    assert centers is not None
    result = read_result(run)
    box = outcome.finished.terms.box
    assert np.array_equal(np.array(result["centers"]), box.unscale(centers))


def absorbed(run: Path) -> list[tuple[object, ...]]:
    said = events(run, "hello", "update")
    return [(e["event"], e["client"], e["contact"]) for e in said]


def join(party: Start, port: int, site: int, *more: object, **kwargs: object) -> Party:
    where = ("--data", f"{site}.csv", "--name", f"site-{site}", "--out", f"site-{site}")
    return party("join", f"127.0.0.1:{port}", *where, *more, **kwargs)


def test_three_sites_with_keys_and_who_is_not_let_in(tmp_path: Path, party: Start):
    tables = write_sites(tmp_path, 3)
    port = free_port()
    run = tmp_path / "run"
    server = party("serve", "--out", "run", "--port", port, "--min-clients", 3)
    server.says("Listening")
    for site in range(4):
        party("keygen", "--out", "keys", "--name", f"site-{site}").ends(0)
    ca = run / "tls" / "ca.crt"

    stranger = join(party, port, 0, "--ca", ca, "--key", "keys/site-3")
    assert "enrol" in stranger.ends(2)
    party("serve", "--out", "other", "--port", free_port()).says("Listening")
    other = tmp_path / "other" / "tls" / "ca.crt"
    fooled = join(party, port, 1, "--ca", other, "--key", "keys/site-1")
    assert "certificate" in fooled.ends(2)
    plain = join(party, port, 2, "--insecure")
    assert "TLS" in plain.ends(2)
    assert not events(run, "ranges", "refused")

    keys = [f"keys/site-{site}.pub" for site in range(3)]
    party("enrol", *keys, "--run", "run").ends(0)
    server.says("enrolled site-2")
    sites = [
        join(party, port, site, "--ca", ca, "--key", f"keys/site-{site}")
        for site in range(3)
    ]
    for each in sites:
        each.ends(0)
    server.ends(0)
    assert read_result(run)["n_clusters"] == 4
    assert_replays(run, tables)
    for site in range(3):
        labels = pl.read_csv(tmp_path / f"site-{site}" / "labels.csv")["cluster"]
        assert len(labels) == len(tables[site])
    said = party("status", "run").ends(0)
    assert "done, 3 sites" in said
    (members,) = read_result(tmp_path / "site-0")["site"]["members"]
    for site, each in enumerate(sites):
        assert read_result(tmp_path / f"site-{site}")["site"]["members"] == [members]
        assert f"site-{site}: summed with the members {members}" in each.said


def test_killed_slow_and_late_sites(tmp_path: Path, party: Start):
    tables = write_sites(tmp_path, 5)
    port = free_port()
    run = tmp_path / "run"
    server = party(
        *("serve", "--out", "run", "--port", port, "--min-clients", 4, "--insecure"),
        *("--serve-end", 0),
    )
    server.says("Listening")
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "if any('superexec' in word for word in sys.orig_argv):\n"
        "    os.register_at_fork(after_in_child=lambda: time.sleep(3))\n"
    )
    paths = os.pathsep.join([str(slow), os.environ.get("PYTHONPATH", "")])
    join(party, port, 0, "--insecure", env={"PYTHONPATH": paths})
    killed = join(party, port, 1, "--insecure")
    for site in (2, 3):
        join(party, port, site, "--insecure")
    until(lambda: len(events(run, "hello")) == 4)
    killed.signal(signal.SIGKILL)
    server.says("k = ")
    late = join(party, port, 4, "--insecure")
    late.ends(0)
    server.ends(0)
    result = read_result(run)
    assert result["n_clusters"] == 4
    assert len(result["sites"]) == 5
    assert {s["name"]: s["messages"] for s in result["sites"]}["site-1"] < 3
    said = party("status", "run").ends(0)
    assert "site-1: " in said
    assert "gone" in said
    assert "site-4 joined late" in server.said
    assert_replays(run, tables)


def test_who_was_away_at_the_end_comes_back_for_its_labels(
    tmp_path: Path, party: Start
):
    tables = write_sites(tmp_path, 3)
    port = free_port()
    run = tmp_path / "run"
    server = party(
        *("serve", "--out", "run", "--port", port, "--min-clients", 2, "--insecure"),
        *("--privacy", "summary"),
    )
    server.says("Listening")
    away = join(party, port, 2, "--insecure")
    away.says("joined")
    others = [join(party, port, site, "--insecure") for site in (0, 1)]
    until(lambda: len(events(run, "hello")) == 3)
    away.signal(signal.SIGTERM)
    for each in others:
        each.ends(0)
    server.says("The result is final.")
    before = (run / "result.json").read_bytes()
    server.signal(signal.SIGKILL)
    server.process.wait(30)
    until(lambda: port_is_free(port), 60)
    server = party("serve", "--resume", "run", "--port", port, "--insecure")
    server.says("The result is final.")
    join(party, port, 2, "--insecure").ends(0)
    assert "told the end to site-2" in server.ends(0)
    labels = pl.read_csv(tmp_path / "site-2" / "labels.csv")["cluster"]
    assert len(labels) == len(tables[2])
    assert (run / "result.json").read_bytes() == before


def test_the_server_is_killed_three_times(tmp_path: Path, party: Start):
    tables = write_sites(tmp_path, 3)
    port = free_port()
    run = tmp_path / "run"
    server = party("serve", "--out", "run", "--port", port, "--min-clients", 3)
    server.says("Listening")
    ca = run / "tls" / "ca.crt"
    for site in range(3):
        party("keygen", "--out", "keys", "--name", f"site-{site}").ends(0)
    party("enrol", *(f"keys/site-{site}.pub" for site in range(3))).ends(0)
    server.says("enrolled site-2")
    sites = [
        join(party, port, site, "--ca", ca, "--key", f"keys/site-{site}")
        for site in range(3)
    ]
    for kind, count in (("agreed", 1), ("hello", 2), ("update", 1)):
        until(partial(has, run, kind, count))
        server.signal(signal.SIGKILL)
        server.process.wait(30)
        until(lambda: port_is_free(port), 60)
        server = party("serve", "--resume", "run", "--port", port)
    for each in sites:
        each.ends(0)
    server.ends(0)
    assert read_result(run)["n_clusters"] == 4
    assert len(absorbed(run)) == len(set(absorbed(run))) == 3 * (1 + 7)
    assert_replays(run, tables)


def test_a_federation_outlives_keys_and_runs(tmp_path: Path, party: Start):
    write_sites(tmp_path, 2)
    port, fed = free_port(), tmp_path / "fed"
    serve = ("serve", "--federation", "fed", "--port", port)
    server = party(*serve, "--out", "fed/run1")
    server.says("Listening")
    ca = fed / "tls" / "ca.crt"
    for folder, site in (("keys", 0), ("keys", 1), ("new", 1)):
        party("keygen", "--out", folder, "--name", f"site-{site}").ends(0)
    whole = (tmp_path / "keys" / "site-0.pub").read_text()
    (tmp_path / "short.pub").write_text(whole[:70])
    line = party("enrol", "short.pub", "--run", "fed").ends(2)
    assert "short.pub cannot be enrolled: cut off or damaged" in line
    (fed / "enrolled").mkdir()
    (fed / "enrolled" / "bad.pub").write_text(whole[:70])
    party("enrol", "keys/site-0.pub", "keys/site-1.pub", "--run", "fed/run1").ends(0)
    server.says("bad.pub: cut off or damaged")
    server.says("enrolled site-1")

    keyed = ("--ca", ca, "--key", "keys/site-1")
    put_out = join(party, port, 1, *keyed)
    put_out.says("joined")
    party("revoke", "site-1", "--run", "fed").ends(0)
    assert "site-1 was refused: the key of site-1 was revoked" in put_out.ends(2)
    server.says("refused site-1: the key of site-1 was revoked")
    known = fed / "run1" / "addresses.json"
    until(lambda: len(json.loads(known.read_text())) == 1)
    assert "revoked" in join(party, port, 1, *keyed).ends(2)
    server.says("refused site-1: its key was revoked")

    line = party("enrol", "new/site-1.pub", "--run", "fed").ends(2)
    assert "--replace" in line
    party("enrol", "new/site-1.pub", "--run", "fed", "--replace").ends(0)
    until(lambda: server.said.count("enrolled site-1") == 2)
    renewed = ("--ca", ca, "--key", "new/site-1")
    join(party, port, 1, *renewed).says("joined")
    before = ca.read_bytes()
    server.signal(signal.SIGTERM)
    server.process.wait(60)

    again = party(*serve, "--out", "fed/run2")
    again.says("enrolled site-1")
    assert "revoked" not in again.said
    assert ca.read_bytes() == before
    join(party, port, 0, "--ca", ca, "--key", "keys/site-0").says("joined")


def has(run: Path, kind: str, count: int) -> bool:
    return len(events(run, kind)) >= count


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_sites_that_do_not_fit(tmp_path: Path, party: Start):
    write_sites(tmp_path, 4)
    frame = pl.read_csv(tmp_path / "2.csv")
    frame.rename({"weight": "we_ight"}).write_csv(tmp_path / "2.csv")
    port = free_port()
    # What a site can see by itself it says before anything is sent.
    bad = pl.read_csv(tmp_path / "3.csv")
    for name, rows, line in (
        (
            "text",
            bad.with_columns(weight=pl.Series(["1", "2", "heavy"] * 999)[: bad.height]),
            "text",
        ),
        ("nan", bad.with_columns(weight=pl.lit(None, pl.Float64)), "missing"),
        ("none", bad.head(0), "rows"),
    ):
        rows.write_csv(tmp_path / f"{name}.csv")
        site = party(
            *("join", f"127.0.0.1:{port}", "--data", f"{name}.csv", "--name", name),
            *("--out", name, "--insecure"),
        )
        said = site.ends(2)
        assert line in said
        assert said.count("\n") == 1
    server = party(
        *("serve", "--out", "run", "--port", port, "--min-clients", 2, "--insecure"),
        *("--linger", 30),
    )
    server.says("Listening")
    units = ("--unit", "height=m")
    sites = [join(party, port, site, "--insecure", *units) for site in (0, 1)]
    server.says("agreed")
    other = join(party, port, 3, "--insecure", "--unit", "height=cm")
    lacking = join(party, port, 2, "--insecure")
    assert "'we_ight'" in lacking.ends(2)
    assert "cm" in other.ends(2)
    for site in sites:
        site.ends(0)
    server.ends(0)
    assert len(read_result(tmp_path / "run")["sites"]) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal(tmp_path: Path, party: Start, number: int):
    write_sites(tmp_path, 1)
    port = free_port()
    server = party(
        "serve", "--out", "run", "--port", port, "--min-clients", 2, "--insecure"
    )
    server.says("Listening")
    taken = party("serve", "--out", "second", "--port", port, "--insecure")
    assert f"port {port}" in taken.ends(2)
    site = join(party, port, 0, "--insecure")
    site.says("joined")
    site.signal(number)
    assert "comes back" in site.ends(128 + number)
    server.signal(number)
    assert "--resume" in server.ends(128 + number)
    assert "stopped; 'afcl serve --resume run' goes on" in party("status", "run").ends(
        3
    )
    until(lambda: not living(tmp_path), 30)


def test_two_servers_in_one_folder_and_one_that_is_killed(tmp_path: Path, party: Start):
    write_sites(tmp_path, 1)
    run = tmp_path / "run"
    server = party(
        "serve", "--out", "run", "--port", free_port(), "--min-clients", 2, "--insecure"
    )
    server.says("Listening")
    until(lambda: (run / "heartbeat.json").is_file())
    second = party("serve", "--resume", "run", "--port", free_port(), "--insecure")
    line = f"another afcl serve (process {server.process.pid}) works in {run}"
    assert line in second.ends(2)
    assert "waiting for 2 sites" in party("status", "run").ends(0)
    server.signal(signal.SIGKILL)
    server.process.wait(30)
    until(lambda: read_beat_is_dead(run), 60)
    assert "stopped; 'afcl serve --resume run' goes on" in party("status", "run").ends(
        3
    )
    third = party("serve", "--resume", "run", "--port", free_port(), "--insecure")
    third.says("Listening")
    until(lambda: not read_beat_is_dead(run))
    # What the first one's engine said is still there, and when.
    log = (run / "engine" / "superlink.log").read_text(encoding="utf-8")
    assert log.count("started by afcl") == 2
    assert all(line[:4].isdigit() for line in log.splitlines() if line)


def read_beat_is_dead(run: Path) -> bool:
    beat = read_beat(run)
    return beat is None or beat.is_dead()
