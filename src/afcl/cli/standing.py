# SPDX-License-Identifier: Apache-2.0
"""``afcl renew`` and ``forget``; what ``serve`` says of a federation that goes on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afcl.exceptions import InputError

if TYPE_CHECKING:
    from afcl.cli.status import RunLog
    from afcl.runtime.live.numbered import Standing, State

Stands = Annotated[
    bool,
    typer.Option(
        "--standing",
        help="Go on after the first answer: a new one when rows change, sites come, or "
        "'afcl renew' and 'afcl forget' ask for it.",
    ),
]
Every = Annotated[
    float,
    typer.Option(min=0, help="With --standing: a new answer every so many seconds."),
]
ForgetAfter = Annotated[
    float,
    typer.Option(
        min=0,
        help="With --standing: a site away for so many seconds is left out of the next "
        "answer (a week).",
    ),
]
MostAnswers = Annotated[
    int, typer.Option("--answers", min=0, help="With --standing: end after so many.")
]
Look = Annotated[
    float,
    typer.Option(min=0.1, help="With --standing: ask for news every so many seconds."),
]
Folder = Annotated[
    Path, typer.Argument(help="Folder of the federation.", metavar="DIR")
]


def standing_of(
    stands: bool, every: float, forget_after: float, answers: int, look: float
) -> Standing | None:
    """Return how the federation goes on, None if it ends with its first answer."""
    from afcl.runtime.live.numbered import Standing

    if not stands:
        if every or answers:
            raise InputError("--every and --answers need --standing")
        return None
    return Standing(
        every=every,
        look=look,
        quiet=min(look, Standing.quiet),
        forget_after=forget_after,
        answers=answers,
    )


def renew(folder: Folder) -> None:
    """Ask a federation that goes on for a new answer now."""
    from afcl.runtime.live.numbered import ask_to_renew

    state = _state(folder)
    if state.stage == "over":
        raise InputError(f"the federation in {folder} is over")
    ask_to_renew(folder)
    typer.echo(f"A new answer is asked for: see 'afcl status {folder}'.")


def forget(
    site: Annotated[str, typer.Argument(help="Name of the site.")],
    run: Annotated[Path, typer.Option(help="Folder of the federation.", metavar="DIR")],
) -> None:
    """Forget a site: remove what it said, and answer without it.

    Answers that it took part in are withdrawn. The next one is as if it had never been
    there; the sites that remain are asked again for it.
    """
    from afcl.cli.continuing import Served
    from afcl.occupied import holder, occupied
    from afcl.runtime.live.engines import get_launcher
    from afcl.runtime.live.numbered import Answers, ask_to_forget, forget_site

    state = _state(run)
    known = [name for name in Answers.read(run, state.newest).roster if name]
    if site not in known:
        raise InputError(f"no site is called {site} in {run}, only {', '.join(known)}")
    if holder(run) is None:
        launcher = get_launcher((Served.read(run) or Served()).engine)
        with occupied(run, "afcl forget", private=True):
            forget_site(run, state, site)
            launcher.forget_messages(run)
        typer.echo(
            f"{site} is forgotten; the next answer is found when this is served again: "
            f"'afcl serve --resume {run}'. If {site} took part in the newest one, "
            "nothing is left to compare with, and all clusters get new names."
        )
        return
    ask_to_forget(run, site)
    typer.echo(
        f"{site} is being forgotten by the process that serves {run}, and the next "
        f"answer is found without it: see 'afcl status {run}'."
    )


def _state(folder: Path) -> State:
    from afcl.runtime.live.numbered import STANDING, State

    if not (folder / STANDING).is_file():
        raise InputError(
            f"{folder} holds no federation that goes on: begin one with 'afcl serve "
            f"--out {folder} --standing'"
        )
    return State.read(folder)


class Standings:
    """What is new in a federation that goes on, followed as it grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._stage = ""
        self._log: RunLog | None = None

    def new_lines(self) -> list[str]:
        """Return what has happened since the last call, a line each."""
        from afcl.cli.status import RunLog
        from afcl.runtime.live.numbered import State
        from afcl.runtime.live.staying import answer_folder

        state = State.read(self._folder)
        lines = []
        if state.number != self._number:
            self._number = state.number
            self._log = RunLog(answer_folder(self._folder, state.number))
            because = f" ({state.reason})" if state.reason else ""
            lines.append(f"answer {state.number}{because}")
        if self._log is not None:
            lines += self._log.new_lines()
        described = state.in_words()
        if described != self._stage:
            self._stage = described
            if state.stage == "waiting":
                lines += self._found()
            lines.append(described)
        return lines

    def _found(self) -> list[str]:
        from afcl.cli.report import write_at_the_end
        from afcl.cli.words import headline, note_in_words, trust_in_words
        from afcl.runtime.live.staying import answer_folder
        from afcl.runtime.results import read_result

        result = read_result(self._folder)
        if result.get("withdrawn"):
            return []
        page = write_at_the_end(answer_folder(self._folder, result["answer"]))
        if page is not None:
            shutil.copyfile(page, self._folder / page.name)
        line = f"answer {result['answer']}: {headline(result)}"
        more = (*trust_in_words(result), *note_in_words(result))
        return [line, *changed(result), *more]


def changed(result: dict[str, Any]) -> list[str]:
    """Return what is not as it was in the answer before, a line each."""
    return [f"  {change['text']}" for change in result.get("changes", [])]
