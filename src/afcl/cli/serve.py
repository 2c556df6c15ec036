# SPDX-License-Identifier: Apache-2.0
"""``afcl serve``, ``enrol``, ``status``: the coordinator's side of a live run."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from afcl.cli.settings import bounds, settings

if TYPE_CHECKING:
    from afcl.cli.story import Story
    from afcl.runtime.flower.keys import Tls
    from afcl.runtime.live.server import Plan

#: Seconds between two looks at the run.
PAUSE = 0.5
#: Seconds between two questions to the engine whether the run still goes on.
LOOK = 60.0
#: Public keys that may join, and the certificates, below the run's folder.
ENROLLED, CERTIFICATES = "enrolled", "tls"
INSECURE = "no TLS: what is sent can be read and changed on the way; anybody can join"


def serve(
    out: Path | None = typer.Option(None, help="Folder of the run.", metavar="DIR"),
    resume: Path | None = typer.Option(
        None, help="Go on with the interrupted run in this folder.", metavar="DIR"
    ),
    host: str = typer.Option("127.0.0.1", help="Address to listen on."),
    port: int = typer.Option(8000, help="Port to listen on."),
    min_clients: int = typer.Option(
        2, min=1, help="Begin when so many sites fit together."
    ),
    tls: Path | None = typer.Option(
        None,
        help="Folder with ca.crt, server.crt, server.key; made if empty (DIR/tls).",
        metavar="DIR",
    ),
    names: list[str] = typer.Option(
        [], "--hostname", help="Name sites reach this machine by, for the certificate."
    ),
    insecure: bool = typer.Option(False, "--insecure", help="Go without TLS."),
    ranges: list[str] = typer.Option(
        [], help="Public bounds of a column, so that none are asked for: age=0:120."
    ),
    columns: list[str] = typer.Option([], help="Use exactly these columns; repeat."),
    patience: float = typer.Option(
        600.0, help="End after so many seconds without any answer."
    ),
    linger: float = typer.Option(
        0.0, help="Stay open for late joiners so many seconds after the end."
    ),
    min_cell: int | None = typer.Option(None, help="Smallest group of rows (5)."),
    privacy: str | None = typer.Option(
        None, help="summary, 'grouped(5)', secure or 'dp(8)': see docs/privacy.md."
    ),
    cohort: int | None = typer.Option(
        None, help="Sites whose sums are read together at 'secure' (10, at least 3)."
    ),
    seed: int | None = typer.Option(None, help="Seed of everything random (0)."),
    config: Path | None = typer.Option(
        None, help="TOML file with settings as for 'afcl run'."
    ),
) -> None:
    """Coordinate a run between machines, on Flower.

    Sites join with 'afcl join'. Killed or stopped, 'afcl serve --resume DIR' goes on.
    """
    from afcl.exceptions import InputError
    from afcl.runtime.live.server import Plan
    from afcl.runtime.results import RESULT

    if (out is None) == (resume is None):
        raise InputError("give --out DIR for a new run, or --resume DIR for an old one")
    folder = Path(out or resume or ".").resolve()
    if insecure and tls is not None:
        raise InputError("--insecure and --tls exclude each other: leave one out")
    if resume is not None:
        plan = Plan.read(folder)
        if (folder / RESULT).is_file():
            typer.echo(f"{folder} is finished; nothing to resume.")
            return
    else:
        flags = {
            "min_cell": min_cell,
            "privacy": privacy,
            "cohort": cohort,
            "seed": seed,
            "columns": tuple(columns),
        }
        chosen = settings(config, flags)
        plan = _new_plan(folder, chosen, min_clients, ranges, patience, linger)
    if insecure:
        print(f"warning: {INSECURE}", file=sys.stderr)
    certificates = None
    if not insecure:
        from afcl.runtime.flower.keys import make_server_certificates

        where = tls or folder / CERTIFICATES
        certificates = make_server_certificates(where, [*names, host])
    _coordinate(folder, plan, host, port, certificates)


def _new_plan(
    folder: Path,
    chosen: dict[str, Any],
    min_clients: int,
    ranges: list[str],
    patience: float,
    linger: float,
) -> Plan:
    import secrets

    from afcl.cli.run import chosen_method
    from afcl.exceptions import InputError
    from afcl.privacy import EXACT_WARNING
    from afcl.runtime.live.server import PLAN, Plan

    if (folder / PLAN).exists():
        raise InputError(
            f"{folder} holds a run already: go on with 'afcl serve --resume {folder}', "
            "or choose another folder"
        )
    method, options, level = chosen_method(chosen)
    method.parameters(**options)
    if level == "exact":
        print(f"warning: {EXACT_WARNING}", file=sys.stderr)
    plan = Plan(
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
        parameters={**chosen, "privacy": level},
    )
    plan.request()
    plan.write(folder)
    return plan


def _coordinate(
    folder: Path, plan: Plan, host: str, port: int, tls: Tls | None
) -> None:
    """Start the engine, watch the run, end the engine whatever happens."""
    from afcl.cli.report import write_at_the_end
    from afcl.cli.signals import Ended, ended_by_signals
    from afcl.cli.story import Story
    from afcl.exceptions import InputError, Interrupted
    from afcl.runtime.flower import processes
    from afcl.runtime.live.server import FAILED
    from afcl.runtime.results import RESULT, read_result

    processes.require_free(host, port)
    (folder / FAILED).unlink(missing_ok=True)
    engine = folder / "engine"
    env = processes.environment(engine)
    try:
        with (
            ended_by_signals(),
            processes.start_superlink(engine, host, port, tls, env) as link,
        ):
            _say_welcome(host, port, tls, plan)
            address = processes.at(host, port)
            known = _enrol_new(folder, address, tls, env, set())
            told = {"out": str(folder)}
            run = processes.submit(processes.APP, address, tls, env, told)
            story, looked = Story(), time.monotonic()
            while not (folder / RESULT).is_file():
                _tell(story, folder)
                if (folder / FAILED).is_file():
                    said = json.loads((folder / FAILED).read_text(encoding="utf-8"))
                    write_at_the_end(folder)
                    raise InputError(said["reason"])
                if not link.alive:
                    raise InputError(
                        f"the engine ended by itself: see {engine}, then go on with "
                        f"'afcl serve --resume {folder}'"
                    )
                if time.monotonic() - looked > LOOK:
                    looked = time.monotonic()
                    _check_run(folder, run, address, tls, env)
                known = _enrol_new(folder, address, tls, env, known)
                time.sleep(PAUSE)
            _tell(story, folder)
    except (KeyboardInterrupt, Ended):
        text = f"stopped; 'afcl serve --resume {folder}' goes on"
        raise Interrupted(text) from None
    result = read_result(folder)
    page = write_at_the_end(folder)
    look = "" if page is None else f"; look at {page} in a browser"
    typer.echo(
        f"{result['n_clusters']} clusters in "
        f"{sum(site['rows'] for site in result['sites']):,} rows at "
        f"{len(result['sites'])} sites. Result in {folder}{look}."
    )


def _tell(story: Story, folder: Path) -> None:
    """Say what is new in the run."""
    for line in story.read(folder):
        typer.echo(line)


def _check_run(
    folder: Path, run: str, address: str, tls: Tls | None, env: dict[str, str]
) -> None:
    """See whether the engine has given the run up without a word to us."""
    from afcl.exceptions import InputError
    from afcl.runtime.flower import processes
    from afcl.runtime.results import RESULT

    status, details = processes.status(run, address, tls, env)
    if status.startswith("finished") and not (folder / RESULT).is_file():
        raise InputError(
            f"the engine has ended the run ({status}: {details}): go on with "
            f"'afcl serve --resume {folder}'"
        )


def _say_welcome(host: str, port: int, tls: Tls | None, plan: Plan) -> None:
    how = "--insecure" if tls is None else f"--ca {tls.ca} --key KEY"
    typer.echo(
        f"Listening on {host}:{port} for {plan.min_clients} sites or more. "
        f"A site joins with: afcl join {host}:{port} --data FILE --name NAME "
        f"--out DIR {how}"
    )


def _enrol_new(
    folder: Path, address: str, tls: Tls | None, env: dict[str, str], known: set[Path]
) -> set[Path]:
    """Register keys that were put into the run's folder since the last look."""
    from afcl.runtime.flower import processes

    found = set((folder / ENROLLED).glob("*.pub"))
    if tls is not None:
        for key in sorted(found - known):
            processes.register(key, address, tls, env)
            typer.echo(f"enrolled {key.stem}")
    return found


def enrol(
    keys: list[Path] = typer.Argument(..., help="Public keys of sites.", metavar="KEY"),
    run: Path | None = typer.Option(
        None, help="Folder of the run (the only one here).", metavar="DIR"
    ),
) -> None:
    """Let sites join a run: their public keys, made with 'afcl keygen'.

    Works before and while the run is served; a restart remembers them.
    """
    from afcl.exceptions import InputError

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
    from afcl.exceptions import InputError
    from afcl.runtime.live.server import PLAN

    runs = [where] if (where / PLAN).is_file() else []
    runs += [path.parent for path in sorted(where.glob(f"*/{PLAN}"))]
    if len(runs) != 1:
        raise InputError(
            f"{len(runs)} runs in {where}: say which one with --run DIR (the --out of "
            "'afcl serve')"
        )
    return runs[0]


def status(
    folder: Path = typer.Argument(..., help="Folder of the run.", metavar="DIR"),
) -> None:
    """Tell who is in, who is late, k so far, and how long it may take."""
    from afcl.cli.story import Story
    from afcl.runtime.live.server import Plan

    plan = Plan.read(folder)
    story = Story()
    story.read(folder)
    for line in story.summary(plan, folder, time.time()):
        typer.echo(line)
