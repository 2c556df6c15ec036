# SPDX-License-Identifier: Apache-2.0
"""Addresses as people type and read them."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from afcl.exceptions import InputError

#: Where a coordinator listens unless it is told otherwise.
PORT = 8000
#: What a server listens on that is to be reached by every address of its machine.
EVERYWHERE = ("0.0.0.0", "::", "")


def with_port(address: str) -> str:
    """Return a coordinator's address with its port, or say how to write it.

    Examples
    --------
    >>> with_port("coordinator.example.org")
    'coordinator.example.org:8000'
    >>> with_port("[2001:db8::1]:9000")
    '[2001:db8::1]:9000'
    """
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(PORT)
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else ""
    is_host = bool(bare) or (bool(host) and not set(host) & set(":/[] "))
    if not (is_host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InputError(
            f"{address!r} is no address: write it as HOST or HOST:PORT, an IPv6 one in "
            "brackets"
        )
    return f"{host}:{port}"


def shown(host: str, port: int, names: Sequence[str]) -> str:
    """Return the address that sites are told to join at.

    A name that was given for that; else the address that is listened on, unless that
    means all addresses of this machine: then its name.
    """
    if names:
        host = names[0]
    elif host in EVERYWHERE:
        host = socket.getfqdn()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
