# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import struct
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afcl.exceptions import JournalError
from afcl.runtime.frames import first_frame, framed
from afcl.runtime.journal import AGREEMENT, COORDINATOR, Entry, Journal

ENTRIES = [
    Entry(0, 0, b"hello of the first"),
    Entry(1, 0, b"hello of the second", b""),
    Entry(0, 1, b"an answer", b"what it remembers"),
    Entry(1, 1, b"", b"nothing said, something remembered"),
    Entry(2**40, 2**33, bytes(range(48)), bytes(20)),
]


def by_key(entries):
    return {(entry.client, entry.contact): entry for entry in entries}


def reload(path, fingerprint="run"):
    with Journal(path, fingerprint) as journal:
        return journal.entries


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.bin"


@pytest.fixture
def written(path, monkeypatch):
    """A journal of all entries; where each of its frames ends."""
    monkeypatch.setattr("os.fsync", lambda number: None)  # to be quick
    ends = []
    with Journal(path, "run") as journal:
        ends.append(path.stat().st_size)
        for entry in ENTRIES:
            journal.record(entry)
            ends.append(path.stat().st_size)
    return ends


def test_a_new_journal_is_empty_and_names_its_run(path):
    with Journal(str(path), "run") as journal:
        assert journal.entries == {}
        assert b"run" in path.read_bytes()


def test_entries_come_back_with_their_memory(path, written):
    assert reload(path) == by_key(ENTRIES)


def test_an_entry_is_on_disk_when_record_returns(path):
    with Journal(path, "run") as journal:
        for number, entry in enumerate(ENTRIES, start=1):
            journal.record(entry)
            assert reload(path) == by_key(ENTRIES[:number])


def test_every_record_is_synced(path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    with Journal(path, "run") as journal:
        journal.record(ENTRIES[0])
        journal.record(ENTRIES[1])

    assert len(synced) == 4  # that of the folder too, once


def test_appending_goes_on_after_reloading(path):
    for entry in ENTRIES:
        with Journal(path, "run") as journal:
            journal.record(entry)

    assert reload(path) == by_key(ENTRIES)


def test_a_known_entry_is_not_written_again(path, written):
    whole = path.read_bytes()
    with Journal(path, "run") as journal:
        journal.record(ENTRIES[0])
        journal.record(Entry(0, 0, b"another hello"))
        assert journal.entries[0, 0] == ENTRIES[0]

    assert path.read_bytes() == whole
    assert reload(path) == by_key(ENTRIES)


def test_closing_happens_on_errors_too(path):
    with pytest.raises(RuntimeError), Journal(path, "run") as journal:
        raise RuntimeError

    with pytest.raises(ValueError, match="closed file"):
        journal.record(ENTRIES[0])


# ------------------------------------------------------------------ crashes


def test_a_last_record_cut_at_any_byte_is_dropped(path, written):
    whole = path.read_bytes()
    for end in range(written[-2], written[-1]):
        path.write_bytes(whole[:end])
        with Journal(path, "run") as journal:
            assert journal.entries == by_key(ENTRIES[:-1])
            assert path.stat().st_size == written[-2]
            journal.record(ENTRIES[-1])
        assert path.read_bytes() == whole


def test_a_journal_cut_in_its_first_frame_starts_anew(path, written):
    whole = path.read_bytes()
    for end in range(written[0]):
        path.write_bytes(whole[:end])
        with Journal(path, "run") as journal:
            assert journal.entries == {}
            for entry in ENTRIES:
                journal.record(entry)
        assert reload(path) == by_key(ENTRIES)


@pytest.mark.parametrize("zeros", [1, 8, 20, 28, 4096])
def test_zeros_that_a_crash_left_behind_are_dropped(path, written, zeros):
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(zeros))

    assert reload(path) == by_key(ENTRIES)
    assert path.read_bytes() == whole

    path.write_bytes(bytes(zeros))
    assert reload(path) == {}


# ------------------------------------------------------------------ damage


def damaged(whole, at, bit):
    copy = bytearray(whole)
    copy[at] ^= 1 << bit
    return bytes(copy)


@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_costs_its_record_and_no_other(path, written, bit):
    """Wherever it is: the head, a mark, a length, a checksum, a message."""
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(damaged(whole, at, bit))
        hit = sum(at >= end for end in written)  # the number of the record

        with Journal(path, "run") as journal:
            kept = [entry for i, entry in enumerate(ENTRIES, start=1) if i != hit]
            assert journal.log == kept
            assert f"record {hit} could not be read" in journal.damage
            assert "\n" not in journal.damage
            for entry in ENTRIES:
                journal.record(entry)

        aside = path.with_name("journal.damaged-1")
        assert aside.read_bytes() == damaged(whole, at, bit)
        assert aside.stat().st_mode & 0o077 == 0
        assert reload(path) == by_key(ENTRIES)
        with Journal(path, "run") as journal:
            assert journal.damage == ""
        aside.unlink()


def test_several_damaged_records_are_named_and_copies_numbered(path, written):
    whole = path.read_bytes()
    spoilt = damaged(damaged(damaged(whole, 3, 1), written[1], 1), written[2], 1)
    for copy in (1, 2):
        path.write_bytes(spoilt)
        with Journal(path, "run") as journal:
            assert "records 0, 2 to 3 could not be read" in journal.damage
            assert f"journal.damaged-{copy}" in journal.damage
            assert journal.log == [ENTRIES[0], *ENTRIES[3:]]


@given(data=st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_bytes_overwritten_anywhere_hide_only_the_records_they_hit(data, tmp_path):
    path = tmp_path / "journal.bin"
    path.unlink(missing_ok=True)
    ends = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda number: None)
        with Journal(path, "run") as journal:
            ends.append(path.stat().st_size)
            for entry in ENTRIES:
                journal.record(entry)
                ends.append(path.stat().st_size)
        start = data.draw(st.integers(ends[0], ends[-1] - 1))
        junk = data.draw(st.binary(min_size=1, max_size=200))
        content = bytearray(path.read_bytes())
        end = min(start + len(junk), len(content))
        content[start:end] = junk[: end - start]
        same = bytes(content) == path.read_bytes()
        path.write_bytes(content)
        with Journal(path, "run") as journal:
            found = journal.log
    hit = {
        i
        for i in range(1, len(ends))
        if not same and start < ends[i] and end > ends[i - 1]
    }
    missing = {i for i, entry in enumerate(ENTRIES, start=1) if entry not in found}
    assert missing <= hit
    assert [entry for entry in ENTRIES if entry in found] == found


def test_a_message_cannot_pass_for_a_record(path, written, monkeypatch):
    """Somebody puts a frame into a message, and has that message's own frame spoilt."""
    monkeypatch.setattr("secrets.token_bytes", lambda n: b"m" * n)
    mark, _ = first_frame(b"run")
    forged = framed(b"?" * len(mark), b"messages-4 frames-2 run", 9, b"x" * 60)
    monkeypatch.undo()
    with Journal(path, "run") as journal:
        journal.record(Entry(7, 0, forged * 3))
        journal.record(Entry(7, 1, b"after"))
    whole = path.read_bytes()
    path.write_bytes(damaged(whole, written[-1] + 9, 0))
    with Journal(path, "run") as journal:
        assert journal.log == [*ENTRIES, Entry(7, 1, b"after")]


def test_a_file_of_which_nothing_can_be_read_is_refused_and_left_alone(path, written):
    path.write_bytes(b"something else entirely, and quite long: no journal at all" * 3)
    whole = path.read_bytes()
    with pytest.raises(JournalError, match="no record of it can be read"):
        Journal(path, "run")
    assert path.read_bytes() == whole


def test_who_was_let_in_is_written_twice(path, monkeypatch):
    """Nobody could be asked for it again."""
    monkeypatch.setattr("os.fsync", lambda number: None)  # to be quick
    agreed = [Entry(0, AGREEMENT, b"a"), Entry(COORDINATOR, AGREEMENT, b"terms")]
    ends = []
    with Journal(path, "run") as journal:
        ends.append(path.stat().st_size)
        for entry in agreed:
            journal.record(entry)
            ends.append(path.stat().st_size)
    whole = path.read_bytes()
    for at in range(ends[0], ends[-1]):
        path.write_bytes(damaged(whole, at, 3))
        with Journal(path, "run") as journal:
            assert journal.log == agreed
            assert journal.past() is not None


@pytest.mark.parametrize(
    "log",
    [
        [Entry(0, AGREEMENT, b"a"), Entry(0, 0, b"hello")],
        [Entry(COORDINATOR, AGREEMENT, b"terms"), Entry(0, 0, b"hello")],
    ],
)
def test_a_journal_that_has_lost_both_is_refused(path, log):
    with Journal(path, "run") as journal:
        for entry in log:
            journal.record(entry)
        with pytest.raises(JournalError, match="has lost who was let in"):
            journal.past()


def test_numbers_of_sites_that_were_forgotten_are_missing(path):
    with Journal(path, "run") as journal:
        journal.record(Entry(1, AGREEMENT, b"b"))
        journal.record(Entry(COORDINATOR, AGREEMENT, b"terms"))
        assert journal.past() is not None


def test_a_record_that_does_not_fit_leaves_nothing(path, written, monkeypatch):
    whole = path.read_bytes()
    journal = Journal(path, "run")
    real = journal._file

    class Full:
        """Takes eight bytes, then no more."""

        def __init__(self):
            self.left = 8

        def write(self, data):
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.left, few = 0, self.left
            return real.write(data[:few])

        def __getattr__(self, name):
            return getattr(real, name)

    monkeypatch.setattr(journal, "_file", Full())
    with journal, pytest.raises(OSError, match=r"No space .*journal\.bin"):
        journal.record(Entry(5, 5, b"x" * 100))
    assert path.read_bytes() == whole
    assert reload(path) == by_key(ENTRIES)


# ------------------------------------------------------------------ other runs


@pytest.mark.parametrize("other", ["", "ru", "runs", "RUN", "läuft"])
def test_a_journal_of_another_run_is_refused_and_left_alone(path, written, other):
    whole = path.read_bytes()

    with pytest.raises(JournalError, match=r"journal\.bin belongs to another run"):
        Journal(path, other)

    assert path.read_bytes() == whole


def test_a_fingerprint_may_hold_any_text(path):
    with Journal(path, "läuft") as journal:
        journal.record(ENTRIES[0])

    assert reload(path, "läuft") == by_key(ENTRIES[:1])


def test_entries_may_share_one_sync(path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    with Journal(path, "run") as journal:
        for entry in ENTRIES:
            journal.record(entry, sync=False)
        assert len(synced) == 2  # that of the head and of the folder
        assert reload(path) == by_key(ENTRIES)  # another process sees them already
        journal.sync()
        assert len(synced) == 3


@pytest.mark.parametrize("name", [b"run", b"messages-4 run"])
def test_a_journal_of_an_older_version_is_refused_and_left_alone(path, name):
    """Its frames were a length, a checksum and the record, nothing to find them by."""
    frame = struct.pack("<II", len(name), zlib.crc32(name)) + name
    path.write_bytes(frame + b"records" * 20)
    with pytest.raises(JournalError, match="older version of afcl"):
        Journal(path, "run")
    with pytest.raises(JournalError, match="belongs to another run"):
        Journal(path, "other")
    assert path.read_bytes() == frame + b"records" * 20
