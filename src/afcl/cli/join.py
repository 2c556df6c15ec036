# SPDX-License-Identifier: Apache-2.0
"""``afcl join`` and ``afcl keygen``: a site's side of a live run."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from afcl.runtime.live.membership import Membership

#: Seconds between two looks, and for the engine to hand over the last answer.
PAUSE, LAST = 0.3, 2.0


def keygen(
    out: Path = typer.Option(..., help="Folder of the keys.", metavar="DIR"),
    name: str = typer.Option("site", help="Name of the files."),
) -> None:
    """Make a site's key pair: NAME stays here, NAME.pub goes to the coordinator."""
    from afcl.runtime.flower.keys import make_site_key

    private, public = make_site_key(out, name)
    typer.echo(
        f"{private} stays here; send {public} to the coordinator ('afcl enrol')."
    )


def join(
    address: str = typer.Argument(..., help="The coordinator's HOST:PORT."),
    data: Path = typer.Option(
        ..., help="This site's rows: CSV, TSV or Parquet, or a folder of them."
    ),
    name: str = typer.Option(..., help="This site's name."),
    out: Path = typer.Option(
        ..., help="Folder for this site's results.", metavar="DIR"
    ),
    ca: Path | None = typer.Option(None, help="The coordinator's ca.crt."),
    key: Path | None = typer.Option(None, help="This site's private key."),
    insecure: bool = typer.Option(False, "--insecure", help="Go without TLS."),
    columns: list[str] = typer.Option([], help="Offer only this column; repeat."),
    drop: list[str] = typer.Option([], help="Leave out this column; repeat."),
    missing: str = typer.Option("error", help="Missing values: error or drop."),
    units: list[str] = typer.Option(
        [], "--unit", help="Unit of a column, so that a mix-up is seen: height=cm."
    ),
    min_cell: int = typer.Option(
        5, min=1, help="Describe no group of fewer rows, whatever is asked."
    ),
    method: str = typer.Option("afcl", help="Take part in this method only."),
    privacy: str = typer.Option(
        "summary", help="Take part at this privacy level or a stricter one only."
    ),
    budget: float | None = typer.Option(
        None, help="Epsilon that all runs at 'dp' may cost these rows together."
    ),
    ledger: Path | None = typer.Option(
        None, help="File that keeps what they have cost (DIR/ledger.json)."
    ),
    stream: bool | None = typer.Option(
        None,
        "--stream/--no-stream",
        help="Leave the rows in their files, or read them into memory; "
        "by default they stay there above 1 GB.",
        show_default=False,
    ),
    port: int | None = typer.Option(
        None, help="Port for the engine on this machine (a free one)."
    ),
) -> None:
    """Take part in a run; rows and labels stay here.

    Only outgoing connections are made. Stopped or killed, the same command comes back
    into the run. At the end DIR gets labels.csv and result.json.
    """
    from afcl.exceptions import InputError
    from afcl.privacy import parse_level
    from afcl.runtime.live.membership import DONE, Membership, keep_membership

    if insecure == (ca is not None):
        raise InputError("give --ca CA.CRT and --key KEY, or type --insecure")
    if ca is not None and key is None:
        raise InputError("--ca needs --key: make one with 'afcl keygen'")
    for file in (ca, key):
        if file is not None and not file.is_file():
            raise InputError(f"no file {file}")
    told = Membership(
        str(data.resolve()),
        name,
        tuple(columns),
        tuple(drop),
        missing,
        _units(units),
        min_cell,
        method,
        str(parse_level(privacy)),
        budget,
        "" if ledger is None else str(ledger.resolve()),
        stream,
    )
    for note in told.open().notes:
        print(f"note: {note}", file=sys.stderr)
    member = _come_back(out, told)
    if member.state == DONE:
        typer.echo(f"{out} holds this site's result already.")
        return
    if insecure:
        print("warning: no TLS: what is sent can be read on the way", file=sys.stderr)
    keep_membership(out, member)
    _take_part(address, out.resolve(), ca, key, port)


def _units(texts: list[str]) -> dict[str, str]:
    from afcl.exceptions import InputError

    units = {}
    for text in texts:
        column, _, unit = text.rpartition("=")
        if not column or not unit:
            raise InputError(f"--unit {text}: give COLUMN=UNIT, such as height=cm")
        units[column] = unit
    return units


def _come_back(out: Path, told: Membership) -> Membership:
    """Go on where this site was, if it was told the same then."""
    from afcl.exceptions import InputError
    from afcl.runtime.live.membership import REFUSED, SITE, open_membership

    if not (out / SITE).is_file():
        return told
    # How the rows are read may change at any time.
    before = replace(open_membership(out), stream=told.stream)
    if before.state == REFUSED:
        return told
    same = replace(
        told,
        run=before.run,
        fingerprint=before.fingerprint,
        state=before.state,
        reason=before.reason,
    )
    if same != before:
        raise InputError(
            f"{out} belongs to another site or other settings: choose another --out"
        )
    return before


def _take_part(
    address: str, out: Path, ca: Path | None, key: Path | None, port: int | None
) -> None:
    """Start the engine's node, wait for the end, end the node whatever happens."""
    from afcl.cli.report import write_at_the_end
    from afcl.cli.signals import Ended, ended_by_signals
    from afcl.exceptions import InputError, Interrupted
    from afcl.runtime.flower import processes
    from afcl.runtime.live.membership import DONE, REFUSED, open_membership

    engine = out / "engine"
    env = processes.environment(engine)
    config = {"folder": str(out)}
    place = port or processes.free_port()
    try:
        with (
            ended_by_signals(),
            processes.start_supernode(
                engine, address, place, ca, key, config, env
            ) as node,
        ):
            state = ""
            while state != DONE:
                member = open_membership(out)
                if member.state != state:
                    state = member.state
                    typer.echo(f"{member.name}: {state}")
                if state == REFUSED:
                    write_at_the_end(out)
                    raise InputError(f"{member.name} was refused: {member.reason}")
                refusal = processes.refusal(node.log)
                if refusal is not None:
                    raise InputError(processes.unreachable(address, ca) or refusal)
                if not node.alive:
                    raise InputError(f"the engine ended by itself: see {node.log}")
                time.sleep(PAUSE)
            time.sleep(LAST)
    except (KeyboardInterrupt, Ended):
        text = "stopped; the same command comes back into the run"
        raise Interrupted(text) from None
    page = write_at_the_end(out)
    look = "" if page is None else f"; look at {page} in a browser"
    typer.echo(f"Labels and result are in {out}{look}.")
