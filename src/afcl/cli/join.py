# SPDX-License-Identifier: Apache-2.0
"""``afcl join`` and ``afcl keygen``: a site's side of a live run."""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from afcl.cli import tables
from afcl.cli.addresses import with_port
from afcl.cli.config import ConfigFile
from afcl.cli.settings import MISSING, Device, EngineName, Insecure, Stream
from afcl.exceptions import InputError
from afcl.occupied import occupied
from afcl.runtime.live.engines import DEFAULT, get_launcher

if TYPE_CHECKING:
    from afcl.runtime.live.membership import Membership

Data = Annotated[
    Path,
    typer.Option(
        help="This site's rows: text such as CSV, Parquet or Excel, or a folder of "
        "such files, which are one site."
    ),
]
Out = Annotated[
    Path, typer.Option(help="Folder for this site's results.", metavar="DIR")
]
Units = Annotated[
    list[str],
    typer.Option(
        "--unit", help="Unit of a column, so that a mix-up is seen: height=cm."
    ),
]
MinCell = Annotated[
    int,
    typer.Option(min=1, help="Describe no group of fewer rows, whatever is asked."),
]
Level = Annotated[
    str,
    typer.Option(help="Take part at this privacy level or a stricter one only."),
]
Budget = Annotated[
    float | None,
    typer.Option(help="Epsilon that all runs at 'dp' may cost these rows together."),
]
Cohort = Annotated[
    int,
    typer.Option(min=3, help="Be summed with sites only if they are so many, or more."),
]
Holders = Annotated[
    int,
    typer.Option(min=2, help="Sites that hold rows of a group before it is summed."),
]
OneCohort = Annotated[
    bool,
    typer.Option(
        "--one-cohort",
        help="Stay with the first cohort, also if somebody is said to be gone.",
    ),
]
Contacts = Annotated[
    int,
    typer.Option(min=1, help="Messages that a run may ask of this site, sums apart."),
]
Runs = Annotated[
    int,
    typer.Option(min=1, help="Runs without an epsilon that may describe these rows."),
]
Home = Annotated[
    Path | None,
    typer.Option(
        help="Folder that keeps what was said of the rows, for all runs "
        "(AFCL_HOME, or afcl in the user's state folder).",
        metavar="DIR",
    ),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(help="File that keeps what they have cost (HOME/ledger.json)."),
]
DataSetName = Annotated[
    str,
    typer.Option(help="What these rows are called from run to run (file and columns)."),
]
Changed = Annotated[
    bool,
    typer.Option("--changed", help="The rows have changed since the last run."),
]
Members = Annotated[
    Path | None,
    typer.Option(
        help="Be summed with these sites only: a file of their .pub lines, NAME last "
        "(or first). Without it a key is trusted from when it is met first.",
        metavar="FILE",
    ),
]
Stay = Annotated[
    bool,
    typer.Option(
        "--stay",
        help="Stay for answer after answer (a coordinator's --standing), with the rows "
        "that are in the file then; --runs bounds how many.",
    ),
]
NamesKey = Annotated[
    Path | None,
    typer.Option(
        help="A secret that the sites share and the coordinator does not have (a file "
        "of any bytes): names of levels of categories travel as hashes under it.",
        metavar="FILE",
    ),
]
LabelsAnyway = Annotated[
    bool,
    typer.Option(
        "--labels-anyway",
        help="Wait for the answer, and label these rows by it, also if this site takes "
        "no part in the run.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(help="Port for the engine on this machine (a free one)."),
]
Wait = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Wait so many seconds for a coordinator that is not there yet (for ever).",
    ),
]
KeepSent = Annotated[
    bool,
    typer.Option("--keep-sent", help="Keep everything that is sent, in DIR/sent."),
]


def keygen(
    out: Annotated[Path, typer.Option(help="Folder of the keys.", metavar="DIR")],
    name: Annotated[str, typer.Option(help="Name of the files.")] = "site",
    engine: EngineName = DEFAULT,
) -> None:
    """Make a site's key pair: NAME stays here, NAME.pub goes to the coordinator."""
    from afcl.privacy.identity import key_fingerprint
    from afcl.runtime.live.enrolment import read_key

    private, public = get_launcher(engine).keygen(out, name)
    mark = key_fingerprint(read_key(public).identity)
    typer.echo(
        f"{private} stays here; send {public} to the coordinator ('afcl enrol'), and "
        f"compare on the telephone: {mark}"
    )


def join(
    address: Annotated[
        str, typer.Argument(help="The coordinator's HOST:PORT, or HOST (port 8000).")
    ],
    data: Data,
    name: Annotated[str, typer.Option(help="This site's name.")],
    out: Out,
    ca: Annotated[Path | None, typer.Option(help="The coordinator's ca.crt.")] = None,
    key: Annotated[Path | None, typer.Option(help="This site's private key.")] = None,
    insecure: Insecure = False,
    columns: tables.Columns = [],
    drop: tables.Drop = [],
    numeric_only: tables.NumericOnly = None,
    id: tables.IdColumn = None,
    missing: Annotated[str, typer.Option(help=MISSING)] = "error",
    category: tables.Category = [],
    date: tables.Date = [],
    names_key: NamesKey = None,
    separator: tables.Separator = None,
    decimal: tables.Decimal = None,
    encoding: tables.Encoding = None,
    null: tables.Null = [],
    units: Units = [],
    min_cell: MinCell = 5,
    method: Annotated[
        str, typer.Option(help="Take part in this method only.")
    ] = "afcl",
    privacy: Level = "summary",
    cohort: Cohort = 3,
    holders: Holders = 3,
    one_cohort: OneCohort = False,
    contacts: Contacts = 3,
    budget: Budget = None,
    runs: Runs = 1,
    home: Home = None,
    ledger: LedgerFile = None,
    dataset: DataSetName = "",
    changed: Changed = False,
    members: Members = None,
    stay: Stay = False,
    labels_anyway: LabelsAnyway = False,
    stream: Stream = None,
    device: Device = "auto",
    port: Port = None,
    wait: Wait = None,
    keep_sent: KeepSent = False,
    config: ConfigFile = None,
    engine: EngineName = DEFAULT,
) -> None:
    """Take part in a run; rows and labels stay here.

    Only outgoing connections are made, and a coordinator that is not there yet is
    waited for. Stopped or killed, the same command comes back into the run. What leaves
    the site is written down: 'afcl log DIR'. At the end DIR gets labels.csv and
    result.json. Whom this site is summed with is said as a row of digits, the same at
    all of them: compare it.
    """
    from afcl.cli.attending import coming_back, take_part
    from afcl.privacy import parse_level
    from afcl.runtime.live.membership import Membership
    from afcl.runtime.live.views import home_folder

    address = with_port(address)
    _check_keys(insecure, ca, key, members)
    if stay and runs < 2 and budget is None:
        raise InputError(
            "--stay is for many answers: say with --runs in how many of them something "
            "new may be said of these rows (at dp with --budget)"
        )
    asked = Membership(
        data=str(data.resolve()),
        name=name,
        columns=tables.items("--columns", columns),
        drop=tables.items("--drop", drop),
        missing=missing,
        numeric_only=bool(numeric_only),
        categories=tables.categories(tables.items("--category", category)),
        date=_whole_dates(tables.items("--date", date)),
        names_key=_names_key(names_key),
        separator=separator,
        decimal=decimal,
        encoding=encoding,
        null=tables.items("--null", null),
        id=id,
        units=_units(units),
        min_cell=min_cell,
        method=method,
        privacy=str(parse_level(privacy)),
        cohort=cohort,
        holders=holders,
        one_cohort=one_cohort,
        contacts=contacts,
        budget=budget,
        runs=runs,
        home=_resolved(home or home_folder()),
        ledger=_resolved(ledger),
        dataset=dataset,
        changed=changed or stay,
        stays=stay,
        stream=stream,
        device=device,
        key="" if insecure else _resolved(key),
        members=_resolved(members),
        coordinator=address,
        keep_sent=keep_sent,
        labels_anyway=labels_anyway,
    )
    launcher = get_launcher(engine)
    with occupied(out, "afcl join", private=True), coming_back(out):
        if _enter(out, asked, insecure):
            take_part(launcher, address, out.resolve(), ca, key, port or 0, wait)


def _resolved(path: Path | None) -> str:
    return "" if path is None else str(path.resolve())


def _whole_dates(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse parts of dates: between machines a date is a number of days."""
    for name in names:
        if "=" in name:
            raise InputError(
                f"--date {name}: parts of dates are for runs on one machine so far; "
                f"give --date {name.partition('=')[0].strip()}, or write the parts "
                "into columns of their own"
            )
    return names


def _names_key(path: Path | None) -> str:
    from afcl.runtime.live.level_names import names_key

    resolved = _resolved(path)
    names_key(resolved)
    return resolved


def _check_keys(
    insecure: bool, ca: Path | None, key: Path | None, members: Path | None
) -> None:
    from afcl.privacy.identity import private_key
    from afcl.runtime.live.keyring import listed

    if insecure == (ca is not None):
        raise InputError("give --ca CA.CRT and --key KEY, or type --insecure")
    if ca is not None and key is None:
        raise InputError("--ca needs --key: make one with 'afcl keygen'")
    if insecure and members is not None:
        raise InputError("--members needs --key: leave out --insecure")
    for file in (ca, key, members):
        if file is not None and not file.is_file():
            raise InputError(f"no file {file}")
    if ca is not None and key is not None:
        private_key(key)
    if members is not None:
        listed(members)


def _enter(out: Path, asked: Membership, insecure: bool) -> bool:
    """Keep what the site asks for in its folder; False if it has its result."""
    from afcl.data.spelling import by_column
    from afcl.runtime.arrays import check_device
    from afcl.runtime.live.membership import DONE, keep_membership
    from afcl.runtime.live.site_disk import make_room

    opened = asked.open()
    check_device(opened.tables, asked.device)
    asked = replace(asked, units=by_column("--unit", asked.units, opened.columns))
    for note in opened.notes:
        print(f"note: {note}", file=sys.stderr)
    member = _come_back(out, asked)
    if member.state == DONE:
        typer.echo(f"{out} holds this site's result already.")
        return False
    if insecure:
        print("warning: no TLS: what is sent can be read on the way", file=sys.stderr)
    make_room(out)
    keep_membership(out, member)
    return True


def _units(texts: list[str]) -> dict[str, str]:
    units = {}
    for text in texts:
        column, _, unit = text.rpartition("=")
        if not column or not unit:
            raise InputError(f"--unit {text}: give COLUMN=UNIT, such as height=cm")
        units[column] = unit
    return units


def _come_back(out: Path, asked: Membership) -> Membership:
    """Go on where this site was, if it asked for the same then."""
    from afcl.cli.continuing import flag_of, shown
    from afcl.runtime.live.membership import (
        LEFT_OUT,
        SITE,
        Membership,
        open_membership,
    )

    if not (out / SITE).is_file():
        return asked
    # How the rows are read may change at any time, where keys are (whether a name
    # belongs to another one the coordinator knows), where the coordinator is, and what
    # is kept.
    before = open_membership(out)
    before = replace(
        before,
        home=before.home or asked.home,  # older versions kept it only if it was typed
        stream=asked.stream,
        device=asked.device,
        key=asked.key,
        members=asked.members,
        coordinator=asked.coordinator,
        keep_sent=asked.keep_sent,
        labels_anyway=asked.labels_anyway,
    )
    if before.state in LEFT_OUT:
        return asked
    same = replace(
        asked,
        run=before.run,
        fingerprint=before.fingerprint,
        rows=before.rows,
        asked=before.asked,
        terms=before.terms,
        steps=before.steps,
        summed=before.summed,
        met=before.met,
        begun=before.begun,
        answered=before.answered,
        max_rows=before.max_rows,
        notes=before.notes,
        described=before.described,
        hindered=before.hindered,
        state=before.state,
        reason=before.reason,
    )
    for field in fields(Membership):
        earlier, wanted = getattr(before, field.name), getattr(same, field.name)
        if earlier != wanted:
            raise InputError(
                f"{flag_of(field.name)} is {shown(earlier)} in {out} and cannot be "
                f"changed to {shown(wanted)}: type it as it was, or choose another "
                "--out"
            )
    return before
