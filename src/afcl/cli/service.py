# SPDX-License-Identifier: Apache-2.0
"""``afcl service``: prints what a supervisor needs to keep a side of a run going."""

from __future__ import annotations

import getpass
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afcl.cli.stamps import LASTING
from afcl.exceptions import InputError

if TYPE_CHECKING:
    from afcl.cli.service_files import Service

#: The words after the side are those of another command, which reads them.
OTHERS_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True}

Side = Annotated[
    str, typer.Argument(help="serve or join, and its options.", metavar="serve|join")
]
Docker = Annotated[bool, typer.Option("--docker", help="Print a Dockerfile instead.")]
Compose = Annotated[
    bool, typer.Option("--compose", help="Print a compose file for it instead.")
]


def service(
    context: typer.Context, side: Side, docker: Docker = False, compose: Compose = False
) -> None:
    """Print a systemd unit that keeps 'afcl serve' or 'afcl join' running.

    The options are those of the command, and are checked; versions are those that are
    installed here. Nothing is started, written or contacted.
    """
    from afcl.cli.service_files import compose_file, dockerfile, systemd_unit

    if docker and compose:
        raise InputError("--docker and --compose are two files: ask for one at a time")
    wanted = _checked(context, side)
    if docker:
        text = dockerfile(wanted)
    elif compose:
        text = compose_file(wanted, f"{os.getuid()}:{os.getgid()}")
    else:
        text = systemd_unit(wanted, _command(), _user())
    typer.echo(text, nl=False)


def _checked(context: typer.Context, side: str) -> Service:
    """Return what is to run, after the command itself has read its words."""
    from afcl.cli.service_files import Service

    if side not in LASTING:
        raise InputError(f"no service {side!r}: give serve or join, and its options")
    root: Any = context.find_root()
    command = root.command.commands[side]
    words = tuple(context.args)
    params = command.make_context(side, list(words), parent=root).params
    here = Path.cwd()
    if side == "join":
        return Service(side, words, here, home=_home(params["home"]))
    if params["out"] is None:
        raise InputError("give --out DIR, which is begun or gone on with")
    from afcl.cli.continuing import Served

    before = Served.read(Path(params["out"])) or Served()
    return Service(side, words, here, port=params["port"] or before.port)


def _home(folder: str | None) -> Path:
    from afcl.runtime.live.views import home_folder

    return (Path(folder) if folder else home_folder()).resolve()


def _command() -> list[str]:
    """Return how this installation of afcl is called."""
    beside = Path(sys.executable).with_name("afcl")
    found = str(beside) if beside.is_file() else shutil.which("afcl")
    if found:
        return [found]
    return [sys.executable, "-c", "from afcl.cli import main; main()"]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a number without a name
        return ""
