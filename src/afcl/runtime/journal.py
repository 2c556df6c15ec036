# SPDX-License-Identifier: Apache-2.0
"""The checkpoint: every absorbed message, appended and synced before it is absorbed.

The methods are pure functions of their messages, so the messages *are* the state:
replaying them gives it back bit for bit. A record cut off by a crash is dropped; a
journal of another run is refused. Only its owner can read the file: it holds what
every site has said. See docs/decisions/0004-journal.md.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from afcl.exceptions import JournalError
from afcl.owner_only import owner_only

#: Contact number of the agreement on scales, before the hello (0).
AGREEMENT = -1
#: Stands where a contact would, in the entry of a client that left.
LEFT = -2
#: Stands where a client would, in the entry that holds the agreed terms.
COORDINATOR = -1

#: Stands before the run's identity since messages have format 4.
LAYOUT = "messages-4"

_FRAME = struct.Struct("<II")
_KEY = struct.Struct("<qqqqI")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one client sent at one contact, and what it remembered after it.

    `version` is that of the broadcast it answers, `tick` when it was absorbed.
    """

    client: int
    contact: int
    data: bytes
    memory: bytes = b""
    version: int = 0
    tick: int = 0


@dataclass(frozen=True, slots=True)
class Past:
    """A live run as its journal has it, from the agreement on.

    Attributes
    ----------
    terms
        The agreed terms, encoded.
    founders
        The clients that the agreement was made with.
    ticks
        What was absorbed, tick by tick.
    """

    terms: bytes
    founders: set[int]
    ticks: list[list[Entry]]


class Journal:
    """An append-only file of entries; the first frame names the run it belongs to.

    Attributes
    ----------
    entries
        The newest entry of every (client, contact).
    log
        All entries, in the order in which they were absorbed.
    """

    def __init__(self, path: Path | str, fingerprint: str) -> None:
        self.path = Path(path)
        self.entries: dict[tuple[int, int], Entry] = {}
        self.log: list[Entry] = []
        self._name = f"{LAYOUT} {fingerprint}".encode()
        self._older = fingerprint.encode()
        end = self._read() if self.path.exists() else 0
        self._file = open(self.path, "r+b" if end else "wb", opener=owner_only)
        self._file.truncate(end)
        self._file.seek(end)
        if not end:
            self._append(self._name)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> int:
        """Load the whole entries; return where the next one goes (0: start anew)."""
        data = self.path.read_bytes()
        at = 0
        first = True
        while at + _FRAME.size <= len(data):
            length, checksum = _FRAME.unpack_from(data, at)
            body = data[at + _FRAME.size : at + _FRAME.size + length]
            if not body or len(body) < length or zlib.crc32(body) != checksum:
                break  # an empty body: zeros that a crash left behind
            at += _FRAME.size + length
            if first:
                first = False
                self._check_name(body)
            else:
                self._keep(_unpack(body))
        return at

    def _check_name(self, name: bytes) -> None:
        """Refuse a journal of another run, or of messages that cannot be read."""
        if name == self._older:
            raise JournalError(
                f"{self.path} was written by an older version of afcl, whose messages "
                "this one cannot read: finish that run with the older version, or "
                "begin a new one in another folder (or with --force)"
            )
        if name != self._name:
            raise JournalError(f"{self.path} belongs to another run")

    def _keep(self, entry: Entry) -> None:
        self.entries[entry.client, entry.contact] = entry
        self.log.append(entry)

    def _append(self, body: bytes, sync: bool = True) -> None:
        self._file.write(_FRAME.pack(len(body), zlib.crc32(body)) + body)
        self._file.flush()
        if sync:
            self.sync()

    def sync(self) -> None:
        """Have everything on the disk before going on."""
        os.fsync(self._file.fileno())

    def record(self, entry: Entry, sync: bool = True) -> None:
        """Append an entry unless it is known already.

        Without `sync` it survives the death of this process, but that of the machine
        only after :meth:`sync`.
        """
        known = self.entries.get((entry.client, entry.contact))
        if known is not None and known.tick == entry.tick:
            return
        self._append(_pack(entry), sync)
        self._keep(entry)

    def past(self) -> Past | None:
        """Return how far a live run has come, None before its agreement."""
        keys = [(entry.client, entry.contact) for entry in self.log]
        if (COORDINATOR, AGREEMENT) not in keys:
            return None
        agreed = keys.index((COORDINATOR, AGREEMENT))
        absorbed = [e for e in self.log if e.contact >= 0 or e.contact == LEFT]
        last = max((entry.tick for entry in absorbed), default=0)
        ticks: list[list[Entry]] = [[] for _ in range(last + 1)]
        for entry in absorbed:
            ticks[entry.tick].append(entry)
        founders = {client for client, _ in keys[:agreed]}
        return Past(self.log[agreed].data, founders, ticks)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _pack(entry: Entry) -> bytes:
    where = (entry.client, entry.contact, entry.version, entry.tick)
    head = _KEY.pack(*where, len(entry.memory))
    return head + entry.memory + entry.data


def _unpack(body: bytes) -> Entry:
    client, contact, version, tick, length = _KEY.unpack_from(body)
    middle = _KEY.size + length
    memory = body[_KEY.size : middle]
    return Entry(client, contact, body[middle:], memory, version, tick)
