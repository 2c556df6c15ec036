# SPDX-License-Identifier: Apache-2.0
"""What a site signs is its own, and does for nothing else."""

from __future__ import annotations

import base64
import re
import sys

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import example, given
from hypothesis import strategies as st

from afcl.exceptions import InputError
from afcl.privacy.identity import (
    LONGEST,
    announcement,
    fingerprint,
    identity_of,
    mask_key,
    private_key,
    read_public,
    sign,
    verify,
)

KEY, OTHER = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
WHO, ELSE = identity_of(KEY), identity_of(OTHER)
SIGNATURE = sign(KEY, b"message")


def line_of(key):
    shown = key.public_key().public_bytes(
        form.Encoding.OpenSSH, form.PublicFormat.OpenSSH
    )
    return shown.decode()


def write(path, key):
    path.write_bytes(
        key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()
        )
    )
    return path


# ------------------------------------------------------------------ signatures


@given(st.binary())
def test_what_is_signed_is_its_owners(message):
    signature = sign(KEY, message)
    assert verify(WHO, message, signature)
    assert not verify(ELSE, message, signature)
    assert not verify(WHO, message + b".", signature)


def test_an_identity_is_the_second_word_of_the_public_file():
    assert line_of(KEY).split()[1] == WHO


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_every_curve_that_can_be_enrolled_does(tmp_path, curve):
    key = private_key(write(tmp_path / "key", ec.generate_private_key(curve)))
    who, signature = identity_of(key), sign(key, b"message")
    assert max(len(who), len(signature)) <= LONGEST
    assert verify(who, b"message", signature)


@given(st.text())
@example(WHO)
@example("")
@example("zz")
@example("ä")
@example("0" * 208)
@example(SIGNATURE[:-2])
@example(SIGNATURE + "00")
@example("00" * LONGEST)
def test_garbage_is_no_signature(text):
    assert not verify(WHO, b"message", text)


@given(st.text() | st.binary().map(lambda b: base64.b64encode(b).decode()))
@example("")
@example("ä")
@example("A")
@example(WHO[:-4])
@example(WHO[:40] + "AAAA" + WHO[44:])
@example(WHO + "\n")
@example(f"{WHO} ")
@example(line_of(KEY))
@example("A" * (LONGEST + 1))
def test_garbage_is_nobody(text):
    assert not verify(text, b"message", SIGNATURE)


def test_keys_of_other_kinds_are_nobody():
    key = ed25519.Ed25519PrivateKey.generate()
    who = line_of(key).split()[1]
    assert not verify(who, b"message", key.sign(b"message").hex())


@given(st.integers(0, len(SIGNATURE) * 4 - 1))
def test_one_bit_of_a_signature_matters(bit):
    content = bytearray(bytes.fromhex(SIGNATURE))
    content[bit // 8] ^= 1 << bit % 8
    assert not verify(WHO, b"message", content.hex())


@given(st.integers(0, 135 * 8))
@example(312)  # what says that both coordinates follow: the library raises as if a bug
def test_one_bit_of_an_identity_matters(bit):
    content = bytearray(base64.b64decode(WHO))
    content[bit // 8] ^= 1 << bit % 8
    changed = base64.b64encode(bytes(content)).decode()
    assert not verify(changed, b"message", SIGNATURE)


def test_a_key_is_written_in_one_way():
    """Unused bits at the end of the last character would do for the same bytes."""
    key = ec.generate_private_key(ec.SECP521R1())
    who, signature = identity_of(key), sign(key, b"message")
    assert verify(who, b"message", signature)
    body = who.rstrip("=")
    assert len(body) < len(who)
    other = body[:-1] + chr(ord(body[-1]) + 1) + "=" * (len(who) - len(body))
    assert not verify(other, b"message", signature)


# ------------------------------------------------------------------ what is signed

SHORT = st.text(max_size=4)


@given(st.lists(st.tuples(SHORT, SHORT, SHORT), min_size=2, max_size=2, unique=True))
def test_announcements_are_written_apart(pair):
    assert announcement(*pair[0]) != announcement(*pair[1])


PARTS = st.tuples(SHORT, st.integers(), SHORT, SHORT)


@given(st.lists(PARTS, min_size=2, max_size=2, unique=True))
def test_mask_keys_are_written_apart(pair):
    assert mask_key(*pair[0]) != mask_key(*pair[1])


@given(SHORT, SHORT, SHORT, PARTS)
def test_one_does_not_do_for_the_other(run, challenge, name, parts):
    assert announcement(run, challenge, name) != mask_key(*parts)


# ------------------------------------------------------------------ files


def test_a_private_key_is_read(tmp_path):
    key = private_key(write(tmp_path / "site", KEY))
    assert identity_of(key) == WHO


def test_what_is_no_private_key_is_said_in_one_line_without_its_path(tmp_path):
    rubbish = tmp_path / "rubbish"
    rubbish.write_bytes(b"\x00rubbish")
    public = tmp_path / "site.pub"
    public.write_text(line_of(KEY))
    other = write(tmp_path / "ed", ed25519.Ed25519PrivateKey.generate())
    for path in (tmp_path / "none", tmp_path, rubbish, public, other):
        with pytest.raises(InputError, match="cannot be read: give --key") as error:
            private_key(path)
        assert str(tmp_path) not in str(error.value)
        assert "\n" not in str(error.value)


def test_without_the_library_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(InputError, match=r"afcl\[privacy\]"):
        sign(KEY, b"message")


def test_members_are_read_from_lines_of_either_kind():
    text = f"# ours\n\n{line_of(KEY)} north\nsouth wing {line_of(OTHER)} key-7\n"
    assert read_public(text) == {"north": WHO, "south wing": ELSE}
    assert read_public("") == {}
    assert read_public(f"{line_of(KEY)} north\n" * 2) == {"north": WHO}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("north", "line 1"),
        (f"#\n{line_of(KEY)}", "line 2"),
        ("north ecdsa-sha2-nistp384", "line 1"),
        ("ssh-rsa AAAA north", "line 1"),
        (f"{line_of(KEY)} north\nnorth {line_of(OTHER)}", "north has two public keys"),
    ],
)
def test_members_that_are_none_are_refused(text, why):
    with pytest.raises(InputError, match=why):
        read_public(text)


MEMBERS = st.dictionaries(SHORT, SHORT)


@given(MEMBERS, st.randoms())
def test_a_fingerprint_does_not_depend_on_the_order(members, random):
    pairs = list(members.items())
    random.shuffle(pairs)
    assert fingerprint(pairs) == fingerprint(members.items())
    assert re.fullmatch(r"([0-9a-f]{4} ){7}[0-9a-f]{4}", fingerprint(pairs))


@given(MEMBERS, MEMBERS)
@example({"a": "b", "c": "d"}, {"a": "b"})
@example({"ab": "c"}, {"a": "bc"})
def test_fingerprints_of_different_members_differ(one, other):
    same = fingerprint(one.items()) == fingerprint(other.items())
    assert same is (one == other)
