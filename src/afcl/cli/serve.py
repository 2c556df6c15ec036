# SPDX-License-Identifier: Apache-2.0
"""``afcl serve``, ``enrol``, ``status``: the coordinator's side of a live run."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afcl.cli.config import fill_in
from afcl.cli.settings import (
    DEFAULTS,
    AtLeastTwo,
    Cohort,
    Granularity,
    Holders,
    Insecure,
    Seed,
    bounds,
    completed,
    given,
    scale_of,
)
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
from afcl.exceptions import InputError
from afcl.owner_only import all_owner_only
from afcl.registry import ways_to_write
from afcl.runtime.live.engines import get_launcher
from afcl.runtime.live.enrolment import ENROLLED, enrolled_files

if TYPE_CHECKING:
    from afcl.runtime.live.engine import Launcher, Server, Tls
    from afcl.runtime.live.server import RunPlan

#: Seconds between two looks at the run.
PAUSE = 0.5
#: Seconds between two questions to the engine whether the run still goes on.
LOOK = 60.0
#: Sites that a run waits for unless it is told otherwise.
LEAST = 3
#: The certificates, below the run's folder.
CERTIFICATES = "tls"
INSECURE = "no TLS: what is sent can be read and changed on the way; anybody can join"


Out = Annotated[
    Path | None,
    typer.Option(help="Folder of the run, begun or gone on with.", metavar="DIR"),
]
Resume = Annotated[
    Path | None,
    typer.Option(help="Go on with the run in this folder, only that.", metavar="DIR"),
]
Host = Annotated[
    str | None, typer.Option(help="Address to listen on (127.0.0.1).", metavar="HOST")
]
Port = Annotated[int | None, typer.Option(help="Port to listen on (8000).")]
MinClients = Annotated[
    int | None,
    typer.Option(min=1, help="Begin when so many sites fit together (3)."),
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
    float | None,
    typer.Option(help="End after so many seconds without any answer (600)."),
]
Linger = Annotated[
    float | None,
    typer.Option(help="Stay open for late joiners so many seconds after the end (0)."),
]


MaxRows = Annotated[
    int | None,
    typer.Option(
        min=1, help="Refuse sites that say they have more rows: rows are weight."
    ),
]


def _from_file(context: typer.Context, config: Path | None) -> Path | None:
    return fill_in(context, config, DEFAULTS)


Config = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with these options, and settings as for 'afcl run'.",
        metavar="FILE",
        callback=_from_file,
        is_eager=True,
    ),
]
Engine = Annotated[
    str | None,
    typer.Option("--engine", help="What carries the messages.", metavar="NAME"),
]


def serve(
    out: Out = None,
    resume: Resume = None,
    host: Host = None,
    port: Port = None,
    min_clients: MinClients = None,
    tls: Certificates = None,
    names: Hostnames = [],
    insecure: Insecure = False,
    ranges: Bounds = [],
    columns: Annotated[
        list[str], typer.Option(help="Use exactly these columns; repeat.")
    ] = [],
    category: Category = [],
    patience: Patience = None,
    linger: Linger = None,
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
    config: Config = None,
    engine: Engine = None,
) -> None:
    """Coordinate a run between machines, on Flower.

    Sites join with 'afcl join'. Killed or stopped, the same command goes on, and so
    does 'afcl serve --resume DIR': what the run is, and where it listens, is remembered
    in DIR.
    """
    from afcl.cli.continuing import Served, refuse_changes, served_now
    from afcl.runtime.live.server import PLAN, RunPlan
    from afcl.runtime.results import RESULT

    if (out is None) == (resume is None):
        raise InputError("give --out DIR for a new run, or --resume DIR for an old one")
    if insecure and tls is not None:
        raise InputError("--insecure and --tls exclude each other: leave one out")
    folder = Path(out or resume or ".").resolve()
    flags = {
        "min_cell": min_cell,
        "privacy": privacy,
        "cohort": cohort,
        "holders": holders,
        "allow_one": allow_one,
        "granularity": granularity,
        "seed": seed,
        "columns": tuple(columns),
        "category": tuple(category),
    }
    said = given(config, flags, alone=False)
    standing = standing_of(stands, every, forget_after, answers, look)
    if resume is not None or (folder / PLAN).exists():
        plan = RunPlan.read(folder)
        fixed = {"min_clients": min_clients, "max_rows": max_rows}
        refuse_changes(plan, said, ranges, fixed)
        if standing is not None and standing != plan.standing:
            raise InputError(
                "how a begun run goes on (--standing and what belongs to it) cannot be "
                "changed: leave it out, or begin another run with another --out"
            )
        if (folder / RESULT).is_file() and not _goes_on(folder, plan):
            typer.echo(f"{folder} is finished; nothing to resume.")
            return
        was = Served.read(folder)
        typer.echo(f"Going on with the run in {folder}.")
    else:
        was = None
        plan = _new_plan(
            folder, completed(said), min_clients or LEAST, ranges, max_rows
        )
        plan = replace(plan, standing=standing)
    served = served_now(was, host, port, tls, names, insecure, engine)
    waits: dict[str, Any] = {"patience": patience, "linger": linger}
    plan = replace(plan, **{k: v for k, v in waits.items() if v is not None})
    launcher, certificates = get_launcher(served.engine), None
    if served.insecure:
        print(f"warning: {INSECURE}", file=sys.stderr)
    else:
        where = Path(served.tls) if served.tls else folder / CERTIFICATES
        certificates = launcher.certificates(where, [*served.names, served.host])
    plan = replace(plan, signed=certificates is not None)
    plan.write(folder)
    served.write(folder)
    _coordinate(launcher, folder, plan, served.host, served.port, certificates)


def _goes_on(folder: Path, plan: RunPlan) -> bool:
    """Whether there will be a further answer."""
    from afcl.runtime.live.numbered import OVER, State

    return plan.standing is not None and State.read(folder).stage != OVER


def _new_plan(
    folder: Path,
    chosen: dict[str, Any],
    min_clients: int,
    ranges: list[str],
    max_rows: int | None,
) -> RunPlan:
    import secrets

    from afcl.cli.run import chosen_method
    from afcl.methods.presets import at_default_level
    from afcl.privacy import EXACT_WARNING
    from afcl.runtime.live.server import RunPlan

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
        parameters=parameters,
        categories=categories(chosen["category"]),
    )
    if max_rows is not None:
        plan = replace(plan, max_rows=max_rows)
    plan.request()
    plan.write(folder)
    if reason:
        print(f"privacy {options['privacy']}: {reason}", file=sys.stderr)
    return plan


@all_owner_only()
def _coordinate(
    launcher: Launcher,
    folder: Path,
    plan: RunPlan,
    host: str,
    port: int,
    tls: Tls | None,
) -> None:
    """Start the engine, watch the run, end the engine whatever happens."""
    from afcl.cli.report import write_at_the_end
    from afcl.cli.run import warn_of_fine
    from afcl.cli.signals import Ended, ended_by_signals
    from afcl.cli.words import headline, trust_in_words
    from afcl.exceptions import Interrupted
    from afcl.runtime.live.server import FAILED
    from afcl.runtime.results import read_result

    (folder / FAILED).unlink(missing_ok=True)
    try:
        with ended_by_signals(), launcher.serve(folder, host, port, tls) as server:
            _say_welcome(host, port, tls, plan)
            _watch(folder, plan, server, keys=tls is not None)
    except (KeyboardInterrupt, Ended):
        text = f"stopped; 'afcl serve --resume {folder}' goes on"
        raise Interrupted(text) from None
    result = read_result(folder)
    page = write_at_the_end(folder)
    look = "" if page is None else f"; look at {page} in a browser"
    warn_of_fine(result)
    typer.echo(f"{headline(result)}. Result in {folder}{look}.")
    _echo(trust_in_words(result))


def _watch(folder: Path, plan: RunPlan, server: Server, keys: bool) -> None:
    """Have the run served; say what is new in it until its last result is there."""
    from afcl.cli.report import write_at_the_end
    from afcl.cli.status import RunLog
    from afcl.runtime.live.server import read_failure
    from afcl.runtime.results import RESULT

    known = _enrol_new(folder, server, set()) if keys else set()
    server.begin()
    looked, stands = time.monotonic(), plan.standing is not None
    log = Standings(folder) if stands else RunLog(folder)
    while _goes_on(folder, plan) if stands else not (folder / RESULT).is_file():
        _echo(log.new_lines())
        failure = read_failure(folder)
        if failure is not None:
            write_at_the_end(folder)
            raise InputError(failure)
        if not server.alive:
            raise InputError(
                f"the engine ended by itself: see {server.log.parent}, then go on with "
                f"'afcl serve --resume {folder}'"
            )
        if time.monotonic() - looked > LOOK:
            looked = time.monotonic()
            trouble = server.trouble()
            if trouble is not None and (stands or not (folder / RESULT).is_file()):
                again = f"'afcl serve --resume {folder}'"
                raise InputError(f"{trouble}: go on with {again}")
        if keys:
            known = _enrol_new(folder, server, known)
        time.sleep(PAUSE)
    _echo(log.new_lines())


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _say_welcome(host: str, port: int, tls: Tls | None, plan: RunPlan) -> None:
    how = "--insecure" if tls is None else f"--ca {tls.ca} --key KEY"
    typer.echo(
        f"Listening on {host}:{port} for {plan.min_clients} sites or more. "
        f"A site joins with: afcl join {host}:{port} --data FILE --name NAME "
        f"--out DIR {how}"
    )


def _enrol_new(folder: Path, server: Server, known: set[Path]) -> set[Path]:
    """Register keys that were put into the run's folder since the last look."""
    found = enrolled_files(folder)
    for key in sorted(found - known):
        server.enrol(key)
        typer.echo(f"enrolled {key.stem}")
    return found


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
        part = to / f".{key.name}"
        shutil.copy(key, part)
        os.replace(part, to / key.name)
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
