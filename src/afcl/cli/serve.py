# SPDX-License-Identifier: Apache-2.0
"""``afcl serve``: the coordinator's side of a live run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afcl.cli.settings import (
    AtLeastTwo,
    Cohort,
    EngineName,
    Granularity,
    Holders,
    Insecure,
    Seed,
    bounds,
    settings,
)
from afcl.exceptions import InputError
from afcl.owner_only import all_owner_only
from afcl.registry import ways_to_write
from afcl.runtime.live.engines import DEFAULT, get_launcher

if TYPE_CHECKING:
    from afcl.runtime.live.engine import Launcher, Server, Tls
    from afcl.runtime.live.registrar import Registrar
    from afcl.runtime.live.server import RunPlan

#: Seconds between two looks at the run.
PAUSE = 0.5
#: Seconds between two questions to the engine whether the run still goes on.
LOOK = 60.0
#: The certificates, below the federation's folder.
CERTIFICATES = "tls"
INSECURE = (
    "no TLS: what is sent can be read and changed on the way; anybody can join, under "
    "any name"
)


Out = Annotated[Path | None, typer.Option(help="Folder of the run.", metavar="DIR")]
Resume = Annotated[
    Path | None,
    typer.Option(help="Go on with the interrupted run in this folder.", metavar="DIR"),
]
FederationFolder = Annotated[
    Path | None,
    typer.Option(
        "--federation",
        help="Folder with the keys, names and certificates of many runs (the run's).",
        metavar="DIR",
    ),
]
MinClients = Annotated[
    int, typer.Option(min=1, help="Begin when so many sites fit together.")
]
Certificates = Annotated[
    Path | None,
    typer.Option(
        help="Folder with ca.crt, server.crt, server.key; made if empty (tls in the "
        "federation's folder).",
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
    float, typer.Option(help="End after so many seconds without any answer.")
]
Linger = Annotated[
    float,
    typer.Option(help="Stay open for late joiners so many seconds after the end."),
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
    federation: FederationFolder = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    min_clients: MinClients = 3,
    tls: Certificates = None,
    names: Hostnames = [],
    insecure: Insecure = False,
    ranges: Bounds = [],
    columns: Annotated[
        list[str], typer.Option(help="Use exactly these columns; repeat.")
    ] = [],
    patience: Patience = 600.0,
    linger: Linger = 0.0,
    max_rows: MaxRows = None,
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
    if resume is not None:
        plan = _old_plan(folder)
        if plan is None:
            return
        _check_federation(plan, folder, federation)
    else:
        flags = {
            "min_cell": min_cell,
            "privacy": privacy,
            "cohort": cohort,
            "holders": holders,
            "allow_one": allow_one,
            "granularity": granularity,
            "seed": seed,
            "columns": tuple(columns),
        }
        chosen = settings(config, flags)
        waits = (patience, linger)
        plan = _new_plan(folder, chosen, min_clients, ranges, *waits, max_rows)
        if federation is not None:
            plan = replace(plan, federation=os.path.relpath(federation, folder))
            plan.write(folder)
    launcher, certificates = get_launcher(engine), None
    if insecure:
        print(f"warning: {INSECURE}", file=sys.stderr)
    else:
        where = tls or plan.members(folder).folder / CERTIFICATES
        certificates = launcher.certificates(where, [*names, host], _note)
    plan = replace(plan, signed=certificates is not None)
    plan.write(folder)
    _coordinate(launcher, folder, plan, host, port, certificates)


def _old_plan(folder: Path) -> RunPlan | None:
    """Return the plan of the run to go on with, None if it is finished."""
    from afcl.runtime.live.server import RunPlan
    from afcl.runtime.results import RESULT

    plan = RunPlan.read(folder)
    if not (folder / RESULT).is_file():
        return plan
    typer.echo(f"{folder} is finished; nothing to resume.")
    return None


def _check_federation(plan: RunPlan, folder: Path, given: Path | None) -> None:
    """Refuse another federation than the one that the run began in."""
    own = plan.members(folder).folder
    if given is not None and given.resolve() != own:
        raise InputError(
            f"the run in {folder} belongs to the federation in {own}: leave out "
            "--federation, or begin another run"
        )


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _new_plan(
    folder: Path,
    chosen: dict[str, Any],
    min_clients: int,
    ranges: list[str],
    patience: float,
    linger: float,
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
            keys = None if tls is None else _registrar(folder, plan, server)
            _watch(folder, server, keys)
    except (KeyboardInterrupt, Ended):
        text = f"stopped; 'afcl serve --resume {folder}' goes on"
        raise Interrupted(text) from None
    result = read_result(folder)
    page = write_at_the_end(folder)
    look = "" if page is None else f"; look at {page} in a browser"
    warn_of_fine(result)
    typer.echo(f"{headline(result)}. Result in {folder}{look}.")
    _echo(trust_in_words(result))


def _registrar(folder: Path, plan: RunPlan, server: Server) -> Registrar:
    from afcl.runtime.live.registrar import Registrar

    return Registrar(plan.members(folder), folder, server, typer.echo)


def _watch(folder: Path, server: Server, keys: Registrar | None) -> None:
    """Have the run served; say what is new in it until there is a result."""
    from afcl.cli.report import write_at_the_end
    from afcl.cli.status import RunLog
    from afcl.runtime.live.server import read_failure
    from afcl.runtime.results import RESULT

    if keys is not None:
        keys.look()
    server.begin()
    log, looked = RunLog(folder), time.monotonic()
    while not (folder / RESULT).is_file():
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
            if trouble is not None and not (folder / RESULT).is_file():
                again = f"'afcl serve --resume {folder}'"
                raise InputError(f"{trouble}: go on with {again}")
        if keys is not None:
            keys.look()
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
