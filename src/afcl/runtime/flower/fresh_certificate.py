# SPDX-License-Identifier: Apache-2.0
"""A server that runs for years shows the certificate that lies on disk, not its first.

Whoever connects after a renewal is shown the new one; connections that stand are left
alone. A certificate that cannot be used, as its key is not there yet, say, is passed
over, and looked at again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Seconds between two looks at the files.
LOOK = 20.0


class FreshCertificate:
    """A server's certificate, loaded again when its files have changed.

    Parameters
    ----------
    context : ssl.SSLContext
        The server's, into which it was loaded.
    cert, key : Path
        The files.
    """

    def __init__(self, context: ssl.SSLContext, cert: Path, key: Path) -> None:
        self._context, self._files = context, (cert, key)
        self._loaded = self._seen()

    def look(self) -> bool:
        """Load what is new; return whether something was."""
        seen = self._seen()
        if seen is None or seen == self._loaded:
            return False
        try:
            # First elsewhere: half of a pair would replace the one in use.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
            self._context.load_cert_chain(*self._files)
        except OSError:  # of which ssl.SSLError is one
            return False
        self._loaded = seen
        return True

    def _seen(self) -> tuple[tuple[int, ...], ...] | None:
        """Return what tells the files from others, None if they are not all there."""
        try:
            about = [file.stat() for file in self._files]
        except OSError:
            return None
        return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in about)


def kept_fresh(
    make: Callable[..., ssl.SSLContext], look: float = LOOK
) -> Callable[..., ssl.SSLContext]:
    """Return `make`, whose contexts follow their files while the event loop runs.

    In the loop's own thread, where connections are made too: OpenSSL lets nobody change
    a context that another thread uses.
    """

    def made(certfile: str, keyfile: str, *more: Any, **others: Any) -> ssl.SSLContext:
        context = make(certfile, keyfile, *more, **others)
        fresh = FreshCertificate(context, Path(certfile), Path(keyfile))
        loop = asyncio.get_running_loop()

        def again() -> None:
            fresh.look()
            loop.call_later(look, again)

        loop.call_later(look, again)
        return context

    return made
