# SPDX-License-Identifier: Apache-2.0
"""The record of a run: one JSON object a line, the only contract with what shows it.

Every driver writes it (:class:`Trace`); the report, the live page, the pictures and
``afcl status`` read it here and nowhere else: a finished file with :func:`read_trace`,
a growing one with :class:`TraceTail`, and what the events add up to with
:class:`RunHistory` and :func:`attendance`.
"""

from __future__ import annotations

from afcl.trace.attendance import Attendance, attendance
from afcl.trace.file import TraceFile
from afcl.trace.history import RunHistory, ServerStep, SiteHistory, history_of
from afcl.trace.read import TraceTail, read_trace
from afcl.trace.record import EVENTS, SCHEMA, Event, Trace, check, each, to_line

__all__ = [
    "EVENTS",
    "SCHEMA",
    "Attendance",
    "Event",
    "RunHistory",
    "ServerStep",
    "SiteHistory",
    "Trace",
    "TraceFile",
    "TraceTail",
    "attendance",
    "check",
    "each",
    "history_of",
    "read_trace",
    "to_line",
]
