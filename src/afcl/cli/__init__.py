# SPDX-License-Identifier: Apache-2.0
"""The command line: parse, call, print. Heavy imports wait inside the commands."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from afcl.cli.addons import PASS_ON, bench, plot
from afcl.cli.audit import audit
from afcl.cli.check import check
from afcl.cli.command_line import typed
from afcl.cli.dashboard import dashboard
from afcl.cli.demo import demo
from afcl.cli.export import export
from afcl.cli.federation import certificates, enrol, revoke
from afcl.cli.join import join, keygen
from afcl.cli.log import log
from afcl.cli.predict import predict
from afcl.cli.report import report
from afcl.cli.run import run
from afcl.cli.serve import serve
from afcl.cli.service import OTHERS_WORDS, service
from afcl.cli.signals import Ended, ended_by_signals
from afcl.cli.stamps import stamped_lines
from afcl.cli.standing import forget, renew
from afcl.cli.status import status
from afcl.durable import in_words
from afcl.exceptions import (
    AfclError,
    InputError,
    Interrupted,
    Stopped,
    Terminated,
    reference,
)

# Recent versions of Typer carry their own copy of Click; these are its two errors.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]

# Exit codes, beside 0 (done); see docs/exit-codes.md.
#: What was asked for cannot be done: nothing was begun.
REFUSED = 2
#: The run was begun, and the same command goes on with it.
STOPPED = 3
#: After Ctrl-C (Typer may return it instead of raising).
INTERRUPTED = 130
#: After a closed pipe, as a shell would say it of SIGPIPE.
READER_GONE = 141
#: After SIGTERM.
TERMINATED = 143
_GOES_ON = "the same command continues where it stopped"


class _ReaderGone(Exception):
    """Nobody reads what is printed."""


class _Commands(TyperGroup):
    """The commands; a closed pipe gets past Typer, which would end with 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run what was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None


app = typer.Typer(
    name="afcl",
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(check)
app.command()(run)
app.command()(predict)
app.command()(export)
app.command()(audit)
app.command()(report)
app.command()(dashboard)
app.command(context_settings=PASS_ON, add_help_option=False)(plot)
for command in (serve, join, status, log, renew, forget):
    app.command()(command)
for of_keys in (keygen, enrol, revoke, certificates):
    app.command()(of_keys)
app.command(context_settings=OTHERS_WORDS)(service)
app.command(context_settings=PASS_ON, add_help_option=False)(bench)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version."),
) -> None:
    """Federated clustering with an unknown number of clusters."""
    if version:
        from afcl import __version__

        typer.echo(__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; what goes wrong is one line and one of the exit codes.

    As a process of its own (without `arguments`) a command that runs for long begins
    its lines with the time, where they do not go to a terminal.
    """
    typed.set(tuple(sys.argv[1:] if arguments is None else arguments))
    with stamped_lines(sys.argv[1:] if arguments is None else []):
        _run(arguments)


def _run(arguments: list[str] | None) -> None:
    try:
        with ended_by_signals():
            code = app(arguments, prog_name="afcl", standalone_mode=False)
            sys.stdout.flush()
    except _ClickError as error:
        text, context = _message(error), getattr(error, "ctx", None)
        if isinstance(error, _UsageError) and context is not None:
            text = f"{text.rstrip('.')}. See '{context.command_path} --help'."
        _fail(text, REFUSED)
    except Terminated as error:
        _fail(str(error), TERMINATED)
    except Interrupted as error:
        _fail(str(error), INTERRUPTED)
    except Stopped as error:
        _fail(_with_reference(error), STOPPED)
    except InputError as error:  # it says itself what to do
        _fail(str(error), REFUSED)
    except AfclError as error:
        _fail(_with_reference(error), REFUSED)
    except Ended:
        _fail(f"ended; {_GOES_ON}", TERMINATED)
    except (_ReaderGone, BrokenPipeError):
        _end_quietly()
    except OSError as error:
        _fail(in_words(error), REFUSED)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        _fail(f"interrupted; {_GOES_ON}", code)
    sys.exit(code if isinstance(code, int) else 0)


def _end_quietly() -> None:
    """End as a program does whose output nobody reads any more (`afcl … | head`)."""
    # What is still to be written would be complained about at the very end.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    sys.exit(READER_GONE)


def _with_reference(error: AfclError) -> str:
    """Return the error's text, and where its kind is explained."""
    return f"{error} (see {reference(type(error))})"


def _message(error: Any) -> str:
    return str(error.format_message())


def _fail(text: str, code: int) -> None:
    print("afcl: " + " ".join(text.split()), file=sys.stderr)
    sys.exit(code)
