# SPDX-License-Identifier: Apache-2.0
"""The coordinator's process: a SuperLink that lets the network join and no more.

Flower lets anybody who reaches a SuperLink's port submit code, which then runs at the
coordinator and at every site, and enrol keys. Ours (this module, run as a program) lets
the network only join: all else is for the coordinator's own machine.
"""

from __future__ import annotations

import ipaddress
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from afcl.exceptions import InputError
from afcl.owner_only import make_folder
from afcl.runtime.flower.child import Child
from afcl.runtime.flower.database import DATABASE
from afcl.runtime.flower.environment import without_proxy
from afcl.runtime.flower.fresh_certificate import kept_fresh
from afcl.runtime.flower.logs import last_words
from afcl.runtime.flower.network import at, require_free, unreachable
from afcl.runtime.live.engine import Tls

#: Seconds for a SuperLink to start.
_START = 60.0
_MODULE = "afcl.runtime.flower.superlink"


def start_superlink(
    folder: Path,
    host: str,
    port: int,
    tls: Tls | None,
    env: Mapping[str, str],
    *,
    simulation: bool = False,
) -> Child:
    """Start the coordinator's engine; return when it answers on its port.

    With `tls` only enrolled sites can join; without, anybody can, in plain text. In a
    `simulation` nobody can: the engine plays the sites itself.
    """
    require_free(host, port)
    folder = folder.resolve()
    make_folder(folder)
    arguments = ["--host", host, "--port", str(port)]
    arguments += ["--database", str(folder / DATABASE)]
    arguments += ["--disable-runtime-dependency-installation"]
    if simulation:
        arguments += ["--simulation"]
    if tls is None:
        arguments += ["--insecure"]
    else:
        arguments += ["--ssl-ca-certfile", str(tls.ca.resolve())]
        arguments += ["--ssl-certfile", str(tls.cert.resolve())]
        arguments += ["--ssl-keyfile", str(tls.key.resolve())]
        arguments += ["--enable-supernode-auth"]
    child = Child(
        [sys.executable, "-P", "-m", _MODULE, *arguments],
        log=folder / "superlink.log",
        cwd=folder,
        env=without_proxy(env, host),
    )
    try:
        _wait_for(child, at(host, port), tls)
    except BaseException:
        child.stop()
        raise
    return child


def _wait_for(child: Child, address: str, tls: Tls | None) -> None:
    deadline = time.monotonic() + _START
    while why := unreachable(address, None if tls is None else tls.ca):
        if not child.alive:
            raise InputError(f"the engine did not start: {last_words(child.log)}")
        if time.monotonic() > deadline:
            raise InputError(f"the engine did not start in {_START:.0f} s: {why}")
        time.sleep(0.1)


class NetworkGuard:
    """Let the network join and no more; only this machine gives orders.

    ASGI middleware before everything that a SuperLink serves.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or answer it with 403."""
        if scope["type"] == "lifespan" or self._admits(scope):
            await self._app(scope, receive, send)
            return
        from starlette.responses import JSONResponse

        reason = {"detail": "only the coordinator's own machine may do this"}
        await JSONResponse(reason, status_code=403)(scope, receive, send)

    @staticmethod
    def _admits(scope: Any) -> bool:
        if scope["path"] == "/health" or scope["path"].startswith("/v1/fleet/"):
            return True
        caller, called = scope.get("client"), scope.get("server")
        if caller is None:
            return False
        if called is not None and caller[0] == called[0]:
            return True  # both ends are the same machine
        try:
            return ipaddress.ip_address(caller[0]).is_loopback
        except ValueError:
            return False


def _superlink(arguments: Sequence[str]) -> None:
    """Be a SuperLink behind a guard."""
    import uvicorn.config
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from starlette.middleware import Middleware

    fresh = kept_fresh(uvicorn.config.create_ssl_context)
    uvicorn.config.create_ssl_context = fresh
    extensions.get_middleware = lambda: (Middleware(NetworkGuard),)
    sys.argv = ["flower-superlink", *arguments]
    flower_superlink()


if __name__ == "__main__":
    _superlink(sys.argv[1:])
