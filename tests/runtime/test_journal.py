# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from afcl.exceptions import JournalError
from afcl.runtime.journal import Entry, Journal

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

    assert len(synced) == 3


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
        assert path.read_bytes() == whole


@pytest.mark.parametrize("zeros", [1, 8, 20, 28, 4096])
def test_zeros_that_a_crash_left_behind_are_dropped(path, written, zeros):
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(zeros))

    assert reload(path) == by_key(ENTRIES)
    assert path.read_bytes() == whole

    path.write_bytes(bytes(zeros))
    assert reload(path) == {}


@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_drops_its_record_and_what_follows(path, written, bit):
    whole = path.read_bytes()
    for at in range(written[1], written[3]):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << bit
        path.write_bytes(damaged)
        kept = 1 if at < written[2] else 2

        with Journal(path, "run") as journal:
            assert journal.entries == by_key(ENTRIES[:kept])
            for entry in ENTRIES:
                journal.record(entry)

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
        assert len(synced) == 1  # that of the head
        assert reload(path) == by_key(ENTRIES)  # another process sees them already
        journal.sync()
        assert len(synced) == 2
