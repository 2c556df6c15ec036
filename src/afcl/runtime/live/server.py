# SPDX-License-Identifier: Apache-2.0
"""The server of a live run: from a folder with a plan to a folder with a result.

It is given an engine, and drives the same coordinator as the simulator.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from afcl._typing import ClientId
from afcl.core.terms import Answer, Finish
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.runtime.agreement import MAX_ROWS, AgreementRequest, Scale
from afcl.runtime.codec import encode
from afcl.runtime.coordinator import Coordinator, Finished, Spec
from afcl.runtime.journal import Journal
from afcl.runtime.live.admission import Admission
from afcl.runtime.live.door import Door
from afcl.runtime.live.engine import Engine
from afcl.runtime.live.federation import Federation
from afcl.runtime.requirements import requirements
from afcl.runtime.results import (
    JOURNAL,
    TRACE,
    describe,
    describe_site,
    write_result,
    write_text,
)
from afcl.trace import Event, Trace, read_trace, to_line

#: What the run is, written before it begins.
PLAN = "plan.json"
#: Why the run failed, if it did.
FAILED = "failed.json"


@dataclass(frozen=True)
class RunPlan:
    """What a live run is, apart from its sites.

    Attributes
    ----------
    run
        Identity of the run, drawn once.
    method, options, seed, max_rounds
        As in a simulated run.
    min_clients
        Nothing begins before so many sites fit.
    columns
        Exactly these, or none: what most sites have.
    ranges
        Public bounds by column; none: min-max over the sites that begin.
    max_rows
        Most rows a site may have.
    patience
        Seconds without any arrival after which the run ends with what it has.
    linger
        Seconds the run stays open for late joiners after it could end.
    grace
        Seconds to tell the sites the end.
    parameters
        What stands in ``result.json``.
    signed
        Whether sites show by an enrolled key who they are.
    federation
        The folder of the federation whose run it is, seen from the run's; empty: that
        is its own.
    """

    run: str
    method: str
    options: Mapping[str, Any]
    seed: int
    max_rounds: int
    min_clients: int
    columns: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] | None = None
    patience: float = 600.0
    linger: float = 0.0
    grace: float = 120.0
    parameters: Mapping[str, Any] | None = None
    signed: bool = False
    max_rows: int = MAX_ROWS
    federation: str = ""

    def write(self, folder: Path) -> None:
        """Keep the plan in the run's folder."""
        write_text(folder / PLAN, json.dumps(asdict(self), indent=2) + "\n", True)

    @classmethod
    def read(cls, folder: Path) -> RunPlan:
        """Return the plan of the run in a folder."""
        try:
            fields = json.loads((folder / PLAN).read_text(encoding="utf-8"))
            plan = cls(**{**fields, "columns": tuple(fields["columns"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{folder} holds no run: start one with 'afcl serve --out {folder}'"
            ) from error
        return plan

    def members(self, folder: Path) -> Federation:
        """Return the federation that the run in a folder belongs to."""
        return Federation((folder / self.federation).resolve())

    def request(self) -> AgreementRequest:
        """Return what the sites are asked for."""
        scale: Scale = "minmax" if self.ranges is None else self.ranges
        method = get_method(self.method)
        parameters = method.parameters(**self.options)
        needed = requirements(method, parameters, scale, self.min_clients)
        min_rows = max(int(self.options.get("min_cell", 1)), needed.group)
        rows = (min_rows, needed.group, self.max_rows)
        return AgreementRequest(self.columns or None, scale, *rows)


def write_failure(folder: Path, reason: str) -> None:
    """Leave word in the run's folder why it has failed."""
    write_text(folder / FAILED, json.dumps({"reason": reason}) + "\n")


def read_failure(folder: Path) -> str | None:
    """Return why the run in a folder has failed, None if it has not."""
    path = folder / FAILED
    if not path.is_file():
        return None
    return str(json.loads(path.read_text(encoding="utf-8"))["reason"])


def serve_run(engine: Engine, folder: Path) -> None:
    """Run the plan of a folder to its end, taking up where it was interrupted."""
    plan = RunPlan.read(folder)
    spec = Spec(
        get_method(plan.method),
        plan.options,
        plan.seed,
        max_rounds=plan.max_rounds,
        run=plan.run,
        max_rows=plan.max_rows,
    )
    with Journal(folder / JOURNAL, plan.run) as journal, _Recorder(folder) as recorder:
        admission = Admission(
            engine,
            plan.run,
            plan.request(),
            plan.min_clients,
            journal,
            patience=plan.patience,
            linger=plan.linger,
            door=Door(plan.members(folder), folder) if plan.signed else None,
        )
        coordinator = Coordinator(
            spec,
            admission,
            journal=journal,
            trace=recorder.trace,
            clock=time.time,
            agreement=admission,
            patience=plan.patience,
        )
        finished = coordinator.run()
        result = _result(plan, finished, admission.roster.names)
        noted = admission.announce_end(_farewell(finished, result), plan.grace)
        text = f"told the end to {', '.join(noted)}"
        recorder.trace.add("note", tick=0, text=text, at=time.time())
    write_result(folder, result, {})


class _Recorder:
    """The trace of a run, gone on with where it stopped."""

    def __init__(self, folder: Path) -> None:
        path = folder / TRACE
        before = read_trace(path).events if path.is_file() else []
        text = "".join(to_line(event) + "\n" for event in before)
        write_text(path, text, private=True)  # without a line that was cut off
        self._file = path.open("a", encoding="utf-8")
        self.trace = Trace(self._write)
        self.trace.events = list(before)

    def _write(self, event: Event) -> None:
        self._file.write(to_line(event) + "\n")
        self._file.flush()

    def __enter__(self) -> _Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def _result(
    plan: RunPlan, finished: Finished, names: Mapping[ClientId, str]
) -> dict[str, Any]:
    """Return the content of ``result.json`` at the server, who knows no labels."""
    heard = sorted(finished.tallies)
    sites = [describe_site(finished, client, names[client]) for client in heard]
    columns, parameters = finished.terms.columns, plan.parameters or {}
    return describe(finished, finished.clustering, columns, sites, parameters)


def _farewell(
    finished: Finished, result: Mapping[str, Any]
) -> Callable[[ClientId], bytes]:
    """Return what each client is sent at the end: nothing about the other sites.

    The tree stays here too: it counts rows per seed, finer than any cluster.
    """
    own = ("sites", "tree", "notes")
    kept = {k: v for k, v in result.items() if k not in own}
    shown = json.dumps(kept)
    answer = Answer.of(finished.clustering)

    def message(client: ClientId) -> bytes:
        terms = replace(finished.terms, client=client)
        return encode(Finish(terms, answer, shown))

    return message
