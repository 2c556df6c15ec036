# SPDX-License-Identifier: Apache-2.0
"""Records in a file that grows, so that one that is damaged does not hide the others.

A file is a row of frames: a mark, the record's number, its length, two checksums, the
record. The mark is drawn once a file. Where a frame cannot be read the next one is
looked for by its mark; since nobody who sends messages knows it, nothing within a
message can be taken for a frame. All checksums start from the name of the file's
owner, so frames of another one are never taken for its own, even if the first frame,
which holds that name, is the damaged one.
"""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

#: Mark, number, length, checksum of the record; the checksum of these comes after.
_HEAD = struct.Struct("<8sIII")
_CHECKSUM = struct.Struct("<I")
_MARK = 8
_BEFORE = _HEAD.size + _CHECKSUM.size


class Frame(NamedTuple):
    """A record, its number (0: the name of the owner), and where its frame ends."""

    number: int
    record: bytes
    end: int


@dataclass(frozen=True)
class Contents:
    """What could be read of a file.

    Attributes
    ----------
    mark
        Stands before every frame.
    frames
        Those that are whole, in order.
    lost
        The first and the last number of every stretch that could not be read.
    end
        Where the next frame goes. Less than the file is long if its last frame was
        never written to its end, as after a crash: that is no damage.
    """

    mark: bytes
    frames: list[Frame]
    lost: list[tuple[int, int]]
    end: int


def first_frame(name: bytes) -> tuple[bytes, bytes]:
    """Return a new mark, and the frame that a file of this owner begins with."""
    # Random, so that no record, whoever wrote it, can hold the mark of a frame.
    mark = secrets.token_bytes(_MARK)
    return mark, framed(mark, name, 0, name + mark)


def framed(mark: bytes, name: bytes, number: int, record: bytes) -> bytes:
    """Return a record as a frame."""
    # The owner is in every checksum: a frame of another run's journal is no frame here.
    seed = zlib.crc32(name)
    head = _HEAD.pack(mark, number, len(record), zlib.crc32(record, seed))
    # The head has a checksum of its own: a wrong length would swallow all that follows.
    return head + _CHECKSUM.pack(zlib.crc32(head, seed)) + record


def read_frames(data: bytes, name: bytes) -> Contents | None:
    """Return what can be read of a file of this owner; None: nothing at all."""
    mark = _mark_of(data, name)
    if mark is None:
        return None
    frames: list[Frame] = []
    lost: list[tuple[int, int]] = []
    end, known = 0, -1
    while end < len(data):
        frame = _frame_at(data, end, mark, name)
        if frame is None:
            # One damaged record must not cost those behind it.
            frame = next(_frames_after(data, end, mark, name), None)
            if frame is None:
                # A last frame that was never written to its end was never said to be
                # kept.
                if not _is_cut_off(data[end:], mark, name):
                    lost.append((known + 1, known + 1))
                break
            lost.append((known + 1, max(known + 1, frame.number - 1)))
        frames.append(frame)
        end, known = frame.end, frame.number
    return Contents(mark, frames, lost, end)


def is_beginning(data: bytes, name: bytes) -> bool:
    """Whether a file may be one whose first frame was never written to its end."""
    whole = len(first_frame(name)[1])
    return len(data) < whole or not any(data)


def name_of(data: bytes) -> bytes | None:
    """Return the owner that an undamaged first frame names, None if it is damaged."""
    if len(data) < _BEFORE:
        return None
    mark, number, length, _ = _HEAD.unpack_from(data)
    name = data[_BEFORE : _BEFORE + length][:-_MARK]
    frame = _frame_at(data, 0, mark, name)
    return name if frame is not None and number == 0 else None


def _mark_of(data: bytes, name: bytes) -> bytes | None:
    """Return the mark of a file, from wherever it is undamaged.

    It stands in the first frame twice: before it and at its end.
    """
    last = _BEFORE + len(name)
    for mark in (data[:_MARK], data[last : last + _MARK]):
        whole = len(mark) == _MARK and any(mark)
        if whole and _frame_at(data, 0, mark, name):
            return mark
        # The first frame may be the damaged one: any other proves the mark.
        if whole and next(_frames_after(data, 0, mark, name), None):
            return mark
    return None


def _frame_at(data: bytes, at: int, mark: bytes, name: bytes) -> Frame | None:
    """Return the frame that begins at a place, None if there is no whole one."""
    length = _length_at(data, at, mark, name)
    if length is None:
        return None
    _, number, _, checksum = _HEAD.unpack_from(data, at)
    start, end = at + _BEFORE, at + _BEFORE + length
    record = data[start:end]
    if len(record) < length or zlib.crc32(record, zlib.crc32(name)) != checksum:
        return None
    return Frame(number, record, end)


def _length_at(data: bytes, at: int, mark: bytes, name: bytes) -> int | None:
    """Return how long the record of a frame is, if what stands before it is whole."""
    head = data[at : at + _HEAD.size]
    after = data[at + _HEAD.size : at + _BEFORE]
    if len(after) < _CHECKSUM.size or not head.startswith(mark):
        return None
    if zlib.crc32(head, zlib.crc32(name)) != _CHECKSUM.unpack(after)[0]:
        return None
    return int(_HEAD.unpack(head)[2])


def _frames_after(data: bytes, at: int, mark: bytes, name: bytes) -> Iterator[Frame]:
    """Yield the whole frames that begin behind a place."""
    while (at := data.find(mark, at + 1)) >= 0:
        frame = _frame_at(data, at, mark, name)
        if frame is not None:
            yield frame


def _is_cut_off(rest: bytes, mark: bytes, name: bytes) -> bool:
    """Whether a crash may have left this of a frame: its beginning, or zeros."""
    if len(rest) < _BEFORE or not any(rest):
        return True
    length = _length_at(rest, 0, mark, name)
    return length is not None and len(rest) < _BEFORE + length
