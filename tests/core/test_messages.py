# SPDX-License-Identifier: Apache-2.0
"""Messages: what they weigh, which payloads are known, what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from afcl.core import messages
from afcl.core.messages import (
    PAYLOADS,
    UNSTAMPED,
    Cells,
    Hello,
    Level,
    LevelReply,
    Plan,
    Summary,
    Update,
    array_bytes,
    arrays_in,
    check_cells,
    payload,
    refuse_unless,
)
from afcl.core.terms import AskHello, AskRanges, AskStep, Terms
from afcl.exceptions import RejectedMessage
from afcl.scale import no_box


def cells(r=3, d=2, count=5):
    return Cells(np.full(r, count), np.zeros((r, d)), np.ones(r))


# --------------------------------------------------------------------- weight


def test_bytes_by_hand():
    # A cell of d features is a count, d coordinates and a scatter: 8 * (d + 2) bytes.
    assert array_bytes(cells(3, 2)) == 3 * 8 * 4
    assert array_bytes(Hello(15, cells(3, 2))) == 96


def test_bytes_of_a_plan_and_of_its_answer():
    # k0 = 4 seeds and candidates of 2 and 3 centres, d = 2: seeds 4 * 2 numbers,
    # levels (2 + 3) * (2 + 2); up: 4 * 4 numbers, (2 + 3) * 4, an owner a cell, two
    # sums a level and three counts a centre.
    levels = tuple(Level(np.zeros((k, 2)), np.zeros(k), np.ones(k), 0) for k in (2, 3))
    assert array_bytes(Plan(np.zeros((4, 2)), levels)) == 8 * (8 + 20)
    halves = np.full(2, 0.5)
    replies = tuple(
        LevelReply(cells(k, 2), np.arange(k), halves, np.zeros((k, 3)), 0)
        for k in (2, 3)
    )
    answer = Update(Summary(cells(4, 2), np.arange(4), replies))
    assert array_bytes(answer) == 8 * (16 + 20 + 4 + 5 + 4 + 15)


def test_arrays_come_depth_first_and_scalars_weigh_nothing():
    a, b = np.zeros(1), np.zeros(2)
    found = list(arrays_in((a, "text", 3, None, (b, Update(a)))))
    assert [id(array) for array in found] == [id(a), id(b), id(a)]
    assert array_bytes(7) == 0


# ------------------------------------------------------------------- registry


def test_payloads_are_known_by_name():
    known: list[type] = [Cells, Level, Plan, LevelReply, Summary, Hello, Update]
    known += [Terms, AskRanges, AskHello, AskStep]
    for kind in known:
        assert PAYLOADS[kind.__name__] is kind
    assert "Left" not in PAYLOADS  # the coordinator's word, never a client's
    assert "Broadcast" not in PAYLOADS


def test_payload_registers_and_returns_the_class(monkeypatch):
    monkeypatch.setattr(messages, "PAYLOADS", {})

    @payload
    @dataclass(frozen=True)
    class Word:
        text: str

    name = f"{__name__}:{Word.__qualname__}"
    assert messages.PAYLOADS == {name: Word}
    assert Word("a").text == "a"


def test_two_payloads_cannot_share_a_name(monkeypatch):
    monkeypatch.setattr(messages, "PAYLOADS", {})
    one: type = payload(type("Word", (), {"__module__": "afcl.methods.one"}))
    again: type = payload(type("Word", (), {"__module__": "afcl.methods.one"}))
    assert messages.PAYLOADS == {"Word": again}  # a reloaded module's
    assert one is not again
    with pytest.raises(ValueError, match="called 'Word', in afcl.methods.one and in "):
        payload(type("Word", (), {"__module__": "afcl_bench.two"}))
    assert messages.PAYLOADS == {"Word": again}


def test_a_client_does_not_say_who_it_is():
    assert Hello(3, None).client == UNSTAMPED
    update = Update(None)
    assert (update.client, update.version, update.contact) == (UNSTAMPED,) * 3


def test_a_request_says_everything():
    terms = Terms("run", "afcl", "{}", 7, 2, no_box(3), 100)
    step = AskStep(terms, version=4, contact=2, payload=cells())
    assert AskHello(terms).terms.box.low.shape == (3,)
    assert array_bytes(step) == 2 * 3 * 8 + 96
    assert AskRanges("run", True).extremes


# ------------------------------------------------------------------- refusals


def test_refuse_unless():
    refuse_unless(True, "never")
    with pytest.raises(RejectedMessage, match="because"):
        refuse_unless(False, "because")


def test_sound_cells_are_accepted():
    check_cells(cells(), 2, 15)
    check_cells(cells(), 2, 15, low=5)
    check_cells(cells(), 2, 1000)


SOUND = cells()
BAD = {
    "no cells at all": ((1, 2, 3), "expected cells"),
    "nothing": (None, "expected cells"),
    "counts that are no array": (replace(SOUND, counts=[5, 5, 5]), "must be arrays"),
    "means that are no array": (replace(SOUND, means=None), "must be arrays"),
    "a scatter that is a number": (replace(SOUND, scatters=1.0), "must be arrays"),
    "no cell": (cells(0), "at least one cell"),
    "counts in a table": (
        replace(SOUND, counts=np.full((3, 1), 5)),
        "at least one cell",
    ),
    "a count of no axis": (replace(SOUND, counts=np.array(5)), "at least one cell"),
    "too few means": (replace(SOUND, means=np.zeros((2, 2))), "cells do not fit"),
    "another width": (cells(d=3), "cells do not fit: .* 2 features agreed"),
    "flat means": (replace(SOUND, means=np.zeros(6)), "cells do not fit"),
    "too many scatters": (replace(SOUND, scatters=np.ones(4)), "cells do not fit"),
    "counts that are not whole": (replace(SOUND, counts=np.full(3, 5.0)), "int64"),
    "means in float32": (
        replace(SOUND, means=np.zeros((3, 2), dtype=np.float32)),
        "float64",
    ),
    "scatters that are whole": (replace(SOUND, scatters=np.ones(3, int)), "float64"),
    "a cell that is too small": (
        replace(SOUND, counts=np.array([5, 4, 5])),
        "fewer than 5 rows",
    ),
    "more rows than registered": (
        replace(SOUND, counts=np.array([5, 5, 6])),
        "cells hold 16 rows, the client registered 15",
    ),
    "counts that wrap around to nothing": (
        Cells(np.full(4, 2**62), np.zeros((4, 2)), np.ones(4)),
        f"cells hold {2**64} rows, the client registered 15",
    ),
    "a mean that is not a number": (
        replace(SOUND, means=np.full((3, 2), np.nan)),
        "not finite",
    ),
    "an endless scatter": (
        replace(SOUND, scatters=np.array([1.0, np.inf, 1.0])),
        "not finite",
    ),
    "a negative scatter": (
        replace(SOUND, scatters=np.array([1.0, -1e-9, 1.0])),
        "scatter is negative",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_cells_that_no_honest_client_sends(name):
    bad, reason = BAD[name]
    with pytest.raises(RejectedMessage, match=reason):
        check_cells(bad, 2, 15, low=5)
