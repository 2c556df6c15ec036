# SPDX-License-Identifier: Apache-2.0
"""The end of a live run: told to who is there, and kept for who comes back later.

The result is written before anybody is told. Who is away then gets its labels when it
is back, for as long as the end is served; a server that is killed meanwhile goes on
with it. Two files in the run's folder hold what that takes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from afcl._typing import ClientId
from afcl.core.terms import Finish, Noted
from afcl.exceptions import RejectedMessage
from afcl.runtime.codec import decode, encode
from afcl.runtime.journal import AGREEMENT, COORDINATOR, Entry, Journal
from afcl.runtime.live.admission import Admission
from afcl.runtime.live.reception import LARGEST_MESSAGE
from afcl.runtime.refusals import MOST_IN_A_ROW
from afcl.runtime.results import RESULT, write_text
from afcl.runtime.transport import Failure, Reply

#: How far the end has been told.
END = "end.json"
#: What is told, and who took part.
END_JOURNAL = "end.bin"
#: Stands where a contact would, in the entry that holds what is told.
_FAREWELL = -3
# States of an end.
#: Who is there is being told.
TELLING = "telling"
#: It is kept for the others.
SERVING = "serving"
#: It is not served any more.
OVER = "over"


@dataclass(frozen=True)
class EndState:
    """How far the end of a run has been told.

    Attributes
    ----------
    state
        `telling`, `serving` or `over`.
    until
        The time at which it is over for everybody, by the coordinator's clock.
    told, missing
        Names of the sites that have noted it, and of the others.
    """

    state: str
    until: float
    told: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def write(self, folder: Path) -> None:
        """Keep it in the run's folder."""
        write_text(folder / END, json.dumps(asdict(self), indent=2) + "\n", True)


def read_end(folder: Path) -> EndState | None:
    """Return how far the end of the run in a folder has been told, None before it."""
    path = folder / END
    if not path.is_file():
        return None
    fields = json.loads(path.read_text(encoding="utf-8"))
    names = {name: tuple(fields[name]) for name in ("told", "missing")}
    return EndState(**{**fields, **names})


def is_served(folder: Path) -> bool:
    """Whether a run has its result, and everything is told that will be."""
    end = read_end(folder)
    return (folder / RESULT).is_file() and (end is None or end.state == OVER)


def may_go_on(folder: Path) -> bool:
    """Whether somebody misses the end of a finished run, and may still have it."""
    end = read_end(folder)
    return end is not None and bool(end.missing) and time.time() < end.until


def keep_end(
    folder: Path, journal: Journal, finish: Finish, names: list[str], served: float
) -> None:
    """Keep what is told at the end, before the run's own journal goes.

    Parameters
    ----------
    folder
        The run's.
    journal
        Of the run: it has who took part.
    finish
        What everybody is told; the number of the client is filled in.
    names
        Of those whom the end is served for; others who took part get it as well.
    served
        Seconds for which who is away may come back for it.
    """
    path = folder / END_JOURNAL
    # Of an end that was interrupted while it was being kept.
    path.unlink(missing_ok=True)
    with Journal(path, finish.terms.run) as kept:
        for entry in journal.log:
            # Who took part, and nothing that anybody said: the rest goes with the run's
            # journal.
            if entry.contact == AGREEMENT:
                kept.record(entry)
        kept.record(Entry(COORDINATOR, _FAREWELL, encode(finish)))
    state = EndState(TELLING, time.time() + served, missing=tuple(sorted(names)))
    state.write(folder)


class Farewell:
    """Tells the sites of a run its end.

    Parameters
    ----------
    folder
        The run's, in which :func:`keep_end` has been.
    admission
        Reaches the sites.
    journal
        What :func:`keep_end` wrote, opened.
    say
        Receives a line for people.
    """

    def __init__(
        self,
        folder: Path,
        admission: Admission,
        journal: Journal,
        say: Callable[[str], None],
    ) -> None:
        end = read_end(folder)
        assert end is not None
        self._folder, self._say = folder, say
        self._admission, self._end = admission, end
        self._finish: Finish = decode(journal.entries[COORDINATOR, _FAREWELL].data)
        self._failures: Counter[ClientId] = Counter()
        admission.close_doors(journal)

    def serve(self, grace: float) -> None:
        """Tell who is there, for `grace` seconds at most; then wait for the others."""
        start = time.time()
        while self._end.missing and time.time() < max(start + grace, self._end.until):
            self._admission.look()
            asked = self._ask()
            self._hear()
            # Everybody who is here knows: whoever started the run need not wait for the
            # others.
            if not asked and self._end.state == TELLING:
                self._change(state=SERVING)
            if not asked and time.time() >= self._end.until:
                break
        self._change(state=OVER)

    def _ask(self) -> bool:
        """Tell who is here and has not noted it; return whether somebody is asked."""
        names = self._admission.roster.names
        # Who comes back may have mended what it could not do before.
        for client in set(self._failures) - {*self._admission.present()}:
            del self._failures[client]
        for client in self._admission.members():
            untold = names[client] not in self._end.told
            # A site that cannot note it must not be asked without end.
            if untold and self._failures[client] < MOST_IN_A_ROW:
                terms = replace(self._finish.terms, client=client)
                message = encode(replace(self._finish, terms=terms))
                self._admission.send(client, _FAREWELL, message)
        return self._admission.busy()

    def _hear(self) -> None:
        names, noted = self._admission.roster.names, []
        for answer in self._admission.poll():
            if _is_noted(answer):
                noted.append(names[answer.client])
            else:
                self._failures[answer.client] += 1
        if noted:
            self._say(f"told the end to {', '.join(sorted(noted))}")
            informed = {*self._end.told, *noted}
            missing = {*self._end.missing} - informed
            self._change(told=tuple(sorted(informed)), missing=tuple(sorted(missing)))

    def _change(self, **changes: object) -> None:
        self._end = replace(self._end, **changes)  # type: ignore[arg-type]
        self._end.write(self._folder)


def _is_noted(answer: Reply | Failure) -> bool:
    if isinstance(answer, Failure):
        return False
    try:
        return isinstance(decode(answer.data, LARGEST_MESSAGE), Noted)
    except RejectedMessage:
        return False
