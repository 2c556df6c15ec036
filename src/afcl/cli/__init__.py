# SPDX-License-Identifier: Apache-2.0
"""The command line: parse, call, print. Heavy imports wait inside the commands."""

from __future__ import annotations

import sys
from typing import Any

import typer

from afcl.cli.addons import PASS_ON, bench, plot
from afcl.cli.audit import audit
from afcl.cli.check import check
from afcl.cli.dashboard import dashboard
from afcl.cli.demo import demo
from afcl.cli.federation import certificates, enrol, revoke
from afcl.cli.join import join, keygen
from afcl.cli.predict import predict
from afcl.cli.report import report
from afcl.cli.run import run
from afcl.cli.serve import serve
from afcl.cli.status import status
from afcl.exceptions import AfclError, Interrupted

# Recent versions of Typer carry their own copy of Click; these are its two errors.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]

#: Exit code after Ctrl-C; Typer may return it instead of raising.
INTERRUPTED = 130

app = typer.Typer(
    name="afcl",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(check)
app.command()(run)
app.command()(predict)
app.command()(audit)
app.command()(report)
app.command()(dashboard)
app.command(context_settings=PASS_ON, add_help_option=False)(plot)
for command in (serve, join, status, keygen, enrol, revoke, certificates):
    app.command()(command)
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
    """Run the command line; bad input ends with one line and exit code 2."""
    try:
        code = app(arguments, prog_name="afcl", standalone_mode=False)
    except _ClickError as error:
        text, context = _message(error), getattr(error, "ctx", None)
        if isinstance(error, _UsageError) and context is not None:
            text = f"{text.rstrip('.')}. See '{context.command_path} --help'."
        _fail(text, 2)
    except Interrupted as error:
        _fail(str(error), INTERRUPTED)
    except AfclError as error:
        _fail(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        _fail("interrupted; the same command continues where it stopped", code)
    sys.exit(code if isinstance(code, int) else 0)


def _message(error: Any) -> str:
    return str(error.format_message())


def _fail(text: str, code: int) -> None:
    print("afcl: " + " ".join(text.split()), file=sys.stderr)
    sys.exit(code)
