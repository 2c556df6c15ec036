# SPDX-License-Identifier: Apache-2.0
"""How soon a site hears of a request, and how little it asks while there is none."""

from __future__ import annotations

import inspect
import re
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest

from afcl.runtime.flower import supernode
from afcl.runtime.flower.supernode import SHARE, SHORTEST, Pace


@pytest.fixture
def slept() -> list[float]:
    return []


def test_pauses_grow_with_the_quiet_up_to_flowers_own(slept: list[float]):
    pace = Pace(slept.append)
    for _ in range(100):
        pace.sleep(3)
    assert slept[0] == SHORTEST
    assert slept == sorted(slept)
    assert slept[-1] == 3
    # Nobody waits for a quarter longer than it has been quiet, but at the beginning.
    for before, pause in zip(accumulate(slept), slept[1:], strict=False):
        assert pause <= max(SHORTEST, SHARE * before)


def test_after_a_request_they_are_short_again(slept: list[float]):
    pace = Pace(slept.append)
    for _ in range(100):
        pace.sleep(3)
    pace.sleep(0.5)  # an answer is being made
    pace.sleep(3)
    assert slept[-2:] == [SHORTEST, SHORTEST]


def test_nobody_sleeps_longer_than_flower_would(slept: list[float]):
    Pace(slept.append).sleep(0.01)
    assert slept == [0.01]


def test_flower_pauses_and_starts_its_superexec_where_ours_is_put(
    monkeypatch: pytest.MonkeyPatch,
):
    """Were it in another place, every message would take seconds again."""
    pytest.importorskip("flwr")
    from flwr.supernode import start_client_internal

    inside: Any = start_client_internal
    text = inspect.getsource(inside)
    called = set(re.findall(r"\b(?:time|subprocess)\.\w+\(", text))
    assert called == {"time.sleep(", "subprocess.Popen("}
    assert text.count("time.sleep(3)") == 1
    assert text.count("time.sleep(0.5)") == text.count("time.sleep(") - 1
    assert text.count("subprocess.Popen(command)") == 1
    assert 'command = ["flower-superexec"]' in text
    monkeypatch.setattr(inside, "time", SimpleNamespace())
    monkeypatch.setattr(inside, "subprocess", SimpleNamespace())
    monkeypatch.setattr("flwr.supernode.cli.flower_supernode", lambda: None)
    monkeypatch.setattr("sys.argv", [])
    supernode._supernode(["--insecure"])
    assert isinstance(inside.time.sleep.__self__, Pace)
    assert inside.subprocess.Popen is supernode._start
