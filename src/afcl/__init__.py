# SPDX-License-Identifier: Apache-2.0
"""Asynchronous federated clustering with an unknown number of clusters."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afcl.estimators import AFCL, KPath, make_method
    from afcl.methods import method_names
    from afcl.runtime.schedule import EventClock, Replay, Rounds, Schedule
    from afcl.trace import Trace, read_trace

__version__ = "0.2.0"

__all__ = [
    "AFCL",
    "EventClock",
    "KPath",
    "Replay",
    "Rounds",
    "Schedule",
    "Trace",
    "make_method",
    "method_names",
    "read_trace",
]

#: Where the public names live; each is imported when it is first asked for.
_HOMES = {
    "AFCL": "afcl.estimators",
    "EventClock": "afcl.runtime.schedule",
    "KPath": "afcl.estimators",
    "Replay": "afcl.runtime.schedule",
    "Rounds": "afcl.runtime.schedule",
    "Schedule": "afcl.runtime.schedule",
    "Trace": "afcl.trace",
    "make_method": "afcl.estimators",
    "method_names": "afcl.methods",
    "read_trace": "afcl.trace",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'afcl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
