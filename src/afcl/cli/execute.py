# SPDX-License-Identifier: Apache-2.0
"""Running a simulated federation on files, with checkpoint, trace and progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from afcl.cli.report import write_at_the_end
from afcl.core.protocol import AnyMethod
from afcl.data.features import bounds_of
from afcl.data.sites import Sites, SiteTable
from afcl.data.suspicion import Suspicion
from afcl.gaps import KEEPING
from afcl.privacy.files import kept_secret
from afcl.runtime import results
from afcl.runtime.arrays import brought_back
from afcl.runtime.coordinator import Spec
from afcl.runtime.journal import Journal
from afcl.runtime.progress import progress
from afcl.runtime.schedule import as_schedule
from afcl.runtime.simulate import simulate
from afcl.runtime.splitting import splitting_columns
from afcl.trace import Event, Trace, to_line

#: What the noise of a run is drawn from, until it is done.
SECRET = "secret.bin"
NOT_A_GUARANTEE = (
    "Noise was drawn from the seed, so that the run can be repeated: simulated, not a "
    "guarantee."
)


def execute(
    sites: Sites[SiteTable],
    rows: Sequence[Any],
    out: Path,
    method: AnyMethod,
    options: dict[str, Any],
    parameters: dict[str, Any],
    identity: str,
    scale: Any = "minmax",
    suspicions: Sequence[Suspicion] = (),
    private: bool = False,
) -> dict[str, Any]:
    """Run, label, write the folder and its page; return what ``result.json`` holds.

    `rows` are those of the sites, or what they have become on a device. Where a run is
    `private` nothing is written down of what was found in the files.
    """
    names = tuple(source.name for source in sites.tables)
    spec = Spec(
        method,
        options,
        parameters["seed"],
        scale,
        max_rounds=parameters["max_rounds"],
        run=identity[:12],
        names=names,
        columns=tuple(sites.columns),
        missing=parameters["missing"] if parameters["missing"] in KEEPING else "",
        bounds=bounds_of(sites.columns, sites.features)
        if sites.features and isinstance(scale, str)
        else None,
    )
    secret = out / SECRET
    if spec.noisy and not parameters["seeded_noise"]:
        # An interrupted run goes on with the same noise.
        spec = replace(spec, secret=kept_secret(secret))
    with (
        Journal(out / results.JOURNAL, identity) as journal,
        open(out / results.TRACE, "w") as lines,
        progress(spec.max_rounds, sys.stderr.isatty()) as show,
    ):
        if journal.damage:
            print(f"note: {journal.damage}", file=sys.stderr)

        def listen(event: Event) -> None:
            lines.write(to_line(event) + "\n")
            lines.flush()
            show(event)

        outcome = simulate(
            spec,
            rows,
            as_schedule(parameters["participation"]),
            journal=journal,
            trace=Trace(listen),
            clock=time.time,
        )
    if "device" in parameters:
        outcome = brought_back(outcome)
    gaps = () if private else [table.gaps for table in sites.tables]
    run = (outcome, names, sites.columns, parameters, sites.features, gaps)
    result = results.describe_simulated(*run)
    result["dates"] = list(sites.dates)
    if not private:
        result["data_notes"] = _passed_on(sites)
    result["suspicions"] = _named(suspicions, result)
    if spec.noisy and spec.secret is None:
        result["note"] = f"{result.get('note', '')} {NOT_A_GUARANTEE}".strip()
    labels = {
        source.name: source.in_input_order(values)
        for source, values in zip(sites.tables, outcome.labels, strict=True)
    }
    ids = {source.name: source.ids for source in sites.tables}
    results.write_result(out, result, labels, ids)
    write_at_the_end(out)
    secret.unlink(missing_ok=True)
    return result


def _named(found: Sequence[Suspicion], result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is suspicious, and say what only the answer can show."""
    known = [asdict(each) for each in found]
    splits = splitting_columns({**result, "suspicions": known})
    for each in splits:
        print(f"note: {each.text}", file=sys.stderr)
    return known + [asdict(each) for each in splits]


def _passed_on(sites: Sites[SiteTable]) -> list[str]:
    """Return the notes with the last parts of paths only: a page is passed on."""
    named = [table.path for table in sites.tables if table.path is not None]
    paths = [path for path in named if len(path.parts) > 1]
    # A long path may begin with a shorter one.
    paths.sort(key=lambda path: len(str(path)), reverse=True)
    notes = list(sites.notes)
    for path in paths:
        notes = [note.replace(str(path), path.name) for note in notes]
    return notes
