# SPDX-License-Identifier: Apache-2.0
"""docs/federation.md, from the first block to the last, typed at several machines."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip(
    "flwr", reason="federation needs Flower: pip install 'afcl[flower]'"
)

from tests.docs.test_blocks import MACHINES, Block, blocks_of

from afcl.runtime.live.staying import answer_folder
from afcl.runtime.results import read_result

from .conftest import living, until
from .machines import Network, place_of, stays

pytestmark = pytest.mark.federation

SITES = ("site-a", "site-b", "site-c", "site-d")
KINDS = np.array([[30, 90], [45, 150], [70, 110], [80, 180]])


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Machines; nobody else has the coordinator's address, so that its port is free."""
    number = os.getpid()
    made = Network(tmp_path, f"127.77.{number // 250 % 250}.{number % 250 + 2}")
    try:
        yield made
    finally:
        made.close()
    until(lambda: not living(tmp_path), 30)


def write_rows(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.normal(kind, 3, (40, 2)) for kind in KINDS])
    pl.DataFrame(rows.round(2), schema=["age", "pressure"]).write_csv(
        folder / "rows.csv"
    )


def end_shown(network: Network, host: str) -> str:
    """Return when the certificate ends that the coordinator shows under a name."""
    ca = network.folder("coordinator") / "hospitals" / "tls" / "ca.crt"
    trusted = ssl.create_default_context(cafile=str(ca))
    with (
        socket.create_connection((network.address, 8000), 5) as plain,
        trusted.wrap_socket(plain, server_hostname=host) as secure,
    ):
        return str((secure.getpeercert() or {})["notAfter"])


def is_shown(network: Network, host: str) -> bool:
    try:
        return bool(end_shown(network, host))
    except OSError:
        return False


def after_the_first_run(network: Network) -> None:
    for name, command in network.commands:
        assert command.process.wait(60) == 0, f"{name}\n{command.said}"
    run = network.folder("coordinator") / "hospitals" / "run1"
    assert read_result(run)["n_clusters"] == len(KINDS)
    for site in SITES[:3]:
        labels = pl.read_csv(network.folder(site) / "mine" / "labels.csv")
        assert labels.height == 40 * len(KINDS)
        assert labels["cluster"].n_unique() == len(KINDS)


def after_the_certificate(network: Network) -> None:
    """The service that runs shows the new certificate without having been started."""
    until(lambda: is_shown(network, "new.example.org"))
    home = network.folder("coordinator")
    started = (home / ".units" / "afcl-serve.pid").stat().st_mtime
    assert started < (home / "hospitals" / "tls" / "server.crt").stat().st_mtime


#: What has come to pass once a block was played, by a command that is in it.
THEN: dict[str, Callable[[Network], None]] = {
    "afcl status hospitals/run1": after_the_first_run,
    "--renew --hostname new.example.org": after_the_certificate,
}


def played() -> list[tuple[Block, str]]:
    """Return the blocks that belong to machines, each with what it shows."""
    blocks = blocks_of(MACHINES.read_text(encoding="utf-8"))
    answers = [*blocks[1:], Block("", "", 0)]
    return [
        (block, after.text if after.language == "output" else "")
        for block, after in zip(blocks, answers, strict=True)
        if block.language in ("bash", "toml")
    ]


def test_the_page_from_the_first_block_to_the_last(network: Network):
    network.folder("coordinator")
    for seed, site in enumerate(SITES):
        write_rows(network.folder(site), seed)
    left = dict(THEN)
    for block, shown in played():
        network.play(block, shown)
        for command in [command for command in left if command in block.text]:
            left.pop(command)(network)
    assert left == {}
    # Of the answer itself: its end may still be being told when the page goes on.
    live = network.folder("coordinator") / "hospitals" / "live"
    history = read_result(answer_folder(live, 2))["history"]
    assert [sorted(answer["clients"]) for answer in history] == [list(SITES[:3])] * 2
    assert [answer["withdrawn"] for answer in history] == [True, False]
    assert sum(stays(block) for block, _ in played()) == 2
    assert all(place_of(block) for block, _ in played())
