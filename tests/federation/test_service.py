# SPDX-License-Identifier: Apache-2.0
"""Both sides as services: files, sites that come first, the same command again."""

from __future__ import annotations

import json
import signal
import socket
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip(
    "flwr", reason="federation needs Flower: pip install 'afcl[flower]'"
)

from afcl.runtime.flower.certificates import make_server_certificates
from afcl.runtime.flower.launcher import FlowerLauncher
from afcl.runtime.flower.network import free_port
from afcl.runtime.live.sent import read_sent
from afcl.runtime.results import read_result

from .conftest import LONG, until
from .test_live import Start, events, write_sites

pytestmark = pytest.mark.federation


def test_sites_come_first_and_the_same_command_goes_on(tmp_path: Path, party: Start):
    write_sites(tmp_path, 3)
    port = free_port()
    (tmp_path / "coordinator.toml").write_text(
        f'out = "run"\nport = {port}\ninsecure = true\nprivacy = "summary"\n'
    )
    sites = []
    for site in range(3):
        where = tmp_path / f"site-{site}.toml"
        where.write_text(
            f'address = "127.0.0.1:{port}"\ndata = "{site}.csv"\n'
            f'name = "site-{site}"\nout = "site-{site}"\n'
            "insecure = true\nkeep-sent = true\n"
        )
        sites.append(party("join", "--config", where.name))
    for each in sites:
        each.says("nobody answers at")
    impatient = party("join", "--config", "site-0.toml", "--out", "x", "--wait", "1")
    assert "--wait" in impatient.ends(2)

    server = party("serve", "--config", "coordinator.toml")
    server.says("joined")
    server.signal(signal.SIGTERM)
    server.process.wait(60)
    refused = party("serve", "--config", "coordinator.toml", "--min-cell", "9")
    assert "--min-cell is 5 in this run" in refused.ends(2)
    again = party("serve", "--config", "coordinator.toml")
    for each in sites:
        said = each.ends(0)
        assert said.count("nobody answers at") == 1
    assert "Going on with the run" in again.ends(0)
    run = tmp_path / "run"
    assert read_result(run)["n_clusters"] == 4
    assert "is finished" in party("serve", "--config", "coordinator.toml").ends(0)

    names = {e["client"]: e["name"] for e in events(run, "ranges")}
    received: Counter[str] = Counter()
    for event in events(run, "hello", "update"):
        received[names[event["client"]]] += event["bytes"]
    for site in range(3):
        folder = tmp_path / f"site-{site}"
        sent, damaged = read_sent(folder)
        assert damaged == []
        # What was asked twice, around the restart, has left twice.
        answers = {e.sha256: e.bytes for e in sent if "summary" in e.message}
        assert sum(answers.values()) == received[f"site-{site}"]
        assert all((folder / entry.kept).is_file() for entry in sent)
        told = json.loads(party("log", folder, "--json").ends(0))
        assert [entry["sha256"] for entry in told["sent"]] == [e.sha256 for e in sent]
        assert {entry["to"] for entry in told["sent"]} == {f"127.0.0.1:{port}"}


@pytest.mark.parametrize(
    ("direct", "proxied"), [("", True), ("coordinator.invalid", False)]
)
def test_a_site_reaches_its_coordinator_through_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: str, proxied: bool
):
    """Or directly, if NO_PROXY says so; here nobody is there then."""
    ca = make_server_certificates(tmp_path / "tls", ["coordinator.invalid"]).ca
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(LONG)
        at = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        for name, value in (("HTTPS_PROXY", at), ("NO_PROXY", direct)):
            monkeypatch.setenv(name, value)
            monkeypatch.delenv(name.lower(), raising=False)
        address = "coordinator.invalid:8000"
        with FlowerLauncher().join(tmp_path / "site", address, ca, None, 0) as node:
            if proxied:
                with proxy.accept()[0] as caller:
                    asked = caller.recv(1000)
                assert asked.startswith(f"CONNECT {address} HTTP/1.1".encode())
            else:
                until(lambda: node.absent() is not None)
                proxy.settimeout(0.5)
                with pytest.raises(TimeoutError):
                    proxy.accept()
