# SPDX-License-Identifier: Apache-2.0
"""Where a run stands as numbers, in the text format that Prometheus reads.

Sites are counted, not named: a monitoring system is read by more people than the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from afcl import __version__
from afcl.report import RunFolder, RunState
from afcl.report.run_state import (
    DONE,
    DOUBTFUL,
    FAILED,
    RUNNING,
    STALLED,
    WAITING,
)

#: What an answer of this format says it is.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: The states a run may be in while it is watched.
STATES = (WAITING, RUNNING, STALLED, DONE, DOUBTFUL, FAILED)

GAUGE = "gauge"
COUNTER = "counter"


@dataclass(frozen=True)
class Metric:
    """One metric: its name, what it counts, and its values by label."""

    name: str
    kind: str
    help: str
    values: Mapping[str, float]
    label: str = ""

    def lines(self) -> Iterable[str]:
        """Return it as text; one without a value is left out."""
        if not self.values:
            return
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for value_of, value in self.values.items():
            labels = f'{{{self.label}="{value_of}"}}' if self.label else ""
            yield f"{self.name}{labels} {value:.15g}"


def metrics(run: RunFolder, state: RunState, now: float) -> str:
    """Return the metrics of a run as text.

    Parameters
    ----------
    run
        What is known of the run.
    state
        Where it stands.
    now
        The time, in seconds since the epoch.
    """
    return "".join(f"{line}\n" for m in _metrics(run, state, now) for line in m.lines())


def _metrics(run: RunFolder, state: RunState, now: float) -> Iterable[Metric]:
    history = run.history
    sites = history.sites.values()
    gone = sum(site.gone for site in sites)
    yield Metric(
        "afcl_info", GAUGE, "The version of afcl.", {__version__: 1}, "version"
    )
    yield Metric(
        "afcl_state",
        GAUGE,
        "1 for the state that the run is in, 0 for the others.",
        {word: float(word == state.word) for word in STATES},
        "state",
    )
    yield Metric(
        "afcl_sites",
        GAUGE,
        "Sites that are in the run, have left it, or were not let in.",
        {
            "here": len(sites) - gone,
            "gone": gone,
            "refused": len(history.refused),
        },
        "standing",
    )
    yield _counted("afcl_rounds_total", "Rounds so far.", history.n_rounds)
    yield _counted(
        "afcl_received_bytes_total",
        "Bytes of the messages of sites that were absorbed.",
        sum(site.bytes for site in sites),
    )
    yield _counted(
        "afcl_received_messages_total",
        "Messages of sites that were absorbed.",
        sum(site.messages for site in sites),
    )
    yield _counted(
        "afcl_rejected_messages_total",
        "Messages of sites that were not absorbed.",
        sum(len(site.rejected) for site in sites),
    )
    yield _counted("afcl_resumed_total", "Restarts of the server.", history.resumed)
    k = run.n_clusters
    if k is None and history.steps:
        k = history.steps[-1].k
    yield _known("afcl_clusters", "Number of clusters so far.", k)
    last_times = [site.heard_at for site in sites if site.heard_at is not None]
    silent = max(0.0, now - max(last_times)) if last_times else None
    yield _known(
        "afcl_seconds_since_last_arrival",
        "Seconds since something of a site arrived.",
        silent,
    )


def _counted(name: str, text: str, value: float) -> Metric:
    return Metric(name, COUNTER, text, {"": value})


def _known(name: str, text: str, value: float | None) -> Metric:
    return Metric(name, GAUGE, text, {} if value is None else {"": value})
