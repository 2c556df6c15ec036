# SPDX-License-Identifier: Apache-2.0
"""The live page's server: the page, its newest body, and a stream of changes."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import (
    HTMLResponse,
    JSONResponse,
    Response,
    StreamingResponse,
)

from afcl.dashboard.metrics import CONTENT_TYPE, metrics
from afcl.dashboard.watch import Snapshot, Watcher
from afcl.report import body, page

#: Seconds between two looks at the folder.
PAUSE = 0.5
#: Looks without news after which a sign of life keeps the stream open.
SIGN = 20
#: Sent with every answer: nothing is stored, framed or passed on.
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def make_app(
    folder: Path, host: str, closing: Callable[[], bool] = lambda: False
) -> FastAPI:
    """Return the application that shows the run in `folder`.

    Parameters
    ----------
    folder
        Folder of a run, which need not be there yet.
    host
        Address it listens on; requests under other names than it are refused.
    closing
        Says whether the server wants to end, so that streams end too.
    """
    watcher = Watcher(folder)
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(_guard(host))],
    )

    @app.get("/")
    def whole() -> HTMLResponse:
        now, run = watcher.look()
        return HTMLResponse(page(run, now.state, [script()]), headers=HEADERS)

    @app.get("/page")
    def newest() -> JSONResponse:
        now, run = watcher.look()
        inside = {**_plain(now), "html": body(run, now.state)}
        return JSONResponse(inside, headers=HEADERS)

    @app.get("/metrics")
    def numbers() -> Response:
        now, run = watcher.look()
        text = metrics(run, now.state, watcher.now())
        return Response(text, headers={**HEADERS, "Content-Type": CONTENT_TYPE})

    @app.get("/events")
    def events(request: Request) -> StreamingResponse:
        return StreamingResponse(
            _stream(watcher, request, closing),
            media_type="text/event-stream",
            headers=HEADERS,
        )

    return app


@cache
def script() -> str:
    """Return the live page's own program."""
    return (files("afcl.dashboard") / "assets" / "live.js").read_text(encoding="utf-8")


async def _stream(
    watcher: Watcher, request: Request, closing: Callable[[], bool]
) -> AsyncIterator[str]:
    """Send where the run stands, at once and whenever that changes."""
    yield "retry: 1000\n\n"
    sent, quiet = None, 0
    while not closing() and not await request.is_disconnected():
        now, _ = await run_in_threadpool(watcher.look)
        quiet += 1
        if now != sent:
            sent, quiet = now, 0
            yield f"data: {json.dumps(_plain(now))}\n\n"
        elif quiet >= SIGN:
            quiet = 0
            yield ": still here\n\n"
        await asyncio.sleep(PAUSE)


def _plain(now: Snapshot) -> dict[str, str]:
    return {"version": now.version, **asdict(now.state)}


def _guard(host: str) -> Callable[[Request], None]:
    """Refuse requests under a foreign name: a web page elsewhere could send them.

    A name that somebody else owns may be made to point here (DNS rebinding); an address
    cannot, and neither can the names this machine goes by.
    """
    names = {"localhost", host.lower(), socket.gethostname().lower()}

    def check(request: Request) -> None:
        asked = request.url.hostname or ""
        if asked.lower() in names or _is_address(asked):
            return
        raise HTTPException(421, "open this page by the address it was started with")

    return check


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
