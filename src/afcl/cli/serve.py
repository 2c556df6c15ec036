# SPDX-License-Identifier: Apache-2.0
"""``afcl serve``: the coordinator's side of a live run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afcl.cli.config import fill_in
from afcl.cli.coordinating import Place, coordinate, is_done
from afcl.cli.settings import (
    DEFAULTS,
    AtLeastTwo,
    Cohort,
    Granularity,
    Holders,
    Insecure,
    Seed,
    Shape,
    bounds,
    chosen_options,
    completed,
    scale_of,
)
from afcl.cli.standing import (
    Every,
    ForgetAfter,
    Look,
    MostAnswers,
    Stands,
    standing_of,
)
from afcl.cli.tables import Category, categories
from afcl.cli.upkeep import Upkeep
from afcl.exceptions import InputError, PrivacyWarning
from afcl.occupied import occupied
from afcl.registry import ways_to_write
from afcl.runtime.live.engines import get_launcher

if TYPE_CHECKING:
    from afcl.cli.continuing import Served
    from afcl.runtime.live.numbered import Standing
    from afcl.runtime.live.server import RunPlan

#: Sites that a run waits for unless it is told otherwise.
LEAST = 3
#: Seconds for which the end of a run stays served.
A_DAY = 86_400.0
#: The certificates, below the federation's folder.
CERTIFICATES = "tls"
INSECURE = (
    "no TLS: what is sent can be read and changed on the way; anybody can join, under "
    "any name"
)


Out = Annotated[
    Path | None,
    typer.Option(help="Folder of the run, begun or gone on with.", metavar="DIR"),
]
Resume = Annotated[
    Path | None,
    typer.Option(help="Go on with the run in this folder, only that.", metavar="DIR"),
]
FederationFolder = Annotated[
    Path | None,
    typer.Option(
        "--federation",
        help="Folder with the keys, names and certificates of many runs (the run's).",
        metavar="DIR",
    ),
]
Host = Annotated[
    str | None, typer.Option(help="Address to listen on (127.0.0.1).", metavar="HOST")
]
Port = Annotated[
    int | None,
    typer.Option(
        min=1, max=65535, help="Port to listen on (8000).", show_default=False
    ),
]
MinClients = Annotated[
    int | None,
    typer.Option(min=1, help="Begin when so many sites fit together (3)."),
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
    float | None,
    typer.Option(min=0, help="End after so many seconds without any answer (600)."),
]
Linger = Annotated[
    float | None,
    typer.Option(
        min=0, help="Stay open for late joiners so many seconds after the end (0)."
    ),
]
ServeEnd = Annotated[
    float | None,
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
    federation: FederationFolder = None,
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
    serve_end: ServeEnd = None,
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
    shape: Shape = None,
    seed: Seed = None,
    config: Config = None,
    engine: Engine = None,
) -> None:
    """Coordinate a run between machines, on Flower.

    Sites join with 'afcl join'. Killed or stopped, the same command goes on, and so
    does 'afcl serve --resume DIR': what the run is, and where it listens, is remembered
    in DIR.
    """
    from afcl.cli.continuing import Served, served_now

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
        "shape": shape,
        "seed": seed,
        "max_rounds": max_rounds,
        "columns": tuple(columns),
        "category": tuple(category),
    }
    options = chosen_options(config, flags, alone=False)
    standing = standing_of(stands, every, forget_after, answers, look)
    sizes = {"min_clients": min_clients, "max_rows": max_rows}
    with occupied(folder, "afcl serve", private=True):
        plan = _old_plan(
            folder, options, ranges, sizes, standing, must=resume is not None
        )
        was = None if plan is None else Served.read(folder)
        if plan is None:
            plan = _new_plan(options, min_clients or LEAST, ranges, max_rows)
            own = "" if federation is None else os.path.relpath(federation, folder)
            plan = replace(plan, standing=standing, federation=own)
        elif _is_over(folder, plan):
            typer.echo(f"{folder} is finished; nothing to resume.")
            return
        else:
            _check_federation(plan, folder, federation)
            typer.echo(f"Going on with the run in {folder}.")
        served = served_now(was, host, port, tls, names, insecure, engine)
        waits = {"patience": patience, "linger": linger, "serve_end": serve_end}
        waiting_times: dict[str, Any] = {
            k: v for k, v in waits.items() if v is not None
        }
        _serve(folder, replace(plan, **waiting_times), served, engine_patience)


def _serve(folder: Path, plan: RunPlan, served: Served, patience: float) -> None:
    """Have the run served as it is said, which is remembered."""
    launcher, certificates = get_launcher(served.engine), None
    upkeep: Callable[[], None] = _nothing
    if served.insecure:
        print(f"warning: {INSECURE}", file=sys.stderr)
    else:
        where = plan.members(folder).folder / CERTIFICATES
        where = Path(served.tls) if served.tls else where
        hosts = [*served.names, served.host]
        certificates = launcher.certificates(where, hosts, _note)
        # One that ends while it is served is renewed, and the engine shows the new one.
        look = partial(launcher.certificates, where, hosts, _note)
        upkeep = Upkeep(look, _note)
    plan = replace(plan, signed=certificates is not None)
    at = Place(served.host, served.port, served.names, certificates, upkeep)
    coordinate(launcher, folder, plan, at, patience, served.write)


def _nothing() -> None:
    """Look after nothing: without TLS nothing ends."""


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _check_federation(plan: RunPlan, folder: Path, named: Path | None) -> None:
    """Refuse another federation than the one that the run began in."""
    own = plan.members(folder).folder
    if named is not None and named.resolve() != own:
        raise InputError(
            f"the run in {folder} belongs to the federation in {own}: leave out "
            "--federation, or begin another run"
        )


def _is_over(folder: Path, plan: RunPlan) -> bool:
    from afcl.runtime.live.farewell import may_go_on

    return is_done(folder, plan) and not may_go_on(folder)


def _old_plan(
    folder: Path,
    options: dict[str, Any],
    ranges: list[str],
    sizes: dict[str, int | None],
    standing: Standing | None,
    must: bool,
) -> RunPlan | None:
    """Return the plan of the run in a folder; refuses what cannot be changed in it.

    None: there is none, and there need not be.
    """
    from afcl.cli.continuing import refuse_changes
    from afcl.runtime.live.server import PLAN, RunPlan

    if not (must or (folder / PLAN).exists()):
        return None
    plan = RunPlan.read(folder)
    refuse_changes(plan, options, ranges, sizes)
    if standing is not None and standing != plan.standing:
        raise InputError(
            "how a begun run goes on (--standing and what belongs to it) cannot be "
            "changed: leave it out, or begin another run with another --out"
        )
    return plan


def _new_plan(
    chosen_by_user: dict[str, Any],
    min_clients: int,
    ranges: list[str],
    max_rows: int | None,
) -> RunPlan:
    import secrets

    from afcl.cli.run import chosen_method
    from afcl.methods.presets import at_default_level
    from afcl.privacy import EXACT_WARNING
    from afcl.runtime.live.server import RunPlan

    chosen = completed(chosen_by_user)
    scale_of(chosen["scale"], ranges or chosen["ranges"], live=True)
    method, options, level = chosen_method(chosen)
    options, reason = at_default_level(method, options, min_clients, live=True)
    parameters = {**chosen, "privacy": level}
    if reason:
        parameters |= {"privacy": options["privacy"], "privacy_reason": reason}
    method.parameters(**options)
    if level == "exact":
        print(f"warning: {PrivacyWarning(EXACT_WARNING)}", file=sys.stderr)
    plan = RunPlan(
        secrets.token_hex(8),
        method.name,
        options,
        chosen["seed"],
        chosen["max_rounds"],
        min_clients,
        chosen["columns"],
        bounds(ranges or chosen["ranges"]),
        serve_end=A_DAY,
        parameters=parameters,
        categories=categories(chosen["category"]),
    )
    if max_rows is not None:
        plan = replace(plan, max_rows=max_rows)
    plan.request()
    if reason:
        print(f"privacy {options['privacy']}: {reason}", file=sys.stderr)
    return plan
