# SPDX-License-Identifier: Apache-2.0
"""``afcl bench`` and ``afcl plot``: handed to the package afcl-bench as they are."""

from __future__ import annotations

from typing import Any

import typer

from afcl._addon import from_bench

#: Parse nothing here: the command of the other package has the options and the help.
PASS_ON = {
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "ignore_unknown_options": True,
}


def bench(context: typer.Context) -> Any:
    """Benchmarks: make the runs of a spec, and report on them."""
    app = from_bench("cli.bench", "the benchmark is in afcl-bench").bench
    return app(context.args, prog_name="afcl bench", standalone_mode=False)


def plot(context: typer.Context) -> Any:
    """Draw a picture of a run or of a benchmark (PNG, SVG or PDF)."""
    app = from_bench("cli.plot", "pictures for papers are in afcl-bench").plot
    return app(context.args, prog_name="afcl plot", standalone_mode=False)
