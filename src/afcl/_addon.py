# SPDX-License-Identifier: Apache-2.0
"""What comes with the package afcl-bench, or one line that says how to get it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from afcl.exceptions import InputError

#: How to get the rivals, the benchmark, the significance tests and the pictures.
INSTALL = "pip install afcl-bench"


def from_bench(module: str, what: str) -> Any:
    """Import a module of afcl_bench when it is needed, never before.

    Parameters
    ----------
    module : str
        Its name within the package.
    what : str
        What is missing without it, for the error's sake.
    """
    try:
        return import_module(f"afcl_bench.{module}")
    except ModuleNotFoundError as error:
        if error.name != "afcl_bench":
            raise
        raise InputError(f"{what}: {INSTALL}") from None
