# SPDX-License-Identifier: Apache-2.0
"""A federation that goes on while one of its sites begins to lie.

Everybody is honest in the first answer. From the second on site d sends messages of the
right form that are not true. Nothing of it is believed without a word, and the answers
before stay what they were.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.runtime.test_federation import ListEngine
from tests.runtime.test_standing import Federation, no_waiting

from afcl.cli.standing import Standings
from afcl.core.messages import Hello, Update
from afcl.core.tasks import Part
from afcl.core.terms import News
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.going_on import Watch
from afcl.runtime.live.numbered import Standing, State, ask_to_renew
from afcl.runtime.live.staying import answer_folder
from afcl.runtime.results import read_result
from afcl.runtime.transport import Reply
from afcl.trace import read_trace

__all__ = ["no_waiting"]

LIAR = 100 + ord("d")


class Lying(ListEngine):
    """One site's words are exchanged from the second answer on."""

    def __init__(self, fed: Federation, lie: Any) -> None:
        super().__init__(fed.engine.folders, last_look=5000)
        self._folder, self._lie = fed.folder, lie

    def poll(self) -> list[Any]:
        arrived: list[Any] = super().poll()
        if State.read(self._folder).number < 2:
            return arrived
        return [self._told(each) for each in arrived]

    def _told(self, answer: Any) -> Any:
        if not isinstance(answer, Reply) or answer.client != LIAR:
            return answer
        return replace(answer, data=encode(self._lie(decode(answer.data))))


def sums(said: Any) -> Any:
    """Masked numbers that are a little too large, all of them."""
    if not isinstance(said, Update) or not isinstance(said.payload, Part):
        return said
    part = said.payload
    return replace(said, payload=replace(part, values=part.values + 1))


def cells(said: Any) -> Any:
    """A first message about rows that are where nobody's are."""
    if not isinstance(said, Hello):
        return said
    own = getattr(said.payload, "cells", said.payload)
    moved = replace(own, means=np.clip(own.means[::-1] + 0.3, 0, 1))
    told = moved if own is said.payload else replace(said.payload, cells=moved)
    return replace(said, payload=told)


def many(said: Any) -> Any:
    """A thousand times the rows that were announced."""
    if not isinstance(said, Hello):
        return said
    own = getattr(said.payload, "cells", said.payload)
    more = replace(own, counts=own.counts * 1000, scatters=own.scatters * 1000.0)
    told = more if own is said.payload else replace(said.payload, cells=more)
    return replace(said, n_rows=said.n_rows * 1000, payload=told)


def lied_to(tmp_path: Path, lie: Any, level: str) -> Federation:
    fed = Federation(tmp_path, "abcde", privacy=level)
    fed.engine = Lying(fed, lie)
    fed.serve(lambda: ask_to_renew(fed.folder), lambda: None)
    assert fed.result["answer"] == 2
    return fed


def complaints(fed: Federation) -> list[str]:
    trace = read_trace(answer_folder(fed.folder, 2) / "trace.jsonl")
    return [event["reason"] for event in trace.of("rejected")]


@pytest.mark.no_cover
@pytest.mark.parametrize("level", ["summary", "secure+summary"])
@pytest.mark.parametrize("lie", [many, cells])
def test_a_first_message_that_is_not_true(tmp_path, lie, level):
    """It is refused, by name, and the answer is that of the others; or it is told."""
    fed = lied_to(tmp_path, lie, level)
    first = read_result(answer_folder(fed.folder, 1))
    assert first["n_clusters"] == 4
    if complaints(fed):
        assert fed.changes() == []
        assert sorted(fed.result["history"][-1]["clients"]) == list("abce")
    else:  # at 'secure' cells are compared with sums, which nobody can take apart
        assert (lie, level) == (cells, "secure+summary")
        assert "could not be true" in fed.result["note"]


def test_sums_that_are_not_true(tmp_path):
    """The answer rests on first messages, says so, and clusters keep their names."""
    fed = lied_to(tmp_path, sums, "secure+summary")
    assert fed.changes() == []
    assert fed.result["n_clusters"] == 4
    assert "could not be true and was not used" in fed.result["note"]
    said = Standings(fed.folder).new_lines()
    assert fed.result["note"] in said


def test_who_was_refused_is_no_reason_for_ever(tmp_path):
    """A liar gets one answer out of it, not one a minute."""
    fed = Federation(tmp_path, "abcde")
    fed.engine = Lying(fed, many)
    fed.serve(lambda: ask_to_renew(fed.folder), *[lambda: None] * 4)
    assert fed.result["answer"] == 2


# ------------------------------------------------------------------ other people's news


class TellsNews(ListEngine):
    """Two nodes; the second one tells news under the name it is given."""

    def __init__(self, name: str) -> None:
        super().__init__({1: None, 2: None})
        self._name = name

    def poll(self) -> list[Any]:
        told = []
        for ticket, (_, address, _) in self.flying.items():
            name = "b" if address == 1 else self._name
            data = encode(News("fed", name, 1, address == 2))
            told.append(Reply(ticket, address, data))
        self.flying.clear()
        return told


@pytest.mark.parametrize(("name", "heard"), [("c", ["b", "c"]), ("b", ["b"])])
@pytest.mark.parametrize("keys", [True, False])
def test_nobody_tells_the_news_of_others(tmp_path, keys, name, heard):
    """Where sites have keys: else one could say that an absent site is here."""
    whose = {1: "b", 2: "c"}.get if keys else (lambda address: None)
    watch = Watch(
        TellsNews(name), "fed", Standing(), lambda: 0.0, lambda s: None, whose
    )
    watch._look()
    watch._look()
    assert sorted(watch._news) == heard
    own = watch._news["b"][1]
    assert own.changed is (name == "b" and not keys)
    answers = SimpleNamespace(withdrawn=False, clients=("b", "c"))
    reason = watch._reason(tmp_path, State(1, 1), answers, 0.0)  # type: ignore[arg-type]
    assert bool(reason) is (name == "c" or not keys)
