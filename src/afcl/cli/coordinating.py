# SPDX-License-Identifier: Apache-2.0
"""A live run being coordinated: the engine started, watched, and ended in any case."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from afcl.cli.addresses import shown
from afcl.cli.signals import Ended, ended_by_signals
from afcl.cli.standing import Standings
from afcl.durable import disk_trouble, no_space, remove
from afcl.exceptions import InputError, Interrupted, Stopped, Terminated
from afcl.owner_only import all_owner_only

if TYPE_CHECKING:
    from afcl.cli.engine_watch import EngineWatch
    from afcl.cli.status import RunLog
    from afcl.runtime.live.engine import Launcher, Server, Tls
    from afcl.runtime.live.registrar import Registrar
    from afcl.runtime.live.server import RunPlan

#: Seconds between two looks at the run.
PAUSE = 0.5
#: Seconds between two questions to the engine whether the run still goes on.
LOOK = 60.0


class Place(NamedTuple):
    """Where a coordinator listens, and what sites need to reach it."""

    host: str
    port: int
    names: tuple[str, ...]
    tls: Tls | None
    #: Looks after what may end while it listens; called at every look at the run.
    upkeep: Callable[[], None]


@all_owner_only()
def coordinate(
    launcher: Launcher,
    folder: Path,
    plan: RunPlan,
    at: Place,
    engine_patience: float,
    keep: Callable[[Path], None],
) -> None:
    """Start the engine, watch the run, end the engine whatever happens.

    `keep` writes into the folder how the run is served, once it is.
    """
    from afcl.cli.engine_watch import EngineWatch
    from afcl.cli.serve_end import watch_end
    from afcl.cli.status import RunLog

    again = f"go on with 'afcl serve --resume {folder}'"
    engine, run_log = EngineWatch(engine_patience, typer.echo, again), RunLog(folder)
    log = run_log if plan.standing is None else Standings(folder)
    with (
        _going_on_later(folder, plan),
        ended_by_signals(),
        launcher.serve(folder, at.host, at.port, at.tls) as server,
    ):
        keys = None if at.tls is None else _registrar(folder, plan, server)
        _begin(folder, plan, server, at, keys)
        keep(folder)
        _watch(folder, plan, server, engine, log, keys, at.upkeep)
        if plan.standing is None:
            _say_result(folder)
            watch_end(folder, server, run_log)


def _say_result(folder: Path) -> None:
    from afcl.cli.report import write_at_the_end
    from afcl.cli.run import warn_of_fine
    from afcl.cli.words import headline, note_in_words, trust_in_words
    from afcl.runtime.results import read_result

    result = read_result(folder)
    page = write_at_the_end(folder)
    look = "" if page is None else f"; look at {page} in a browser"
    warn_of_fine(result)
    typer.echo(f"{headline(result)}. Result in {folder}{look}.")
    _echo([*trust_in_words(result), *note_in_words(result)])


@contextmanager
def _going_on_later(folder: Path, plan: RunPlan) -> Iterator[None]:
    """Say how a run that was stopped goes on; or that it has not begun."""
    from afcl.runtime.live.server import PLAN

    try:
        yield
    except (KeyboardInterrupt, Ended) as error:
        if is_done(folder, plan):
            typer.echo(f"stopped; the result in {folder} stays")
        elif isinstance(error, Ended):
            raise Terminated(_how_to_go_on("ended", folder)) from None
        else:
            raise Interrupted(_how_to_go_on("stopped", folder)) from None
    except OSError as error:
        reason = disk_trouble(error)
        if reason is None or not (folder / PLAN).is_file():
            raise
        raise Stopped(_how_to_go_on(reason, folder)) from error
    except InputError as error:  # the engine may have failed on a full disk
        full = no_space(folder)
        if full is None or not (folder / PLAN).is_file():
            raise
        raise Stopped(_how_to_go_on(f"{full} ({error})", folder)) from error


def _how_to_go_on(why: str, folder: Path) -> str:
    from afcl.runtime.live.server import PLAN

    if not (folder / PLAN).is_file():
        return f"{why} before it began; the same command begins it"
    return f"{why}; 'afcl serve --resume {folder}' goes on"


def _registrar(folder: Path, plan: RunPlan, server: Server) -> Registrar:
    from afcl.runtime.live.registrar import Registrar

    return Registrar(plan.members(folder), folder, server, typer.echo)


def _begin(
    folder: Path, plan: RunPlan, server: Server, at: Place, keys: Registrar | None
) -> None:
    """Have the run served.

    The engine runs; from here on there is something to resume.
    """
    from afcl.runtime.heartbeat import HEARTBEAT
    from afcl.runtime.live.server import FAILED, PLAN

    new = not (folder / PLAN).is_file()
    for name in (FAILED, HEARTBEAT):
        remove(folder / name)
    try:
        plan.write(folder)
        _say_welcome(at, plan)
        if keys is not None:
            keys.look()
        server.begin()
    except BaseException:
        if new:
            remove(folder / PLAN)
        raise


def _watch(
    folder: Path,
    plan: RunPlan,
    server: Server,
    engine: EngineWatch,
    log: RunLog | Standings,
    keys: Registrar | None,
    upkeep: Callable[[], None],
) -> None:
    """Say what is new in a run until its last result is there."""
    from afcl.cli.report import write_at_the_end
    from afcl.runtime.heartbeat import read_beat
    from afcl.runtime.live.server import read_failure

    looked = time.monotonic()
    while not is_done(folder, plan):
        _echo(log.new_lines())
        failure = read_failure(folder)
        if failure is not None:
            write_at_the_end(folder)
            raise InputError(failure)
        beat = read_beat(folder)
        if beat is not None and beat.stopped:
            raise Stopped(_how_to_go_on(beat.stopped, folder))
        if not server.alive:
            text = f"the engine ended by itself, see {server.log.parent}"
            raise Stopped(_how_to_go_on(text, folder))
        if time.monotonic() - looked > LOOK:
            answered = engine.ask(partial(_check, folder, plan, server))
            looked = time.monotonic() if answered else looked
        if keys is not None:
            engine.ask(keys.look)
        upkeep()
        time.sleep(PAUSE)
    _echo(log.new_lines())


def _check(folder: Path, plan: RunPlan, server: Server) -> None:
    """End with one line if the engine has given the run up."""
    trouble = server.trouble()
    if trouble is not None and not is_done(folder, plan):
        raise Stopped(_how_to_go_on(trouble, folder))


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _say_welcome(at: Place, plan: RunPlan) -> None:
    how = "--insecure" if at.tls is None else f"--ca {at.tls.ca} --key KEY"
    where = shown(at.host, at.port, at.names)
    typer.echo(
        f"Listening on {at.host}:{at.port} for {plan.min_clients} sites or more. "
        f"A site joins with: afcl join {where} --data FILE --name NAME "
        f"--out DIR {how}"
    )


def is_done(folder: Path, plan: RunPlan) -> bool:
    """Whether the last result is there."""
    from afcl.runtime.live.numbered import OVER, State
    from afcl.runtime.results import RESULT

    if plan.standing is not None:
        return State.read(folder).stage == OVER
    return (folder / RESULT).is_file()
