# SPDX-License-Identifier: Apache-2.0
"""The live page: the report of a run's folder, kept up to date while the run goes on.

Reads the folder only, as the report does; shows no row of any site. Needs the extra
``dashboard`` (FastAPI and uvicorn).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from afcl.exceptions import InputError

__all__ = ["serve"]


def serve(
    folder: Path | str, host: str, port: int, started: Callable[[str], object]
) -> None:
    """Show the page of the run in `folder` until Ctrl-C.

    Parameters
    ----------
    folder
        Folder of a run, which need not be there yet.
    host, port
        Where to listen; port 0 is a free one.
    started
        Called with the page's address as soon as it can be opened.
    """
    try:
        import uvicorn

        from afcl.dashboard.app import make_app
    except ImportError as error:
        raise InputError(
            f"the live page needs {error.name}: pip install 'afcl[dashboard]'"
        ) from error
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: give the folder of a run")
    with _listen(host, port) as listening:
        config = uvicorn.Config(
            make_app(folder, host, lambda: server.should_exit),
            log_level="critical",
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        at = listening.getsockname()[1]
        started(f"http://{f'[{host}]' if ':' in host else host}:{at}/")
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            return


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or say why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(100)
    except OSError as error:
        listening.close()
        raise InputError(
            f"cannot listen on {host}:{port} ({error.strerror or error}): choose "
            "another port with --port, or another address with --host"
        ) from error
    return listening
