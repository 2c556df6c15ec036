# SPDX-License-Identifier: Apache-2.0
"""A server that is not started anew shows the certificate that lies on disk."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the network needs Flower: afcl[flower]")

import uvicorn.config

from afcl.runtime.flower import superlink
from afcl.runtime.flower.certificates import make_server_certificates
from afcl.runtime.flower.fresh_certificate import FreshCertificate, kept_fresh
from afcl.runtime.flower.renewal import renew
from afcl.runtime.live.engine import Tls

from .test_renewal import made

pytestmark = pytest.mark.federation


def context_of(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.cert, tls.key)
    return context


def silent(text: str) -> None:
    pass


def test_whoever_comes_after_a_renewal_is_shown_the_new_one(tmp_path: Path):
    """And who is connected stays connected."""
    tls = made(tmp_path, 700)
    make = kept_fresh(lambda certfile, keyfile: context_of(tls), look=0.05)
    trusted = ssl.create_default_context(cafile=str(tls.ca))

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(9):
            writer.write(data)
        writer.close()

    async def comes(port: int, host: str) -> tuple[str, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trusted, server_hostname=host
        )
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        return str(writer.get_extra_info("peercert")["notAfter"]), writer

    async def years() -> None:
        context = make(str(tls.cert), str(tls.key))
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        before, old = await comes(port, "127.0.0.1")
        renew(tmp_path, ["new.example.org"], silent)
        await asyncio.sleep(0.5)
        after, new = await comes(port, "new.example.org")
        assert after != before
        old.write(b"y")
        await old.drain()
        for each in (old, new):
            each.close()
            await each.wait_closed()
        server.close()

    asyncio.run(years())


def test_half_of_a_pair_is_passed_over(tmp_path: Path):
    """Somebody exchanges certificate and key by hand, one after the other."""
    tls = make_server_certificates(tmp_path / "old", ["127.0.0.1"])
    new = make_server_certificates(tmp_path / "new", ["127.0.0.1"])
    context = context_of(tls)
    fresh = FreshCertificate(context, tls.cert, tls.key)
    assert not fresh.look()
    tls.cert.write_bytes(new.cert.read_bytes())
    assert not fresh.look()
    tls.cert.rename(tmp_path / "away")
    assert not fresh.look()
    (tmp_path / "away").rename(tls.cert)
    tls.key.write_bytes(new.key.read_bytes())
    assert fresh.look()
    assert not fresh.look()


def test_the_engine_makes_its_context_in_this_way(monkeypatch: pytest.MonkeyPatch):
    """Were it made in another one, an old certificate would be shown to its end."""
    first = uvicorn.config.create_ssl_context
    monkeypatch.setattr(uvicorn.config, "create_ssl_context", first)
    monkeypatch.setattr("flwr.superlink.cli.flower_superlink", lambda: None)
    monkeypatch.setattr("flwr.superlink.extensions.get_middleware", tuple)
    monkeypatch.setattr("sys.argv", [])
    superlink._superlink([])
    assert uvicorn.config.create_ssl_context is not first
    assert first.__name__ in uvicorn.config.Config.load.__code__.co_names
