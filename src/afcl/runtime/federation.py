# SPDX-License-Identifier: Apache-2.0
"""The server of a live run: from a folder with a plan to a folder with a result.

Engine-free: it is given a post, and drives the same coordinator as the simulator.
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
from afcl.runtime.agreement import Scale, Wishes
from afcl.runtime.codec import encode
from afcl.runtime.coordinator import Coordinator, Finished, Spec
from afcl.runtime.demands import demands
from afcl.runtime.journal import Journal
from afcl.runtime.lobby import Lobby, Post
from afcl.runtime.results import (
    JOURNAL,
    TRACE,
    tree_of,
    versions,
    write_result,
    write_text,
)
from afcl.trace import Event, Trace, read_trace, to_line

PLAN, FAILED = "plan.json", "failed.json"


@dataclass(frozen=True)
class Plan:
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
    patience
        Seconds without any arrival after which the run ends with what it has.
    linger
        Seconds the run stays open for late joiners after it could end.
    grace
        Seconds to tell the sites the end.
    parameters
        What stands in ``result.json``.
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

    def write(self, folder: Path) -> None:
        """Keep the plan in the run's folder."""
        write_text(folder / PLAN, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """Return the plan of the run in a folder."""
        try:
            said = json.loads((folder / PLAN).read_text(encoding="utf-8"))
            plan = cls(**{**said, "columns": tuple(said["columns"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{folder} holds no run: start one with 'afcl serve --out {folder}'"
            ) from error
        return plan

    def wishes(self) -> Wishes:
        """Return what the sites are asked for."""
        scale: Scale = "minmax" if self.ranges is None else self.ranges
        method = get_method(self.method)
        asked = demands(method, self.options, scale, self.min_clients)
        least = max(int(self.options.get("min_cell", 1)), asked.group)
        return Wishes(self.columns or None, scale, least, asked.group)


def serve_run(post: Post, folder: Path) -> None:
    """Run the plan of a folder to its end, taking up where it was interrupted."""
    plan = Plan.read(folder)
    spec = Spec(
        get_method(plan.method),
        plan.options,
        plan.seed,
        max_rounds=plan.max_rounds,
        run=plan.run,
    )
    with Journal(folder / JOURNAL, plan.run) as journal, _Recorder(folder) as recorder:
        lobby = Lobby(
            post,
            plan.run,
            plan.wishes(),
            plan.min_clients,
            journal,
            patience=plan.patience,
            linger=plan.linger,
        )
        coordinator = Coordinator(
            spec,
            lobby,
            journal=journal,
            trace=recorder.trace,
            clock=time.time,
            door=lobby,
            patience=plan.patience,
        )
        finished = coordinator.run()
        result = describe(plan, finished, lobby.names)
        noted = lobby.tell(_farewell(finished, result), plan.grace)
        text = f"told the end to {', '.join(noted)}"
        recorder.trace.add("note", tick=0, text=text, at=time.time())
    write_result(folder, result, {})


class _Recorder:
    """The trace of a run, gone on with where it stopped."""

    def __init__(self, folder: Path) -> None:
        path = folder / TRACE
        before = read_trace(path).events if path.is_file() else []
        text = "".join(to_line(event) + "\n" for event in before)
        write_text(path, text)  # without a line that was cut off
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


def describe(
    plan: Plan, finished: Finished, names: Mapping[ClientId, str]
) -> dict[str, Any]:
    """Return the content of ``result.json`` at the server: no row and no label."""
    clustering, box = finished.clustering, finished.terms.box
    centers = clustering.centers
    return {
        "n_clusters": clustering.k,
        "columns": list(finished.terms.columns),
        "centers": None if centers is None else box.unscale(centers).tolist(),
        "sizes": [round(size) for size in clustering.sizes.tolist()],
        "scores": clustering.scores,
        "path": [{"k": level.k, "scores": level.scores} for level in clustering.path],
        "sites": [
            {
                "name": names[client],
                "rows": tally.rows,
                "messages": tally.messages,
                "bytes": tally.bytes,
                "rejected": finished.rejected.get(client, 0),
            }
            for client, tally in sorted(finished.tallies.items())
        ],
        "tree": tree_of(clustering),
        "rounds": finished.rounds,
        "scale": {"low": box.low.tolist(), "span": box.span.tolist()},
        "parameters": dict(plan.parameters or {}),
        "versions": versions(),
    }


def _farewell(
    finished: Finished, result: Mapping[str, Any]
) -> Callable[[ClientId], bytes]:
    """Return what each client is told at the end: nothing about the other sites.

    The tree stays here too: it counts rows per seed, finer than any cluster.
    """
    kept = {k: v for k, v in result.items() if k not in ("sites", "tree")}
    facts = json.dumps(kept)
    said = Answer.of(finished.clustering)

    def message(client: ClientId) -> bytes:
        terms = replace(finished.terms, client=client)
        return encode(Finish(terms, said, facts))

    return message
