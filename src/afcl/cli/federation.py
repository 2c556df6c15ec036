# SPDX-License-Identifier: Apache-2.0
"""``afcl enrol``, ``revoke``, ``certificates``: what belongs to a federation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from afcl.cli.serve import CERTIFICATES, FederationFolder
from afcl.cli.settings import EngineName
from afcl.exceptions import InputError
from afcl.runtime.live.engines import DEFAULT, get_launcher

Run = Annotated[
    Path | None,
    typer.Option(
        help="Folder of a run, or of a federation (the only one here).", metavar="DIR"
    ),
]


def enrol(
    keys: Annotated[
        list[Path], typer.Argument(help="Public keys of sites.", metavar="KEY")
    ],
    run: Run = None,
    federation: FederationFolder = None,
    name: Annotated[
        str | None,
        typer.Option(help="The site's name, for one key (that of its file)."),
    ] = None,
    replacing: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Give a known name to a new key; the old one is revoked for good.",
        ),
    ] = False,
    max_rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rows that each of these sites may declare in a run, as agreed with "
            "it: rows are weight (what the run allows).",
        ),
    ] = None,
) -> None:
    """Let sites join: their public keys, made with 'afcl keygen'.

    NAME.pub is the key of NAME, for good, in all runs of the federation. Works before
    and while a run is served. With a key that is enrolled already --max-rows changes
    what was agreed.
    """
    from afcl.privacy.identity import key_fingerprint
    from afcl.runtime.live.enrolment import read_key
    from afcl.runtime.live.federation import Federation

    if name is not None and len(keys) != 1:
        raise InputError("--name is for one key: enrol the others by themselves")
    folder, found = _federation(run, federation), []
    for path in keys:
        if not path.is_file():
            raise InputError(f"no file {path}: give the .pub file of 'afcl keygen'")
        try:
            key = read_key(path)
        except ValueError as error:
            raise InputError(
                f"{path} cannot be enrolled: {error}: have the site send its .pub file "
                "again"
            ) from None
        found.append(key if name is None else replace(key, name=name))
    known = Federation(folder)
    known.enrol(found, replacing, max_rows)
    for key in found:
        mark, member = key_fingerprint(key.identity), known.of_key(key.identity)
        most = member.max_rows if member is not None else 0
        agreed = f", {most} rows at most" if most else ""
        typer.echo(
            f"{key.name} may join the federation in {folder}: key {mark}{agreed}"
        )


def revoke(
    names: Annotated[list[str], typer.Argument(help="Names of sites.", metavar="NAME")],
    run: Run = None,
    federation: FederationFolder = None,
) -> None:
    """Take the keys of sites away for good, in all runs of the federation.

    A run that is served puts them out within seconds; what they have said stays.
    """
    from afcl.runtime.live.federation import Federation

    folder = _federation(run, federation)
    for name in names:
        gone = Federation(folder).revoke(name)
        typer.echo(f"{gone.site} may join no more: key {gone.fingerprint} is revoked")


def certificates(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of a federation, or its tls.", metavar="[DIR]"),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Make a new server.crt, by the same ca.crt.")
    ] = False,
    names: Annotated[
        list[str],
        typer.Option("--hostname", help="One more name of the coordinator's machine."),
    ] = [],
    engine: EngineName = DEFAULT,
) -> None:
    """Show how long the coordinator's certificates hold, or renew them."""
    if names and not renew:
        raise InputError("--hostname needs --renew: names are in the certificate")
    where = _federation(folder, None)
    if (where / CERTIFICATES).is_dir():
        where = where / CERTIFICATES
    launcher = get_launcher(engine)
    if renew:
        launcher.renew(where, names, typer.echo)
    for line in launcher.describe_certificates(where):
        typer.echo(line)


def _federation(run: Path | None, federation: Path | None) -> Path:
    """Return the folder of the federation that is meant."""
    if run is not None and federation is not None:
        raise InputError("--run and --federation exclude each other: leave one out")
    if federation is not None:
        return federation
    return _only_one(Path.cwd()) if run is None else _of_run(run)


def _of_run(folder: Path) -> Path:
    """Return the federation that a folder belongs to: its own if it holds no run."""
    from afcl.runtime.live.server import PLAN, RunPlan

    if not (folder / PLAN).is_file():
        return folder
    plan = RunPlan.read(folder)
    return plan.members(folder).folder if plan.federation else folder


def _only_one(where: Path) -> Path:
    from afcl.runtime.live.federation import FEDERATION
    from afcl.runtime.live.server import PLAN

    found = [path.parent for name in (PLAN, FEDERATION) for path in where.glob(name)]
    for name in (PLAN, FEDERATION):
        found += [path.parent for path in sorted(where.glob(f"*/{name}"))]
    folders = list(dict.fromkeys(_of_run(folder).resolve() for folder in found))
    if len(folders) != 1:
        raise InputError(
            f"{len(folders)} runs in {where}: say which one with --run DIR (the --out "
            "of 'afcl serve')"
        )
    return folders[0]
