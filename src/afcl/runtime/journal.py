# SPDX-License-Identifier: Apache-2.0
"""The checkpoint: every absorbed message, appended and synced before it is absorbed.

The methods are pure functions of their messages, so the messages *are* the state:
replaying them gives it back bit for bit. A record cut off by a crash is dropped; one
that is damaged is named and left out, and the others are kept; a journal of another
run is refused. Only its owner can read the file: it holds what every site has said. See
docs/decisions/0004-journal.md and 0037-what-lies-on-disk.md.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType

from afcl.durable import replacing, sync_folder
from afcl.exceptions import JournalError
from afcl.owner_only import owner_only, put_aside
from afcl.runtime.frames import (
    Contents,
    first_frame,
    framed,
    is_beginning,
    name_of,
    read_frames,
)

#: Contact number of the agreement on scales, before the hello (0).
AGREEMENT = -1
#: Stands where a contact would, in the entry of a client that left.
LEFT = -2
#: Stands where a client would, in the entry that holds the agreed terms.
COORDINATOR = -1

#: Stands before the run's identity: the format of messages and of their frames.
LAYOUT = "messages-4 frames-2"
#: How earlier frames began.
_OLD_FRAME = struct.Struct("<II")
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
    damage
        What could not be read of the file, in one line; "": it was whole.
    """

    def __init__(self, path: Path | str, fingerprint: str) -> None:
        self.path = Path(path)
        self.entries: dict[tuple[int, int], Entry] = {}
        self.log: list[Entry] = []
        self.damage = ""
        self._name = f"{LAYOUT} {fingerprint}".encode()
        self._fingerprint = fingerprint
        contents = self._read() if self.path.exists() else None
        self._file = self._open("r+b" if contents else "wb")
        if contents is None:
            self._number, self._end = 0, 0
            self._mark, head = first_frame(self._name)
            self._write(head)
            self.sync()
            # The name of the file must last too: a power cut can lose either.
            sync_folder(self.path.parent)
        else:
            # Numbers go on behind the last one: a gap in them shows what was lost.
            self._number = max(frame.number for frame in contents.frames)
            self._mark, self._end = contents.mark, contents.end
            # The half of a frame that a crash left behind would hide what is appended
            # next.
            self._file.truncate(self._end)
            self._file.seek(self._end)

    def _open(self, mode: str) -> FileIO:
        # Without a buffer: nothing is written later than it was said to be.
        return open(self.path, mode, buffering=0, opener=owner_only)  # type: ignore[return-value]

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> Contents | None:
        """Load the whole entries; None: there is nothing yet, start anew."""
        data = self.path.read_bytes()
        contents = read_frames(data, self._name)
        if contents is None:
            self._check_owner(data)
            return None
        if contents.lost:
            contents = self._mended(data, contents)
        for frame in contents.frames:
            if frame.number:
                self._keep(_unpack(frame.record))
        return contents

    def _check_owner(self, data: bytes) -> None:
        """Refuse a file of which nothing can be read, unless there was nothing yet."""
        name = name_of(data) or _old_name(data)
        if not name and is_beginning(data, self._name):
            return
        if not name:
            raise JournalError(
                f"{self.path} is damaged, and no record of it can be read: put the "
                "file back from a copy, or begin a new run in another folder (or with "
                "--force)"
            )
        # Earlier versions had the identity alone, or another format before it.
        if name.decode(errors="replace").split(" ")[-1] == self._fingerprint:
            raise JournalError(
                f"{self.path} was written by an older version of afcl, whose messages "
                "this one cannot read: finish that run with the older version, or "
                "begin a new one in another folder (or with --force)"
            )
        raise JournalError(f"{self.path} belongs to another run")

    def _mended(self, data: bytes, contents: Contents) -> Contents:
        """Put a copy of the damaged file aside, and leave out what is damaged."""
        # Nothing is thrown away: somebody may read more of it than this does.
        aside = put_aside(self.path, data)
        head = framed(contents.mark, self._name, 0, self._name + contents.mark)
        frames = [
            framed(contents.mark, self._name, frame.number, frame.record)
            for frame in contents.frames
            if frame.number
        ]
        # Whole or not at all: a crash while mending must not damage it more.
        with replacing(self.path, "wb", opener=owner_only) as file:
            file.write(b"".join([head, *frames]))
        self.damage = (
            f"{self.path.name} was damaged: {_numbers(contents.lost)} could not be "
            "read; the others are kept, what is lost is asked for again; a copy of "
            f"the damaged file is {aside.name}"
        )
        mended = read_frames(self.path.read_bytes(), self._name)
        assert mended is not None
        return mended

    def _keep(self, entry: Entry) -> None:
        if self.log and entry == self.log[-1]:
            return  # what is written twice
        self.entries[entry.client, entry.contact] = entry
        self.log.append(entry)

    def _append(self, record: bytes) -> None:
        self._number += 1
        self._write(framed(self._mark, self._name, self._number, record))

    def _write(self, frame: bytes) -> None:
        """Append a frame; of one that does not fit on the disk nothing is left."""
        rest = memoryview(frame)
        try:
            # Without a buffer a write may take less than it was given.
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._file.truncate(self._end)
            self._file.seek(self._end)
            # An error of a file that is open does not name it, and people need its
            # place.
            error.filename = str(self.path)
            raise
        self._end += len(frame)

    def sync(self) -> None:
        """Have everything on the disk before going on."""
        os.fsync(self._file.fileno())

    def record(self, entry: Entry, sync: bool = True) -> None:
        """Append an entry unless it is known already.

        Without `sync` it survives the death of this process, but that of the machine
        only after :meth:`sync`.
        """
        # A run that is taken up absorbs its past again.
        known = self.entries.get((entry.client, entry.contact))
        if known is not None and known.tick == entry.tick:
            return
        # Nobody could be asked again for who was let in and what was agreed.
        for _ in range(2 if entry.contact == AGREEMENT else 1):
            self._append(_pack(entry))
        if sync:
            self.sync()
        self._keep(entry)

    def past(self) -> Past | None:
        """Return how far a live run has come, None before its agreement."""
        self._check_members()
        keys = [(entry.client, entry.contact) for entry in self.log]
        # Before the agreement nothing was asked that could not be asked again.
        if (COORDINATOR, AGREEMENT) not in keys:
            return None
        agreed = keys.index((COORDINATOR, AGREEMENT))
        # Who was let in is in the roster; only what changed the method's state is
        # replayed.
        absorbed = [e for e in self.log if e.contact >= 0 or e.contact == LEFT]
        last = max((entry.tick for entry in absorbed), default=0)
        ticks: list[list[Entry]] = [[] for _ in range(last + 1)]
        for entry in absorbed:
            # Empty ticks count as well: methods may give up after so many rounds.
            ticks[entry.tick].append(entry)
        founders = {client for client, _ in keys[:agreed]}
        return Past(self.log[agreed].data, founders, ticks)

    def _check_members(self) -> None:
        """Refuse a journal that has lost who was let in: nobody else knows."""
        let_in = {e.client for e in self.log if e.contact == AGREEMENT}
        speaking = {entry.client for entry in self.log} - {COORDINATOR}
        agreed = COORDINATOR in let_in or all(e.contact == AGREEMENT for e in self.log)
        if not agreed or speaking - let_in:
            raise JournalError(
                f"{self.path} has lost who was let in, or what was agreed: put the "
                "file back from a copy, or begin a new run in another folder"
            )

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


def _numbers(lost: list[tuple[int, int]]) -> str:
    """Say which records are lost.

    Examples
    --------
    >>> _numbers([(3, 3)])
    'record 3'
    >>> _numbers([(0, 0), (3, 5)])
    'records 0, 3 to 5'
    """
    texts = [f"{a}" if a == b else f"{a} to {b}" for a, b in lost]
    one = len(lost) == 1 and lost[0][0] == lost[0][1]
    return f"record{'' if one else 's'} {', '.join(texts)}"


def _old_name(data: bytes) -> bytes | None:
    """Return the run that a journal of an earlier layout names, None if it is none."""
    if len(data) < _OLD_FRAME.size:
        return None
    length, checksum = _OLD_FRAME.unpack_from(data)
    name = data[_OLD_FRAME.size : _OLD_FRAME.size + length]
    return name if len(name) == length and zlib.crc32(name) == checksum else None
