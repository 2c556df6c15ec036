# SPDX-License-Identifier: Apache-2.0
"""The server of a live run: from a folder with a plan to a folder with a result.

It is given an engine, and drives the same coordinator as the simulator.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from afcl._typing import ClientId
from afcl.core.terms import CLEAR, DECLARED, HASHED, Answer, Category, Finish
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.occupied import occupied
from afcl.privacy.levels import parse_level
from afcl.runtime.agreement import MAX_ROWS, AgreementRequest, Scale
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.heartbeat import Heartbeat
from afcl.runtime.journal import Journal
from afcl.runtime.live.admission import Admission
from afcl.runtime.live.door import KeyDoor
from afcl.runtime.live.engine import Engine
from afcl.runtime.live.farewell import END_JOURNAL, Farewell, keep_end
from afcl.runtime.live.federation import Federation
from afcl.runtime.live.kinds import features_of
from afcl.runtime.live.numbered import Standing
from afcl.runtime.live.retelling import opening
from afcl.runtime.requirements import requirements
from afcl.runtime.results import (
    JOURNAL,
    RESULT,
    TRACE,
    describe,
    describe_site,
    write_result,
    write_text,
)
from afcl.runtime.spec import Finished, Spec
from afcl.runtime.splitting import splitting_columns
from afcl.trace import TraceFile

#: What the run is, written before it begins.
PLAN = "plan.json"
#: Why the run failed, if it did.
FAILED = "failed.json"
#: What keeps a second coordinator out, in the run's folder.
LOCK = "coordinator.lock"
#: Seconds for an earlier one to end.
LAST = 30.0


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
    categories
        Columns that are categories for everybody, and their levels (none: those that
        sites name).
    ranges
        Public bounds by column; none: min-max over the sites that begin.
    max_rows
        Most rows a site may have.
    patience
        Seconds without any arrival after which the run ends with what it has.
    linger
        Seconds the run stays open for late joiners after it could end.
    grace
        Seconds to tell the end to the sites that are there.
    serve_end
        Seconds for which a site that is away may come back for it.
    parameters
        What stands in ``result.json``.
    signed
        Whether sites show by an enrolled key who they are.
    standing
        How it goes on after the first answer; None: it ends with that.
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
    standing: Standing | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    serve_end: float = 0.0
    federation: str = ""

    def write(self, folder: Path) -> None:
        """Keep the plan in the run's folder."""
        write_text(folder / PLAN, json.dumps(asdict(self), indent=2) + "\n", True)

    @classmethod
    def read(cls, folder: Path) -> RunPlan:
        """Return the plan of the run in a folder."""
        try:
            fields = json.loads((folder / PLAN).read_text(encoding="utf-8"))
            levels = {n: tuple(v) for n, v in fields.get("categories", {}).items()}
            lists = {"columns": tuple(fields["columns"]), "categories": levels}
            plan = cls(**{**fields, **lists})
            if plan.standing is not None:
                plan = replace(plan, standing=Standing(**fields["standing"]))
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
        kinds = tuple(Category(*each) for each in self.categories.items())
        names = _how_names_travel(method.disclosure(parameters).level)
        return AgreementRequest(self.columns or None, scale, *rows, kinds, names)


def _how_names_travel(level: str | None) -> str:
    """Return how names of levels travel at a privacy level."""
    known = parse_level(level) if level else None
    if known is not None and known.private:
        return DECLARED
    return HASHED if known is not None and known.secure else CLEAR


def write_failure(folder: Path, reason: str) -> None:
    """Leave word in the run's folder why it has failed."""
    write_text(folder / FAILED, json.dumps({"reason": reason}) + "\n")


def read_failure(folder: Path) -> str | None:
    """Return why the run in a folder has failed, None if it has not."""
    try:
        return str(json.loads((folder / FAILED).read_text(encoding="utf-8"))["reason"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return f"the reason cannot be read any more: {folder / FAILED} is damaged"


@dataclass(frozen=True)
class Before:
    """What a run knows of those before it, where answer follows answer.

    Attributes
    ----------
    folder
        Whose run it is: that of the federation that goes on; None: its own.
    numbers
        Sites of earlier runs, by the numbers that they keep.
    unwelcome
        Tells by its name whether a site is not let in any more.
    expected, absence
        Sites without which nothing begins, and for how many seconds.
    named
        Returns what is added to the result: how its clusters are called.
    """

    folder: Path | None = None
    numbers: Sequence[str] = ()
    unwelcome: Callable[[str], bool] | None = None
    expected: Sequence[str] = ()
    absence: float = 0.0
    named: Callable[[Finished, Mapping[ClientId, str]], Mapping[str, Any]] | None = None


#: Of a run that is none of several.
ALONE = Before()


def serve_run(engine: Engine, folder: Path, before: Before = ALONE) -> None:
    """Run the plan of a folder to its end, taking up where it was interrupted.

    A folder that has its result is served its end, for who has missed it. What the disk
    refuses ends it without a loss: the heartbeat says so.
    """
    plan = RunPlan.read(folder)
    # A coordinator whose parent was killed may live on for some seconds.
    alone = occupied(folder, "coordinator", name=LOCK, patience=LAST)
    with alone, Heartbeat(folder), TraceFile(folder / TRACE) as recorder:
        admission = None
        if not (folder / RESULT).is_file():
            admission = _run(plan, engine, folder, recorder, before)
        with Journal(folder / END_JOURNAL, plan.run) as journal:
            if admission is None:
                admission = _admission(plan, engine, folder, journal, before)

            def say(text: str) -> None:
                recorder.trace.add("note", tick=0, text=text, at=time.time())

            Farewell(folder, admission, journal, say).serve(plan.grace)


def _run(
    plan: RunPlan, engine: Engine, folder: Path, recorder: TraceFile, before: Before
) -> Admission:
    """Bring a run to its result; return who reaches its sites."""
    spec = Spec(
        get_method(plan.method),
        plan.options,
        plan.seed,
        max_rounds=plan.max_rounds,
        run=plan.run,
        max_rows=plan.max_rows,
    )
    with Journal(folder / JOURNAL, plan.run) as journal:
        _mend(recorder, spec, journal)
        admission = _admission(plan, engine, folder, journal, before)
        coordinator = Coordinator(
            spec,
            admission,
            journal=journal,
            trace=recorder.trace,
            clock=time.time,
            agreement=admission,
            patience=plan.patience,
            door=admission,
            timer=time.monotonic,
        )
        finished = coordinator.run()
        names = admission.roster.names
        result = _result(plan, finished, names)
        if before.named is not None:
            result |= before.named(finished, names)
            for change in result["changes"]:
                recorder.trace.add("change", tick=0, **change, at=time.time())
        finish = _farewell(finished, result)
        served = admission.to_be_told()
        keep_end(folder, journal, finish, served, plan.serve_end)
    write_result(folder, result, {})
    return admission


def _admission(
    plan: RunPlan, engine: Engine, folder: Path, journal: Journal, before: Before
) -> Admission:
    return Admission(
        engine,
        plan.run,
        plan.request(),
        plan.min_clients,
        journal,
        patience=plan.patience,
        linger=plan.linger,
        door=_door(plan, before.folder or folder) if plan.signed else None,
        numbers=before.numbers,
        unwelcome=before.unwelcome,
        expected=before.expected,
        absence=before.absence,
    )


def _door(plan: RunPlan, folder: Path) -> KeyDoor:
    return KeyDoor(plan.members(folder), folder)


def _mend(recorder: TraceFile, spec: Spec, journal: Journal) -> None:
    """Say what was damaged; have the trace made again if it does not fit any more."""
    damage = [text for text in (journal.damage, recorder.damage) if text]
    gone = bool(journal.log) and not recorder.trace.events
    if damage or gone:
        recorder.mend(opening(spec, journal), told_again=journal.past() is not None)
    for text in damage:
        recorder.trace.add("note", tick=0, text=text, at=time.time())


def _result(
    plan: RunPlan, finished: Finished, names: Mapping[ClientId, str]
) -> dict[str, Any]:
    """Return the content of ``result.json`` at the server, who knows no labels."""
    clients = sorted(finished.tallies)
    sites = [describe_site(finished, client, names[client]) for client in clients]
    columns, parameters = finished.terms.columns, plan.parameters or {}
    agreed = finished.terms.categories or ()
    features = features_of(agreed)
    result = describe(
        finished, finished.clustering, columns, sites, parameters, features
    )
    result["features"] = [
        asdict(each) if each.hashed else {"name": each.name, "levels": each.levels}
        for each in agreed
    ]
    result["suspicions"] = [asdict(found) for found in splitting_columns(result)]
    return result


def _farewell(finished: Finished, result: Mapping[str, Any]) -> Finish:
    """Return what every client is sent at the end: nothing about the other sites.

    The tree, the cells and what is told of every cluster by them stay here too: they
    count rows, finer than any cluster.
    """
    own = ("sites", "tree", "cells", "profiles", "notes", "history", "suspicions")
    shown = json.dumps({k: v for k, v in result.items() if k not in own})
    return Finish(finished.terms, Answer.of(finished.clustering), shown)
