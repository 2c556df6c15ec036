# SPDX-License-Identifier: Apache-2.0
"""A federation's folder: whose a name is, for good, and which keys were revoked."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.keys import make_key

from afcl.exceptions import InputError
from afcl.privacy.identity import identity_of, key_fingerprint, private_key
from afcl.runtime.live.enrolment import ENROLLED, EnrolledKey, read_key
from afcl.runtime.live.federation import FEDERATION, Federation

# ------------------------------------------------------------------ helpers


def key_of(folder: Path, name: str, enrolled_as: str = "") -> EnrolledKey:
    """Make a key; return its public half, under the name it shall be enrolled as."""
    read = read_key(Path(f"{make_key(folder, name)}.pub"))
    return EnrolledKey(enrolled_as or read.name, read.identity, read.path)


@pytest.fixture
def keys(tmp_path):
    return [key_of(tmp_path / "keys", f"site-{letter}") for letter in "abc"]


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path / "fed")


def owner(federation, name):
    found = federation.owner(name)
    assert found is not None
    return found


def joining(federation):
    return {key.name: key.identity for key in federation.enrolment().keys}


# ------------------------------------------------------------------ enrolment


def test_keys_are_enrolled_under_the_names_of_their_files(federation, keys):
    federation.enrol(keys)
    assert joining(federation) == {key.name: key.identity for key in keys}
    assert federation.enrolment().skipped == {}
    for member, key in zip(federation.members(), keys, strict=True):
        assert (member.name, member.identity) == (key.name, key.identity)
        assert member.fingerprint == key_fingerprint(key.identity)
        assert (member.called, member.clients, member.revoked) == ("", {}, "")
    path = federation.folder / FEDERATION
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_fingerprint_is_the_one_that_ssh_prints():
    """Worked out by hand: printf '' | sha256sum, in base 64 without padding."""
    assert key_fingerprint("") == "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"


def test_the_same_key_once_more_does_no_harm(federation, keys):
    federation.enrol(keys)
    before = (federation.folder / FEDERATION).read_text()
    federation.enrol(keys[1:2])
    assert (federation.folder / FEDERATION).read_text() == before


def test_another_key_needs_to_be_told_to_replace(federation, keys, tmp_path):
    federation.enrol(keys)
    new = key_of(tmp_path / "new", "site-b")
    line = "the name site-b belongs to the key SHA256:.*, then type --replace"
    with pytest.raises(InputError, match=line):
        federation.enrol([new])
    assert joining(federation)["site-b"] == keys[1].identity
    federation.enrol([new], replacing=True)
    assert joining(federation)["site-b"] == new.identity
    assert owner(federation, "site-b").identity == new.identity
    assert federation.of_key(keys[1].identity).revoked
    assert Federation(federation.folder).members() == federation.members()


def test_all_keys_are_enrolled_or_none(federation, keys, tmp_path):
    federation.enrol(keys[:1])
    with pytest.raises(InputError, match="the name site-a belongs"):
        federation.enrol([keys[1], key_of(tmp_path / "new", "site-a")])
    assert list(joining(federation)) == ["site-a"]


def test_one_key_has_one_name(federation, keys):
    federation.enrol(keys)
    double = EnrolledKey("site-d", keys[0].identity, keys[0].path)
    with pytest.raises(InputError, match="the key for site-d belongs to site-a"):
        federation.enrol([double])


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "../a", "a\nb", "x" * 201])
def test_a_name_must_do_as_one(federation, keys, name):
    with pytest.raises(InputError, match="a site"):
        federation.enrol([EnrolledKey(name, keys[0].identity, keys[0].path)])
    assert not (federation.folder / ENROLLED).exists()


# ------------------------------------------------------------------ damaged files


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no public key"),
        (b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA a\n", "no public key"),
        (b"ecdsa-sha2-nistp384\n", "cut off or damaged"),
        (b"ecdsa-sha2-nistp384 nonsense a\n", "cut off or damaged"),
        (b"\xff\xfe", "no public key"),
    ],
)
def test_a_damaged_file_is_skipped_by_name(federation, keys, content, why):
    federation.enrol(keys[:1])
    path = federation.folder / ENROLLED / "bad.pub"
    path.write_bytes(content)
    assert list(joining(federation)) == ["site-a"]
    assert why in federation.enrolment().skipped[path]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_key_that_is_cut_off_anywhere_is_none(keys, data):
    """Unless nothing but the comment is lost."""
    whole = keys[0].path.read_text()
    kind, identity, _ = whole.split()
    cut = data.draw(st.integers(0, len(f"{kind} {identity}") - 1))
    short = keys[0].path.with_name("short.pub")
    short.write_text(whole[:cut])
    with pytest.raises(ValueError, match=r"no public key|cut off or damaged"):
        read_key(short)
    short.write_text(f"{kind} {identity}")
    assert read_key(short).identity == keys[0].identity


def test_files_put_there_by_hand_are_bound_too(federation, keys):
    folder = federation.folder / ENROLLED
    folder.mkdir(parents=True)
    (folder / "site-a.pub").write_bytes(keys[0].path.read_bytes())
    assert federation.members() == ()
    assert [key.name for key in federation.bind().keys] == ["site-a"]
    assert owner(federation, "site-a").identity == keys[0].identity
    # Another key in the same file is not let in: its name is taken.
    (folder / "site-a.pub").write_bytes(keys[1].path.read_bytes())
    (why,) = federation.bind().skipped.values()
    assert why == "the name site-a belongs to another key"
    # Nor is the first one under another name.
    (folder / "site-z.pub").write_bytes(keys[0].path.read_bytes())
    assert federation.bind().skipped[folder / "site-z.pub"] == (
        "this key belongs to site-a"
    )


def test_the_same_key_in_two_new_files_counts_once(federation, keys):
    folder = federation.folder / ENROLLED
    folder.mkdir(parents=True)
    for name in ("one", "two"):
        (folder / f"{name}.pub").write_bytes(keys[0].path.read_bytes())
    found = federation.bind()
    assert [key.name for key in found.keys] == ["one"]
    assert found.skipped[folder / "two.pub"] in (
        "the same key as one",
        "this key belongs to one",
    )


# ------------------------------------------------------------------ revocation


def test_a_revoked_key_is_gone_for_good(federation, keys, tmp_path):
    federation.enrol(keys)
    gone = federation.revoke("site-b")
    assert gone.identity == keys[1].identity
    assert gone.revoked
    assert sorted(joining(federation)) == ["site-a", "site-c"]
    assert not (federation.folder / ENROLLED / "site-b.pub").exists()
    for replacing in (False, True):
        with pytest.raises(InputError, match="the key of site-b was revoked: have"):
            federation.enrol([keys[1]], replacing)
    # Put back by hand it is left aside.
    path = federation.folder / ENROLLED / "site-b.pub"
    path.write_bytes(keys[1].path.read_bytes())
    assert federation.enrolment().skipped == {path: "this key was revoked"}
    # Nor does the name go over to another by itself.
    new = key_of(tmp_path / "new", "site-b")
    with pytest.raises(InputError, match="belongs to the revoked key SHA256"):
        federation.enrol([new])
    federation.enrol([new], replacing=True)
    assert joining(federation)["site-b"] == new.identity


@pytest.mark.parametrize("name", ["site-z", "site-b"])
def test_only_who_is_there_can_be_revoked(federation, keys, name):
    federation.enrol(keys)
    federation.revoke("site-b")
    with pytest.raises(InputError, match=f"no key of '{name}' here: there is site-a, "):
        federation.revoke(name)


def test_nobody_can_be_revoked_where_nobody_is(federation):
    with pytest.raises(InputError, match="there is nobody"):
        federation.revoke("site-a")


def test_a_damaged_file_does_not_keep_a_key_from_being_revoked(federation, keys):
    federation.enrol(keys)
    (federation.folder / ENROLLED / "site-a.pub").write_text("damaged")
    assert federation.revoke("site-a").identity == keys[0].identity


# ------------------------------------------------------------------ what is kept


def test_the_name_a_site_was_let_in_under_is_its_own(federation, keys, tmp_path):
    federation.enrol(keys)
    federation.let_in("run-1", "north", keys[0].identity, 2)
    federation.let_in("run-2", "north", keys[0].identity, 0)
    later = Federation(federation.folder)
    member = owner(later, "north")
    assert member == owner(later, "site-a")
    assert (member.called, member.clients) == ("north", {"run-1": 2, "run-2": 0})
    new = key_of(tmp_path / "new", "x", enrolled_as="north")
    with pytest.raises(InputError, match="the name north belongs to the key"):
        later.enrol([new])
    later.enrol([new], replacing=True)
    assert owner(later, "north").identity == new.identity
    assert sorted(joining(later)) == ["north", "site-b", "site-c"]
    assert later.revoke("north").identity == new.identity


def test_strangers_are_not_noted(federation, keys):
    federation.let_in("run", "north", keys[0].identity, 0)
    assert federation.members() == ()


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"format": 2, "members": []}', '{"format": 1, "members": [{}]}'],
)
def test_a_damaged_list_is_one_line(federation, keys, content):
    federation.enrol(keys)
    (federation.folder / FEDERATION).write_text(content)
    with pytest.raises(InputError, match="cannot be read: restore it") as caught:
        federation.members()
    assert "\n" not in str(caught.value)


def test_the_list_says_what_people_need(federation, keys):
    federation.enrol(keys[:1])
    content = json.loads((federation.folder / FEDERATION).read_text())
    assert content == {
        "format": 1,
        "members": [
            {
                "name": "site-a",
                "identity": identity_of(private_key(keys[0].path.with_suffix(""))),
                "fingerprint": key_fingerprint(keys[0].identity),
                "called": "",
                "clients": {},
                "revoked": "",
                "max_rows": 0,
            }
        ],
    }
