# SPDX-License-Identifier: Apache-2.0
"""What the coordinator of a federation that goes on keeps: how far it is, its answers.

``standing.json`` in its folder says how far it is. Every answer has a folder below
(``answers/0001``, …), an ordinary run's. The newest has ``lineage.json`` and
``lineage.npz`` beside: all answers so far, who has which number, and what the next one
is compared with.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afcl._typing import ClientId
from afcl.core.lineage import Answered, Lineage
from afcl.exceptions import InputError
from afcl.privacy.files import write_private
from afcl.runtime.live.staying import answer_folder
from afcl.runtime.results import RESULT, read_result, write_result_file
from afcl.runtime.shape_files import CELLS as CELL_FILE
from afcl.runtime.spec import Finished

#: How far a federation is.
STANDING = "standing.json"
#: All answers so far, in the folder of the newest,
LINEAGE = "lineage.json"
#: and their cells.
CELLS = "lineage.npz"
#: What the coordinator is asked to do, a file each.
REQUESTS = "requests"
#: The request for a new answer.
RENEW = "renew"
#: Requests to forget a site begin with this.
FORGET = "forget-"
# Stages of a federation.
#: An answer is being found.
RUNNING = "running"
#: Nothing is to be done.
WAITING = "waiting"
#: An answer is due, and somebody is waited for.
PENDING = "pending"
#: There will be no further answer.
OVER = "over"


@dataclass(frozen=True)
class Standing:
    """How a federation goes on, in seconds.

    Attributes
    ----------
    every
        After so long there is a new answer, whether or not something has changed; 0:
        only if there is a reason.
    look
        Between two questions for news.
    quiet
        So long a reason waits for others.
    forget_after
        A site that is away for longer is left out of the next answer.
    answers
        The federation ends with the answer of this number; 0: it does not end.
    """

    every: float = 0.0
    look: float = 60.0
    quiet: float = 10.0
    forget_after: float = 7 * 86400.0
    answers: int = 0


@dataclass(frozen=True)
class State:
    """How far a federation is.

    Attributes
    ----------
    number, newest, stage
        The answer that is being found, or was found last; the last one that was found
        (0: none); what is being done.
    reason
        Why there is, or will be, another one.
    expected, waiting_for
        Who took part before and takes part in the answer that is being found; who is
        away while one is due.
    forgotten
        Digests of the names of sites that were forgotten: they are not let in.
    """

    number: int = 1
    newest: int = 0
    stage: str = RUNNING
    reason: str = ""
    expected: tuple[str, ...] = ()
    waiting_for: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> State:
        """Return how far the federation in a folder is; it may not have begun."""
        path = folder / STANDING
        if not path.is_file():
            return cls()
        fields = json.loads(path.read_text(encoding="utf-8"))
        lists = ("expected", "waiting_for", "forgotten")
        return cls(**{**fields, **{name: tuple(fields[name]) for name in lists}})

    def write(self, folder: Path) -> None:
        """Keep it, whole or not at all."""
        text = json.dumps(asdict(self), indent=2) + "\n"
        write_private(folder / STANDING, text.encode())

    def in_words(self) -> str:
        """Say how far it is."""
        late = (
            f"; waiting for {', '.join(self.waiting_for)}" if self.waiting_for else ""
        )
        return {
            RUNNING: f"answer {self.number} is being found",
            WAITING: f"answer {self.newest} stands; waiting for something new",
            PENDING: f"answer {self.number + 1} is due ({self.reason}){late}",
            OVER: f"over after answer {self.newest}",
        }[self.stage]

    @property
    def finished(self) -> bool:
        """Whether the answer of this number is there."""
        return self.number == self.newest

    def has_forgotten(self, name: str) -> bool:
        """Whether a site of this name was forgotten."""
        return digest(name) in self.forgotten


@dataclass(frozen=True)
class Answers:
    """All answers of a federation, and the numbers of its sites.

    Attributes
    ----------
    lineage
        The answers.
    roster
        Sites by number; of those that were forgotten only the number is left.
    """

    lineage: Lineage = field(default_factory=Lineage)
    roster: tuple[str, ...] = ()

    @property
    def clients(self) -> tuple[str, ...]:
        """Who took part in the newest answer."""
        answers = self.lineage.answers
        return answers[-1].clients if answers else ()

    @property
    def withdrawn(self) -> bool:
        """Whether somebody who took part in the newest answer was forgotten."""
        answers = self.lineage.answers
        return bool(answers) and answers[-1].withdrawn

    @classmethod
    def read(cls, folder: Path, number: int) -> Answers:
        """Return the answers up to this number; 0: none."""
        if number < 1:
            return cls()
        own = answer_folder(folder, number)
        described = json.loads((own / LINEAGE).read_text(encoding="utf-8"))
        with np.load(own / CELLS, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return cls(Lineage.of_parts(described, arrays), tuple(described["roster"]))

    def write(self, folder: Path, number: int) -> None:
        """Keep them with the newest one; of one that is withdrawn no centres."""
        own = answer_folder(folder, number)
        described, arrays = self.lineage.at_rest().parts()
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_private(own / CELLS, buffer.getvalue())
        text = json.dumps({**described, "roster": list(self.roster)}) + "\n"
        write_private(own / LINEAGE, text.encode())

    @staticmethod
    def drop(folder: Path, number: int) -> None:
        """Delete what a newer answer has beside itself by now."""
        for name in (LINEAGE, CELLS):
            (answer_folder(folder, number) / name).unlink(missing_ok=True)

    def followed(
        self, finished: Finished, names: Mapping[ClientId, str], number: int
    ) -> Answers:
        """Return the answers with one more; `names` are those of who was let in."""
        clustering, last = finished.clustering, None
        if clustering.centers is not None:
            terms = finished.terms
            last = Answered.of(clustering, terms.box, terms.columns)
        roster = [*self.roster, *[""] * (max(names) + 1 - len(self.roster))]
        for client, name in names.items():
            roster[client] = name
        answered = [names[client] for client in sorted(finished.tallies)]
        sizes = [round(size) for size in clustering.sizes.tolist()]
        lineage = self.lineage.followed(last, sizes, answered, number)
        return Answers(lineage, tuple(roster))

    def without(self, name: str) -> Answers:
        """Return the answers when a site is forgotten."""
        roster = tuple("" if other == name else other for other in self.roster)
        return Answers(self.lineage.without(name), roster)

    def recalling(self, last: Answered | None) -> Answers:
        """Return the same, to be compared with what only memory has of the newest."""
        if not self.withdrawn:
            return self
        return replace(self, lineage=replace(self.lineage, last=last))

    def in_words(self) -> list[str]:
        """Say all answers so far, a line each."""
        return [
            f"answer {answer.number}: {len(answer.names)} clusters, "
            f"{len(answer.clients)} sites"
            + (", withdrawn" if answer.withdrawn else "")
            + "".join(f"; {change}" for change in answer.changes)
            for answer in self.lineage.answers
        ]

    def described(self) -> dict[str, Any]:
        """Return what ``result.json`` says of the newest answer among the others."""
        newest = self.lineage.answers[-1]
        history = [
            {**asdict(answer), "changes": [str(change) for change in answer.changes]}
            for answer in self.lineage.answers
        ]
        return {
            "answer": newest.number,
            "cluster_names": list(newest.names),
            "changes": [change.described() for change in newest.changes],
            "history": history,
        }


class SoFar(NamedTuple):
    """How far a federation that goes on is, and its answers."""

    state: State
    answers: Answers

    def facts(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {**asdict(self.state), "answers": self.answers.in_words()}


def answers_of(folder: Path) -> SoFar | None:
    """Return the answers of the federation in a folder; None: it is no such one."""
    if not (folder / STANDING).is_file():
        return None
    state = State.read(folder)
    return SoFar(state, Answers.read(folder, state.newest))


def digest(name: str) -> str:
    """Return what is kept of the name of a site that was forgotten."""
    return sha256(name.encode()).hexdigest()


def ask_to_forget(folder: Path, name: str) -> None:
    """Leave word that a site is to be forgotten."""
    write_private(folder / REQUESTS / f"{FORGET}{digest(name)[:16]}", name.encode())


def ask_to_renew(folder: Path) -> None:
    """Leave word that a new answer is wanted."""
    write_private(folder / REQUESTS / RENEW, b"")


def forget_whom_was_asked(folder: Path, state: State) -> State:
    """Do what the requests to forget ask for; return the state afterwards."""
    for request in sorted((folder / REQUESTS).glob(f"{FORGET}*")):
        if request.suffix == ".part":
            continue
        state = forget_site(folder, state, request.read_text(encoding="utf-8"))
        request.unlink()
    return state


def forget_site(folder: Path, state: State, name: str) -> State:
    """Remove what a site has contributed from everything that lies in the folder.

    Answers it took part in keep their number and the names of their clusters; all else
    of theirs is deleted: centres, sizes and messages held its rows. If the newest is
    one of them, nothing on disk is left to compare the next one with.
    """
    answers = Answers.read(folder, state.newest)
    if state.newest and name not in answers.roster:
        raise InputError(f"no site is called {name} here")
    rest = answers.without(name)
    for before, after in zip(
        answers.lineage.answers, rest.lineage.answers, strict=True
    ):
        if before != after:
            _withdraw(answer_folder(folder, before.number), after.names)
    if state.newest:
        rest.write(folder, state.newest)
    if rest.withdrawn:
        _withdraw_newest(folder)
    number = state.number
    if not state.finished:  # it begins anew, under terms that nobody has heard yet
        shutil.rmtree(answer_folder(folder, number), ignore_errors=True)
        number += 1
    forgotten = (*state.forgotten, digest(name))
    state = replace(
        state,
        number=number,
        reason="a site was forgotten" if state.reason else "",  # it may name the site
        forgotten=tuple(dict.fromkeys(forgotten)),
        expected=tuple(other for other in state.expected if other != name),
        waiting_for=tuple(other for other in state.waiting_for if other != name),
    )
    state.write(folder)
    return state


def _withdraw(own: Path, names: tuple[str, ...]) -> None:
    """Delete all of an answer but that there was one."""
    number = int(own.name)
    for path in own.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    content = {"answer": number, "withdrawn": True, "cluster_names": list(names)}
    write_result_file(own, content, private=True)


def _withdraw_newest(folder: Path) -> None:
    """Mark the newest answer as withdrawn where people look for it."""
    path = folder / RESULT
    if not path.is_file():
        return
    content = {name: read_result(folder)[name] for name in ("answer", "cluster_names")}
    for name in ("centers.csv", "path.csv", CELL_FILE, "report.html"):
        (folder / name).unlink(missing_ok=True)
    write_result_file(folder, {**content, "withdrawn": True}, private=True)
