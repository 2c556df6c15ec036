# SPDX-License-Identifier: Apache-2.0
"""What a site remembers of whom it was summed with, in its home."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.keys import make_key

from afcl.core.refine import coarse
from afcl.core.tasks import COUNT, Proof, Question, Task
from afcl.core.terms import Terms
from afcl.exceptions import InputError, RejectedMessage
from afcl.privacy.identity import fingerprint, identity_of, mask_key, private_key, sign
from afcl.runtime.live.keyring import MEMBERS, acquainted, listed
from afcl.runtime.live.membership import Membership
from afcl.scale import Box

SEEDS = np.array([[0.1], [0.9]])
BOX = Box(np.zeros(1), np.ones(1))
TERMS = Terms("run", "afcl", "{}", 0, 0, BOX, 30, ("x",))


@pytest.fixture
def members(tmp_path):
    """Return the private keys of three sites."""
    return [make_key(tmp_path / "keys", name) for name in "abc"]


def member(keys, site=0, **asked):
    return Membership("rows.csv", keys[site].name, key=str(keys[site]), **asked)


def task(keys):
    """Return what the first of these sites is asked with the others."""
    hexes = tuple(f"{place:064x}" for place in range(len(keys)))
    proofs = []
    for place, key in enumerate(keys):
        private = private_key(key)
        signature = sign(private, mask_key("run", place, key.name, hexes[place]))
        proofs.append(Proof(key.name, identity_of(private), signature))
    numbers, question = tuple(range(len(keys))), Question(COUNT, (coarse(SEEDS),))
    return Task(0, COUNT, numbers, hexes, 0, question, proofs=tuple(proofs))


def identities(keys):
    return {key.name: identity_of(private_key(key)) for key in keys}


def test_members_are_remembered_for_their_owner_only(tmp_path, members):
    home = tmp_path / "home"
    met = acquainted(member(members), home, TERMS, task(members))
    assert met.met == (fingerprint(identities(members).items()),)
    path, known = home / MEMBERS, identities(members)
    assert json.loads(path.read_text()) == {known["a"]: known}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.stat().st_mtime_ns
    assert acquainted(met, home, TERMS, task(members)) == met
    assert path.stat().st_mtime_ns == before


def test_who_has_another_key_is_refused_and_the_line_says_what_to_do(tmp_path, members):
    home = tmp_path / "home"
    acquainted(member(members), home, TERMS, task(members))
    other = [*members[:2], make_key(tmp_path / "new", "c")]
    with pytest.raises(RejectedMessage) as error:
        acquainted(member(members), home, TERMS, task(other))
    assert str(error.value) == (
        "c has another key than before: ask its people; if it is theirs, join with "
        "--members FILE, or take c out of members.json"
    )
    path = home / MEMBERS
    known = json.loads(path.read_text())
    del next(iter(known.values()))["c"]
    path.write_text(json.dumps(known))
    acquainted(member(members), home, TERMS, task(other))
    with pytest.raises(RejectedMessage, match="c has another key"):
        acquainted(member(members), home, TERMS, task(members))


def test_a_site_with_another_key_is_among_others(tmp_path, members):
    """Federations whose sites have the same names do not get in each other's way."""
    home = tmp_path / "home"
    acquainted(member(members), home, TERMS, task(members))
    others = [make_key(tmp_path / "new", name) for name in "abc"]
    acquainted(member(others), home, TERMS, task(others))
    assert len(json.loads((home / MEMBERS).read_text())) == 2
    acquainted(member(members), home, TERMS, task(members))


def test_a_list_is_all_that_counts(tmp_path, members):
    home, path = tmp_path / "home", tmp_path / "list"
    new = [*members[:2], make_key(tmp_path / "new", "c")]
    acquainted(member(members), home, TERMS, task(members))
    # The site's own line need not be in it.
    path.write_text("".join(Path(f"{key}.pub").read_text() for key in new[1:]))
    strict = member(members, members=str(path))
    acquainted(strict, home, TERMS, task(new))
    with pytest.raises(RejectedMessage, match="c is not in the list of --members of a"):
        acquainted(strict, home, TERMS, task(members))
    path.write_text(Path(f"{new[1]}.pub").read_text())
    with pytest.raises(RejectedMessage, match="ask its people, then add its line"):
        acquainted(strict, home, TERMS, task(new))


def test_without_a_key_everybody_will_do(tmp_path, members):
    plain = Membership("rows.csv", "a")
    unsigned = replace(task(members), proofs=None)
    assert acquainted(plain, tmp_path, TERMS, unsigned) == plain


@pytest.mark.parametrize("content", [b"\xff", b"[]", b"{", b'{"a": 1}'])
def test_a_memory_that_cannot_be_read_is_not_forgotten(tmp_path, members, content):
    (tmp_path / MEMBERS).write_bytes(content)
    with pytest.raises(InputError, match=r"members\.json .* cannot be read") as error:
        acquainted(member(members), tmp_path, TERMS, task(members))
    assert str(tmp_path) not in str(error.value)
    assert (tmp_path / MEMBERS).read_bytes() == content


def test_a_memory_that_cannot_be_written(tmp_path, members, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("afcl.runtime.live.keyring.write_private", full)
    with pytest.raises(InputError, match="so nothing is sent: No space") as error:
        acquainted(member(members), tmp_path, TERMS, task(members))
    assert str(tmp_path) not in str(error.value)


def test_a_list_that_cannot_be_read(tmp_path):
    (tmp_path / "list").write_bytes(b"\xff\xff")
    for name in ("list", "none"):
        with pytest.raises(InputError, match="list of --members cannot be read"):
            listed(tmp_path / name)
