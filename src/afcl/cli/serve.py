# SPDX-License-Identifier: Apache-2.0
"""``afcl serve``, ``enrol``, ``status``: the coordinator's side of a live run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from afcl.cli.addresses import PORT, shown
from afcl.cli.settings import (
    AtLeastTwo,
    Cohort,
    EngineName,
    Granularity,
    Holders,
    Insecure,
    Seed,
    bounds,
    scale_of,
    settings,
)
from afcl.cli.signals import Ended, ended_by_signals
from afcl.cli.standing import (
    Every,
    ForgetAfter,
    Look,
    MostAnswers,
    Standings,
    Stands,
    standing_of,
)
from afcl.cli.tables import Category, categories
from afcl.durable import disk_trouble, remove, replacing
from afcl.exceptions import InputError, Interrupted, Stopped, Terminated
from afcl.occupied import occupied
from afcl.owner_only import all_owner_only
from afcl.registry import ways_to_write
from afcl.runtime.live.engines import DEFAULT, get_launcher
from afcl.runtime.live.enrolment import ENROLLED, enrolled_files

if TYPE_CHECKING:
    from afcl.cli.engine_watch import EngineWatch
    from afcl.cli.status import RunLog
    from afcl.runtime.live.engine import Launcher, Server, Tls
    from afcl.runtime.live.server import RunPlan

#: Seconds between two looks at the run.
PAUSE = 0.5
#: Seconds between two questions to the engine whether the run still goes on.
LOOK = 60.0
#: The certificates, below the run's folder.
CERTIFICATES = "tls"
INSECURE = "no TLS: what is sent can be read and changed on the way; anybody can join"


Out = Annotated[Path | None, typer.Option(help="Folder of the run.", metavar="DIR")]
Resume = Annotated[
    Path | None,
    typer.Option(help="Go on with the interrupted run in this folder.", metavar="DIR"),
]
MinClients = Annotated[
    int, typer.Option(min=1, help="Begin when so many sites fit together.")
]
Certificates = Annotated[
    Path | None,
    typer.Option(
        help="Folder with ca.crt, server.crt, server.key; made if empty (DIR/tls).",
        metavar="DIR",
    ),
]
Hostnames = Annotated[
    list[str],
    typer.Option(
        "--hostname", help="Name sites reach this machine by, for the certificate."
    ),
]
Bounds = Annotated[
    list[str],
    typer.Option(
        help="Public bounds of a column, so that none are asked for: age=0:120."
    ),
]
Level = Annotated[
    str | None,
    typer.Option(help=f"{ways_to_write('default')}: see docs/privacy.md."),
]
Patience = Annotated[
    float, typer.Option(min=0, help="End after so many seconds without any answer.")
]
Linger = Annotated[
    float,
    typer.Option(
        min=0, help="Stay open for late joiners so many seconds after the end."
    ),
]
ServeEnd = Annotated[
    float,
    typer.Option(
        min=0,
        help="Seconds for which a site that was away at the end gets its labels when "
        "it is back (a day).",
    ),
]
EnginePatience = Annotated[
    float,
    typer.Option(min=0, help="Give up after so many seconds of a stalled engine."),
]
MaxRounds = Annotated[
    int | None,
    typer.Option(
        min=1, help="End when sites have answered so often, on average (100)."
    ),
]


MaxRows = Annotated[
    int | None,
    typer.Option(
        min=1, help="Refuse sites that say they have more rows: rows are weight."
    ),
]


def serve(
    out: Out = None,
    resume: Resume = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = PORT,
    min_clients: MinClients = 3,
    tls: Certificates = None,
    names: Hostnames = [],
    insecure: Insecure = False,
    ranges: Bounds = [],
    columns: Annotated[
        list[str], typer.Option(help="Use exactly these columns; repeat.")
    ] = [],
    category: Category = [],
    patience: Patience = 600.0,
    linger: Linger = 0.0,
    serve_end: ServeEnd = 86_400.0,
    max_rounds: MaxRounds = None,
    engine_patience: EnginePatience = 120.0,
    max_rows: MaxRows = None,
    stands: Stands = False,
    every: Every = 0.0,
    forget_after: ForgetAfter = 604800.0,
    answers: MostAnswers = 0,
    look: Look = 60.0,
    min_cell: Annotated[
        int | None, typer.Option(help="Smallest group of rows (5).")
    ] = None,
    privacy: Level = None,
    cohort: Cohort = None,
    holders: Holders = None,
    allow_one: AtLeastTwo = None,
    granularity: Granularity = None,
    seed: Seed = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings as for 'afcl run'.")
    ] = None,
    engine: EngineName = DEFAULT,
) -> None:
    """Coordinate a run between machines, on Flower.

    Sites join with 'afcl join'. Killed or stopped, 'afcl serve --resume DIR' goes on.
    """
    if (out is None) == (resume is None):
        raise InputError("give --out DIR for a new run, or --resume DIR for an old one")
    if insecure and tls is not None:
        raise InputError("--insecure and --tls exclude each other: leave one out")
    folder = Path(out or resume or ".").resolve()
    with occupied(folder, "afcl serve", private=True):
        if resume is not None:
            plan = _old_plan(folder)
            if plan is None:
                return
        else:
            flags = {
                "min_cell": min_cell,
                "privacy": privacy,
                "cohort": cohort,
                "holders": holders,
                "allow_one": allow_one,
                "granularity": granularity,
                "seed": seed,
                "max_rounds": max_rounds,
                "columns": tuple(columns),
                "category": tuple(category),
            }
            chosen = settings(config, flags)
            waits = (patience, linger, serve_end)
            standing = standing_of(stands, every, forget_after, answers, look)
            plan = _new_plan(folder, chosen, min_clients, ranges, *waits, max_rows)
            plan = replace(plan, standing=standing)
        launcher, certificates = get_launcher(engine), None
        if insecure:
            print(f"warning: {INSECURE}", file=sys.stderr)
        else:
            where = tls or folder / CERTIFICATES
            certificates = launcher.certificates(where, [*names, host])
        plan = replace(plan, signed=certificates is not None)
        at = _Place(host, port, tuple(names), certificates)
        _coordinate(launcher, folder, plan, at, engine_patience)


class _Place(NamedTuple):
    """Where a coordinator listens, and what sites need to reach it."""

    host: str
    port: int
    names: tuple[str, ...]
    tls: Tls | None


def _old_plan(folder: Path) -> RunPlan | None:
    """Return the plan of the run to go on with, None if it is finished.

    Also of a finished one of which somebody may still come for the end.
    """
    from afcl.runtime.live.farewell import may_go_on
    from afcl.runtime.live.server import RunPlan

    plan = RunPlan.read(folder)
    if not _is_done(folder, plan) or may_go_on(folder):
        return plan
    typer.echo(f"{folder} is finished; nothing to resume.")
    return None


def _is_done(folder: Path, plan: RunPlan) -> bool:
    """Whether the last result is there."""
    from afcl.runtime.live.numbered import OVER, State
    from afcl.runtime.results import RESULT

    if plan.standing is not None:
        return State.read(folder).stage == OVER
    return (folder / RESULT).is_file()


def _new_plan(
    folder: Path,
    chosen: dict[str, Any],
    min_clients: int,
    ranges: list[str],
    patience: float,
    linger: float,
    serve_end: float,
    max_rows: int | None,
) -> RunPlan:
    import secrets

    from afcl.cli.run import chosen_method
    from afcl.methods.presets import at_default_level
    from afcl.privacy import EXACT_WARNING
    from afcl.runtime.live.server import PLAN, RunPlan

    if (folder / PLAN).exists():
        raise InputError(
            f"{folder} holds a run already: go on with 'afcl serve --resume {folder}', "
            "or choose another folder"
        )
    scale_of(chosen["scale"], ranges or chosen["ranges"], live=True)
    method, options, level = chosen_method(chosen)
    options, reason = at_default_level(method, options, min_clients, live=True)
    parameters = {**chosen, "privacy": level}
    if reason:
        parameters |= {"privacy": options["privacy"], "privacy_reason": reason}
    method.parameters(**options)
    if level == "exact":
        print(f"warning: {EXACT_WARNING}", file=sys.stderr)
    plan = RunPlan(
        secrets.token_hex(8),
        method.name,
        options,
        chosen["seed"],
        chosen["max_rounds"],
        min_clients,
        chosen["columns"],
        bounds(ranges or chosen["ranges"]),
        patience,
        linger,
        parameters=parameters,
        categories=categories(chosen["category"]),
        serve_end=serve_end,
    )
    if max_rows is not None:
        plan = replace(plan, max_rows=max_rows)
    plan.request()
    if reason:
        print(f"privacy {options['privacy']}: {reason}", file=sys.stderr)
    return plan


@all_owner_only()
def _coordinate(
    launcher: Launcher, folder: Path, plan: RunPlan, at: _Place, engine_patience: float
) -> None:
    """Start the engine, watch the run, end the engine whatever happens."""
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
        known = _begin(folder, plan, server, at)
        _watch(folder, plan, server, engine, log, known)
        if plan.standing is None:
            _say_result(folder)
            watch_end(folder, server, run_log)


def _say_result(folder: Path) -> None:
    from afcl.cli.report import write_at_the_end
    from afcl.cli.run import warn_of_fine
    from afcl.cli.words import headline, trust_in_words
    from afcl.runtime.results import read_result

    result = read_result(folder)
    page = write_at_the_end(folder)
    look = "" if page is None else f"; look at {page} in a browser"
    warn_of_fine(result)
    typer.echo(f"{headline(result)}. Result in {folder}{look}.")
    _echo(trust_in_words(result))


@contextmanager
def _going_on_later(folder: Path, plan: RunPlan) -> Iterator[None]:
    """Say how a run that was stopped goes on; or that it has not begun."""
    from afcl.runtime.live.server import PLAN

    try:
        yield
    except (KeyboardInterrupt, Ended) as error:
        if _is_done(folder, plan):
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


def _how_to_go_on(why: str, folder: Path) -> str:
    from afcl.runtime.live.server import PLAN

    if not (folder / PLAN).is_file():
        return f"{why} before it began; the same command begins it"
    return f"{why}; 'afcl serve --resume {folder}' goes on"


def _begin(folder: Path, plan: RunPlan, server: Server, at: _Place) -> set[Path] | None:
    """Have the run served; return the keys that are enrolled, None: no keys are needed.

    The engine runs; from here on there is something to resume.
    """
    from afcl.runtime.heartbeat import HEARTBEAT
    from afcl.runtime.live.server import FAILED, PLAN

    new = not (folder / PLAN).is_file()
    for name in (FAILED, HEARTBEAT):
        remove(folder / name)
    known: set[Path] | None = None if at.tls is None else set()
    try:
        plan.write(folder)
        _say_welcome(at, plan)
        if known is not None:
            _enrol_new(folder, server, known)
        server.begin()
    except BaseException:
        if new:
            remove(folder / PLAN)
        raise
    return known


def _watch(
    folder: Path,
    plan: RunPlan,
    server: Server,
    engine: EngineWatch,
    log: RunLog | Standings,
    known: set[Path] | None,
) -> None:
    """Say what is new in a run until its last result is there."""
    from afcl.cli.report import write_at_the_end
    from afcl.runtime.heartbeat import read_beat
    from afcl.runtime.live.server import read_failure

    looked = time.monotonic()
    while not _is_done(folder, plan):
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
        if known is not None:
            engine.ask(partial(_enrol_new, folder, server, known))
        time.sleep(PAUSE)
    _echo(log.new_lines())


def _check(folder: Path, plan: RunPlan, server: Server) -> None:
    """End with one line if the engine has given the run up."""
    trouble = server.trouble()
    if trouble is not None and not _is_done(folder, plan):
        raise Stopped(_how_to_go_on(trouble, folder))


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _say_welcome(at: _Place, plan: RunPlan) -> None:
    how = "--insecure" if at.tls is None else f"--ca {at.tls.ca} --key KEY"
    where = shown(at.host, at.port, at.names)
    typer.echo(
        f"Listening on {at.host}:{at.port} for {plan.min_clients} sites or more. "
        f"A site joins with: afcl join {where} --data FILE --name NAME "
        f"--out DIR {how}"
    )


def _enrol_new(folder: Path, server: Server, known: set[Path]) -> None:
    """Register keys that were put into the run's folder since the last look.

    They are `known` from then on.
    """
    for key in sorted(enrolled_files(folder) - known):
        server.enrol(key)
        known.add(key)
        typer.echo(f"enrolled {key.stem}")


def enrol(
    keys: Annotated[
        list[Path], typer.Argument(help="Public keys of sites.", metavar="KEY")
    ],
    run: Annotated[
        Path | None,
        typer.Option(help="Folder of the run (the only one here).", metavar="DIR"),
    ] = None,
) -> None:
    """Let sites join a run: their public keys, made with 'afcl keygen'.

    Works before and while the run is served; a restart remembers them.
    """
    folder = run if run is not None else _only_run(Path.cwd())
    for key in keys:
        if not key.is_file():
            raise InputError(f"no file {key}: give the .pub file of 'afcl keygen'")
        if not key.read_bytes().startswith(b"ecdsa-sha2-"):
            raise InputError(f"{key} is no public key of 'afcl keygen': give KEY.pub")
    to = folder / ENROLLED
    to.mkdir(parents=True, exist_ok=True)
    for key in keys:
        with replacing(to / key.name, "wb", part=to / f".{key.name}") as file:
            file.write(key.read_bytes())
        typer.echo(f"{key.name} may join the run in {folder}")


def _only_run(where: Path) -> Path:
    from afcl.runtime.live.server import PLAN

    runs = [where] if (where / PLAN).is_file() else []
    runs += [path.parent for path in sorted(where.glob(f"*/{PLAN}"))]
    if len(runs) != 1:
        raise InputError(
            f"{len(runs)} runs in {where}: say which one with --run DIR (the --out of "
            "'afcl serve')"
        )
    return runs[0]
