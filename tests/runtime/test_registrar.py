# SPDX-License-Identifier: Apache-2.0
"""What the engine is told of keys while a run is served; the engine is a list."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.keys import make_key

from afcl.exceptions import InputError
from afcl.privacy.identity import key_fingerprint
from afcl.runtime.live.door import addresses
from afcl.runtime.live.enrolment import ENROLLED, read_key
from afcl.runtime.live.federation import Federation
from afcl.runtime.live.registrar import AGAIN, LAST_WORD, STRANGERS, Registrar


class ListServer:
    """Notes what it is asked to do; knows a key once."""

    def __init__(self):
        self.known: list[str] = []
        self.put_out: list[int] = []
        self.broken = False
        self.knocked: list[str] = []

    def turned_away(self) -> list[str]:
        knocked, self.knocked = self.knocked, []
        return knocked

    def enrol(self, public_key: Path) -> int | None:
        if self.broken:
            raise InputError("the engine did not answer in 300 s")
        identity = read_key(public_key).identity
        if identity in self.known:
            return None
        self.known.append(identity)
        return 1000 + len(self.known)

    def revoke(self, address: int) -> None:
        if self.broken:
            raise InputError("the engine did not answer in 300 s")
        self.put_out.append(address)


class Desk:
    """A registrar, with its clock, its engine and what it said."""

    def __init__(self, folder: Path, server: ListServer | None = None):
        self.federation = Federation(folder / "fed")
        self.run = folder / "run"
        self.run.mkdir(exist_ok=True)
        self.server = server or ListServer()
        self.said: list[str] = []
        self.now = 0.0
        self.keys = folder / "keys"
        self.registrar = Registrar(
            self.federation, self.run, self.server, self.said.append, lambda: self.now
        )

    def key(self, name: str, folder: str = "first"):
        return read_key(Path(f"{make_key(self.keys / folder, name)}.pub"))

    def looks(self, after: float = 0.0) -> list[str]:
        """Return what is said at one look."""
        self.now += after
        self.said.clear()
        self.registrar.look()
        return list(self.said)


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def test_new_keys_are_registered_once(desk):
    assert desk.looks() == []
    desk.federation.enrol([desk.key("a"), desk.key("b")])
    assert desk.looks() == ["enrolled a", "enrolled b"]
    assert desk.looks() == []
    assert len(desk.server.known) == 2
    assert sorted(addresses(desk.run).values()) == [1001, 1002]


def test_a_damaged_file_is_named_once_and_hinders_nobody(desk):
    desk.federation.enrol([desk.key("a"), desk.key("b")])
    path = desk.federation.folder / ENROLLED / "a.pub"
    whole = path.read_text()
    path.write_text(whole[:70])
    assert desk.looks() == [
        f"skipped {path}: cut off or damaged; enrol the site's .pub file anew",
        "enrolled b",
    ]
    assert desk.looks() == []
    path.write_text(whole)
    assert desk.looks() == ["enrolled a"]


def test_a_new_key_is_registered_and_the_old_one_goes(desk):
    old, new = desk.key("a"), desk.key("a", "second")
    desk.federation.enrol([old])
    desk.looks()
    desk.federation.enrol([new], replacing=True)
    assert desk.looks() == [
        "enrolled a",
        "revoked a: let in no more; what it said stays",
    ]
    assert desk.server.known == [old.identity, new.identity]
    assert desk.server.put_out == []  # it can hear why
    assert desk.looks(after=LAST_WORD) == []
    assert desk.server.put_out == [1001]
    assert addresses(desk.run) == {new.identity: 1002}
    desk.looks(after=LAST_WORD)
    assert desk.server.put_out == [1001]


def test_a_key_that_was_revoked_while_nothing_ran_goes_at_once(desk, tmp_path):
    desk.federation.enrol([desk.key("a"), desk.key("b")])
    desk.looks()
    desk.federation.revoke("b")
    later = Desk(tmp_path, desk.server)
    assert later.looks() == [
        "enrolled a",
        "revoked b: let in no more; what it said stays",
    ]
    assert later.server.put_out == [1002]
    # In the next run, whose engine has never heard of it, nothing is said of it.
    (tmp_path / "run").rename(tmp_path / "old run")
    assert Desk(tmp_path).looks() == ["enrolled a"]


def test_an_engine_in_trouble_is_asked_again(desk):
    desk.federation.enrol([desk.key("a")])
    desk.server.broken = True
    trouble = "the engine did not answer in 300 s"
    assert desk.looks() == [f"a is not enrolled yet: {trouble}"]
    assert desk.looks(after=AGAIN / 2) == []
    desk.server.broken = False
    assert desk.looks(after=AGAIN / 2) == ["enrolled a"]
    desk.federation.revoke("a")
    desk.looks()
    desk.server.broken = True
    assert desk.looks(after=LAST_WORD) == [f"the engine still knows a: {trouble}"]
    desk.server.broken = False
    assert desk.looks(after=AGAIN) == []
    assert desk.server.put_out == [1001]


def test_an_engine_that_tells_no_address_loses_nothing(desk, tmp_path):
    """A restart registers again, which tells none: the first one is remembered."""
    desk.federation.enrol([desk.key("a")])
    desk.looks()
    later = Desk(tmp_path, desk.server)
    assert later.looks() == ["enrolled a"]
    assert list(addresses(desk.run).values()) == [1001]


def test_who_knocks_in_vain_is_named_once(desk):
    a, b, stranger = desk.key("a"), desk.key("b"), desk.key("stranger")
    desk.federation.enrol([a, b])
    desk.federation.let_in("run", "north", b.identity, 0)
    desk.looks()
    desk.federation.revoke("b")
    desk.looks()
    for _ in range(3):
        desk.server.knocked += [key.identity for key in (a, b, stranger)]
    mark = key_fingerprint(stranger.identity)
    assert desk.looks() == [
        "refused a: it is connected already, or was just now",
        "refused north: its key was revoked",
        f"refused a key that is not enrolled here: {mark}",
    ]
    desk.server.knocked = [stranger.identity]
    assert desk.looks() == []


def test_a_flood_of_strangers_is_not_told_in_full(desk):
    desk.server.knocked = [f"{number:04}" for number in range(2 * STRANGERS)]
    assert len(desk.looks()) == STRANGERS
