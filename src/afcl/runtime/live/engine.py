# SPDX-License-Identifier: Apache-2.0
"""What carries the messages of a live run: the protocols that an engine implements.

A new engine implements three, in one module with one line in
:mod:`~afcl.runtime.live.engines`:

* :class:`Engine`, what the server of a run needs of a network: who is reachable, send,
  see what came back. :class:`~afcl.runtime.live.admission.Admission` makes of it the
  :class:`~afcl.runtime.transport.Transport` that the coordinator knows, so an engine
  has nothing to do with clients' numbers, names, agreement or rounds.
* :class:`Launcher` and the :class:`Server` and :class:`Node` it starts, what ``afcl
  serve`` and ``afcl join`` need. The server's process must call
  :func:`~afcl.runtime.live.server.serve_run` with an :class:`Engine`, a site's must
  answer every request with :func:`~afcl.runtime.live.member.answer`.

It must pass ``tests/runtime/test_transports.py`` (add it to the `transport` fixture)
and ``tests/runtime/test_engines.py``. How: docs/how-to/add-an-engine.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from afcl.exceptions import InputError

if TYPE_CHECKING:  # either end of an engine loads nothing more than it must
    from afcl.runtime.transport import Failure, Reply, Ticket


class EngineSilent(InputError):
    """The engine does not answer; it may be busy, so it is worth to ask it again."""


class Engine(Protocol):
    """What the server needs of a network: who is reachable, send, what came back.

    `client` of its replies and failures is an address. A request that is not answered
    in time is sent again, with another ticket; whichever answer comes first counts. A
    :class:`~afcl.runtime.transport.Failure` that is the engine's, not the site's, is
    `lost`.
    """

    def nodes(self) -> Sequence[int]:
        """Return the addresses that can be reached now."""
        ...

    def send(self, address: int, data: bytes) -> Ticket:
        """Send a request; tickets differ."""
        ...

    def poll(self) -> list[Reply | Failure]:
        """Return what has come back since the last time."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


@dataclass(frozen=True)
class Tls:
    """Where the coordinator's certificates are; a site needs only `ca`."""

    ca: Path
    cert: Path
    key: Path


class Running(Protocol):
    """One side of an engine, started: at the coordinator or at a site.

    A context manager that ends everything it started, whatever happens.
    """

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        ...

    @property
    def log(self) -> Path:
        """Where its output is."""
        ...

    def trouble(self) -> str | None:
        """Return in one line why it cannot go on, None while all is well."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class Server(Running, Protocol):
    """The coordinator's side."""

    def enrol(self, public_key: Path) -> int | None:
        """Let the owner of a key join; once more does no harm.

        Return the address it will have, None if that is not known (any more). Raises
        :class:`EngineSilent`, as `trouble` does, if the engine does not answer.
        """
        ...

    def revoke(self, address: int) -> None:
        """Let whoever has this address join no more; once more does no harm."""
        ...

    def turned_away(self) -> list[str]:
        """Return the keys that the engine has not let in since the last call."""
        ...

    def begin(self) -> None:
        """Have the run in the folder served, here or in a process of its own."""
        ...


class Node(Running, Protocol):
    """A site's side."""

    def absent(self) -> str | None:
        """Return in one line that the coordinator is not there yet, None if it is.

        That is no trouble: the node tries again by itself.
        """
        ...

    @property
    def busy(self) -> bool:
        """Whether an answer that was made is still to be handed over."""
        ...


class Launcher(Protocol):
    """Starts either side of an engine."""

    def keygen(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Make a site's key pair; return the private and the public file."""
        ...

    def certificates(
        self, folder: Path, hosts: Sequence[str], say: Callable[[str], None]
    ) -> Tls:
        """Return the coordinator's certificates, made or renewed now if need be.

        `say` is told in a line each what was renewed, and what ends soon.
        """
        ...

    def renew(
        self, folder: Path, hosts: Sequence[str], say: Callable[[str], None]
    ) -> None:
        """Make a new certificate of the coordinator's, for more hosts if given."""
        ...

    def describe_certificates(self, folder: Path) -> list[str]:
        """Return what the certificates in a folder are good for, a line each."""
        ...

    def ending_soon(self, address: str, ca: Path) -> list[str]:
        """Return which certificates a site relies on end soon, a line each."""
        ...

    def serve(self, folder: Path, host: str, port: int, tls: Tls | None) -> Server:
        """Listen on an address for the run in `folder`; None: without TLS."""
        ...

    def forget_messages(self, folder: Path) -> None:
        """Delete what the engine has kept of messages in a run's folder.

        Nobody serves the run; it can be gone on with afterwards.
        """
        ...

    def join(
        self, folder: Path, address: str, ca: Path | None, key: Path | None, port: int
    ) -> Node:
        """Join the coordinator at an address as the site in `folder`.

        `port` is for the engine's own use on this machine; 0: a free one.
        """
        ...
