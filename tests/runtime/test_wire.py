# SPDX-License-Identifier: Apache-2.0
"""What a released version has sent is read by every later one of the same format."""

from __future__ import annotations

import base64
import json

import pytest
from tests.runtime.record_wire import WIRE, kinds, own_kinds

from afcl.exceptions import CodecError
from afcl.runtime.codec import FORMAT, decode, encode

STORED = json.loads((WIRE / f"format-{FORMAT}.json").read_text())
MESSAGES = {name: base64.b64decode(text) for name, text in STORED.items()}


@pytest.mark.parametrize("name", MESSAGES)
def test_stored_bytes_are_read_and_written_alike(name):
    own_kinds()  # all of them are known
    message = decode(MESSAGES[name])
    assert encode(message) == MESSAGES[name]


def test_every_kind_of_message_is_stored():
    stored: frozenset[str] = frozenset().union(*map(kinds, MESSAGES.values()))
    assert stored == own_kinds()


def test_another_format_is_refused_in_one_line():
    message = next(iter(MESSAGES.values()))
    other = message[:4] + bytes([FORMAT + 1]) + message[5:]
    with pytest.raises(CodecError, match=f"format {FORMAT + 1} is not format {FORMAT}"):
        decode(other)


def test_formats_of_before_stay_on_file():
    """Whoever raises the format records the new one; old files are not removed."""
    assert sorted(path.name for path in WIRE.iterdir())[-1] == f"format-{FORMAT}.json"
    assert sum(path.stat().st_size for path in WIRE.iterdir()) < 200_000
