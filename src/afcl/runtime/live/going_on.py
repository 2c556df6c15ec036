# SPDX-License-Identifier: Apache-2.0
"""A federation that goes on: one numbered answer after the other, each a whole run.

Between two answers the sites that stay are asked for news every so often. There is a
reason for the next answer when rows have changed, a site is new or was forgotten, the
time has come, or somebody asks for it (``afcl renew``). It begins when everybody who
took part in the last one can be reached, or has been away for so long that it is left
out; until then it is pending. See docs/decisions/0042-a-federation-that-goes-on.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from afcl._typing import ClientId
from afcl.core.lineage import Answered
from afcl.core.terms import AskNews, News
from afcl.exceptions import RejectedMessage
from afcl.occupied import occupied
from afcl.runtime.codec import decode, encode
from afcl.runtime.heartbeat import Heartbeat
from afcl.runtime.live.door import KeyDoor
from afcl.runtime.live.engine import Engine
from afcl.runtime.live.numbered import (
    OVER,
    PENDING,
    RENEW,
    REQUESTS,
    RUNNING,
    WAITING,
    Answers,
    Standing,
    State,
    forget_whom_was_asked,
)
from afcl.runtime.live.server import LAST, LOCK, Before, RunPlan, serve_run
from afcl.runtime.live.staying import answer_folder, run_name
from afcl.runtime.results import RESULT, read_result, write_result
from afcl.runtime.spec import Finished
from afcl.runtime.transport import Failure, Reply, Ticket

#: Largest news accepted from a site, in bytes.
LARGEST_NEWS = 1 << 16
#: Seconds after which a site is asked again that has not answered.
LATE = 600.0
#: Looks for the sites to hear that there will be no further answer.
LAST_LOOKS = 10


def serve_folder(
    engine: Engine,
    folder: Path,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Serve what is in a folder: one run, or a federation that goes on."""
    plan = RunPlan.read(folder)
    if plan.standing is None:
        serve_run(engine, folder)
        return
    whose = KeyDoor(plan.members(folder), folder).name_at if plan.signed else _nobody
    watch = Watch(engine, plan.run, plan.standing, clock, sleep, whose)
    # Patiently: the process before this one may still be writing its last lines.
    alone = occupied(folder, "coordinator", name=LOCK, patience=LAST)
    with alone, Heartbeat(folder):
        state = State.read(folder)
        while True:
            # Stopped in the middle of an answer: that one first, from its journal.
            if not state.finished:
                state = _answer(engine, folder, plan, state, watch.recalled)
            if plan.standing.answers and state.number >= plan.standing.answers:
                break
            state = watch.until_there_is_a_reason(folder, state)
        watch.tell_the_end()
        replace(state, stage=OVER).write(folder)


def _answer(
    engine: Engine,
    folder: Path,
    plan: RunPlan,
    state: State,
    recalled: Answered | None,
) -> State:
    """Find the answer of this number, from its first message on."""
    assert plan.standing is not None
    own = answer_folder(folder, state.number)
    before = Answers.read(folder, state.newest).recalling(recalled)

    def named(finished: Finished, names: Mapping[ClientId, str]) -> dict[str, Any]:
        answers = before.followed(finished, names, state.number)
        answers.write(folder, state.number)
        return answers.described()

    # Stopped after the answer and before it was published: only that is left to do.
    if not (own / RESULT).is_file():
        replace(
            plan,
            # A run of its own: sites count, sign and remember by run.
            run=run_name(plan.run, state.number),
            serve_end=0.0,
            standing=None,
        ).write(own)
        state = replace(state, stage=RUNNING)
        state.write(folder)
        known = Before(
            folder,
            before.roster,
            state.has_forgotten,
            state.expected,
            plan.standing.forget_after,
            named,
        )
        serve_run(engine, own, known)
    write_result(folder, read_result(own), {})
    found = replace(state, newest=state.number, stage=WAITING, reason="")
    found.write(folder)
    if state.newest:
        # Only when the next one is in place: there is always one answer.
        Answers.drop(folder, state.newest)
    return found


@dataclass
class Watch:
    """Who is here between two answers, and what is new."""

    engine: Engine
    federation: str
    standing: Standing
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    #: Whose key is at an address, None if that is not known.
    whose: Callable[[int], str | None]
    #: Centres of the newest answer, if a site was forgotten since: for the names of the
    #: next one's clusters, and in memory alone.
    recalled: Answered | None = None
    #: The news of every site by name, and where it is.
    _news: dict[str, tuple[int, News]] = field(default_factory=dict)
    #: Questions under way: who was asked, and when.
    _asked: dict[Ticket, tuple[int, float]] = field(default_factory=dict)
    #: Who can be reached, and since when the others cannot, by name.
    _nodes: set[int] = field(default_factory=set)
    _away_since: dict[str, float] = field(default_factory=dict)

    def until_there_is_a_reason(self, folder: Path, state: State) -> State:
        """Wait; return the state in which the next answer begins."""
        since, due = self.clock(), None
        self._news.clear()
        self._asked.clear()  # what was under way has come back during the answer
        # During an answer nobody was asked for news: absence counts from now.
        self._away_since.clear()
        while True:
            self._look()
            state, answers = self._forget(folder, state)
            reason = self._reason(folder, state, answers, since)
            if reason:
                due = self.clock() if due is None else due
                here, away = self._presence(answers)
                # Changes come in heaps: one answer for all of them costs the sites one
                # run.
                if not away and self.clock() - due >= self.standing.quiet:
                    return _next(folder, state, reason, here, self._known())
                waits = replace(state, stage=PENDING, waiting_for=tuple(away))
                state = _kept(folder, state, replace(waits, reason=reason))
            self.sleep(self.standing.look)

    def _forget(self, folder: Path, state: State) -> tuple[State, Answers]:
        """Forget whom it was asked to; return the state and the answers afterwards."""
        before = Answers.read(folder, state.newest)
        state = forget_whom_was_asked(folder, state)
        answers = Answers.read(folder, state.newest)
        if answers.withdrawn and not before.withdrawn:
            last = before.lineage.last
            self.recalled = None if last is None else last.by_centers()
        return state, answers

    def _look(self) -> None:
        """Hear who has answered, and ask everybody who is not being asked."""
        for answer in self.engine.poll():
            self._hear(answer)
        self._nodes, now = set(self.engine.nodes()), self.clock()
        self._asked = {
            ticket: (address, since)
            for ticket, (address, since) in self._asked.items()
            # An engine may lose a question; who does not answer is asked again.
            if address in self._nodes and now - since < LATE
        }
        busy = {address for address, _ in self._asked.values()}
        question = encode(AskNews(self.federation))
        for address in sorted(self._nodes - busy):
            self._asked[self.engine.send(address, question)] = (address, now)

    def _hear(self, answer: Reply | Failure) -> None:
        """Note a site's news; who has none to tell is not heard."""
        asked = self._asked.pop(answer.ticket, None)
        if asked is None or isinstance(answer, Failure):
            return
        try:
            news = decode(answer.data, LARGEST_NEWS)
        except RejectedMessage:
            return
        if not isinstance(news, News) or news.run != self.federation:
            return
        if self.whose(asked[0]) in (None, news.name):  # nobody tells another's news
            self._news[news.name] = (asked[0], news)

    def _reason(
        self, folder: Path, state: State, answers: Answers, since: float
    ) -> str:
        """Return why there should be another answer, nothing if there is no reason."""
        if answers.withdrawn:
            return "a site was forgotten"
        if (folder / REQUESTS / RENEW).is_file():
            return "asked for"
        if self.standing.every and self.clock() - since >= self.standing.every:
            return "the time has come"
        for name, (_, news) in sorted(self._news.items()):
            if state.has_forgotten(name):
                continue
            # A site says that rows changed, never which or how many.
            if news.changed:
                return f"the rows of {name} have changed"
            if name not in answers.clients and news.begun < state.number:
                return f"{name} is new"
        return ""

    def _presence(self, answers: Answers) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return who of the last answer is here, and who is away and waited for."""
        here, away = [], []
        for name in answers.clients:
            if name in self._news and self._news[name][0] in self._nodes:
                self._away_since.pop(name, None)
                here.append(name)
                continue
            since = self._away_since.setdefault(name, self.clock())
            if self.clock() - since < self.standing.forget_after:
                away.append(name)
        return tuple(here), tuple(away)

    def _known(self) -> int:
        """Return the number of the newest answer that two sites have begun.

        It is beyond ours where this folder was put back from an older copy. One site
        alone may say what it likes.
        """
        begun = sorted(news.begun for _, news in self._news.values())
        return begun[-2] if len(begun) > 1 else 0

    def tell_the_end(self) -> None:
        """Tell everybody who is here that there will be no further answer."""
        over = encode(AskNews(self.federation, over=True))
        tickets = {self.engine.send(address, over) for address in self.engine.nodes()}
        for _ in range(LAST_LOOKS):
            tickets -= {answer.ticket for answer in self.engine.poll()}
            if not tickets:
                return
            self.sleep(1.0)
            self.engine.nodes()


def _nobody(address: int) -> None:
    """Know nobody: without keys a name is what a site says it is."""


def _next(
    folder: Path, state: State, reason: str, here: tuple[str, ...], known: int
) -> State:
    """Return the state of the next answer, which those who are here begin."""
    number = max(state.number, known) + 1
    (folder / REQUESTS / RENEW).unlink(missing_ok=True)
    begun = State(number, state.newest, RUNNING, reason, here, (), state.forgotten)
    # Before anybody is asked: the number must not be used twice.
    begun.write(folder)
    return begun


def _kept(folder: Path, before: State, state: State) -> State:
    """Keep a state, if it is another one than before."""
    if state != before:
        state.write(folder)
    return state
