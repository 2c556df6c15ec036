# SPDX-License-Identifier: Apache-2.0
"""Ports and addresses: free ones, taken ones, and why one cannot be reached."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path

from afcl.exceptions import InputError
from afcl.runtime.flower.logs import GIVE_CA, meaning

#: Where this machine reaches itself.
LOOPBACK = "127.0.0.1"
# What a site's clock may differ by is a second less than Flower allows, as the
# coordinator tells its time in whole seconds.
#: Seconds by which it may be ahead of the coordinator's.
AHEAD = 4.0
#: Seconds by which it may be behind.
BEHIND = 304.0
#: Seconds between the first two looks whether somebody answers; they double.
FIRST_PAUSE = 1.0
#: Seconds between two looks at most.
LONGEST_PAUSE = 60.0


def free_port() -> int:
    """Return a port of this machine that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(host: str, port: int) -> None:
    """Refuse a port that cannot be listened on, and say what to do."""
    if not 0 < port < 65536:
        raise InputError(f"{port} is no port: choose one from 1 to 65535 with --port")
    try:
        family, kind, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port {port} on {host} is taken: choose another with --port"
            ) from error
        if error.errno == errno.EACCES:
            raise InputError(
                f"port {port} is reserved for administrators: choose one above 1023 "
                "with --port"
            ) from error
        raise InputError(
            f"{host} is no address of this machine: choose one with --host"
        ) from error


def reachable(host: str) -> str:
    """Return the host by which this machine reaches a server bound to `host`."""
    return {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)


def at(host: str, port: int | str) -> str:
    """Return the address at which this machine reaches a server bound to `host`."""
    host = reachable(host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, str]:
    """Return host and port of an address, an IPv6 one without its brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


def nobody_at(address: str) -> str:
    """Return the line about an address at which nobody answers."""
    return f"nobody answers at {address}: is the coordinator running?"


class Knocking:
    """Asks whether an address can be reached, ever more rarely.

    Parameters
    ----------
    ask
        Says in one line why it cannot be, or None.
    clock
        In seconds.
    """

    def __init__(
        self,
        ask: Callable[[], str | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._clock = ask, clock
        self._pause, self._next = FIRST_PAUSE, clock()
        self._why: str | None = None

    def why(self) -> str | None:
        """Return what was found out last."""
        if self._clock() >= self._next:
            self._why = self._ask()
            self._next = self._clock() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return self._why


def unreachable(address: str, ca: Path | None) -> str | None:
    """Return in one line why the coordinator at `address` cannot be spoken to, if so.

    `ca` is what vouches for it, or None for plain text.
    """
    host, port = split_address(address)
    if not host or not port.isdigit():
        return f"{address!r} is no address: write it as HOST:PORT"
    try:
        code = _health(host, int(port), ca).status
    except _NoCertificate:
        return f"{ca} is no certificate: use the coordinator's ca.crt"
    except ssl.SSLError as error:
        return meaning(str(error)) or f"no TLS with {address}: {error}"
    except (http.client.HTTPException, ConnectionResetError):
        other = f"what answers at {address} is no coordinator, or speaks TLS only"
        return f"{other}: {GIVE_CA}"
    except OSError:
        return nobody_at(address)
    return None if code == 200 else f"what answers at {address} is no coordinator"


def clocks_apart(
    address: str, ca: Path | None, now: Callable[[], float] = time.time
) -> str | None:
    """Return in one line that a site's clock is too far from the coordinator's, if so.

    Every request of a site is signed with its time. The engine refuses times that have
    not come yet, or are long past, and says nothing to the site, which ends.
    """
    host, port = split_address(address)
    try:
        date = _health(host, int(port), ca).headers["Date"]
        ahead = now() - parsedate_to_datetime(date).timestamp()
    except (OSError, http.client.HTTPException, TypeError, ValueError):
        return None
    if -BEHIND < ahead < AHEAD:
        return None
    side = "ahead of" if ahead > 0 else "behind"
    return (
        f"this machine's clock is {abs(ahead):.0f} s {side} the coordinator's, so that "
        "it is not believed: set both (by NTP, say) and join again"
    )


class _NoCertificate(OSError):
    """A file is no certificate."""


def _health(host: str, port: int, ca: Path | None) -> http.client.HTTPResponse:
    """Return how a coordinator says that it is well; its headers are all read."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    if ca is not None:
        trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            trusted.load_verify_locations(ca)
        except OSError as error:  # of which ssl.SSLError is one
            raise _NoCertificate from error
        connection = http.client.HTTPSConnection(host, port, timeout=5, context=trusted)
    try:
        connection.request("GET", "/health")
        return connection.getresponse()
    finally:
        connection.close()
