# SPDX-License-Identifier: Apache-2.0
"""A run's folder, read once; whatever is missing is simply not there.

Folders come from ``afcl run`` (a simulation), ``afcl serve`` (a coordinator, without
labels) and ``afcl join`` (a site, without the other sites).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.exceptions import InputError
from afcl.registry import OF_CONNECTED
from afcl.reliance import (
    CLUSTERS,
    NO_CLUSTERS,
    STABLE,
    UNCLEAR,
    flaw_of,
    reaches,
)
from afcl.report.levels import categories_of, times_of
from afcl.report.past_answers import AnswerSummary, answers_of
from afcl.report.profile_facts import ClusterProfile, orders_of, profiles_of
from afcl.report.shape_facts import ShapeFacts, shape_of
from afcl.report.site_facts import SiteSummary, sites_of
from afcl.trace import Event, RunHistory, ServerStep, history_of, read_trace

#: The answer; it is written last.
RESULT = "result.json"
#: The record of what happened.
TRACE = "trace.jsonl"
#: Why a live run ended without an answer.
FAILED = "failed.json"
#: A coordinator's folder has it.
PLAN = "plan.json"
#: A site's folder has it.
SITE = "site.json"
#: The settings of a simulation.
RUN = "run.json"
#: Every file that a page is made of.
FILES = (RESULT, TRACE, FAILED, PLAN, SITE)

#: Whose folder it is: everybody's.
SIMULATION = "simulation"
#: It is the coordinator's.
COORDINATOR = "coordinator"
#: It is one site's.
MEMBER = "site"
#: Bytes in which the first line of a trace ends.
FIRST_LINE = 100_000
#: How far rounding may push a share out of 0 to 1.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Tree:
    """The merge tree: sizes of the leaves (None: not known), and the merges in order.

    The i-th merge joins two nodes at a cost and makes node ``len(sizes) + i``.
    """

    sizes: tuple[int | None, ...]
    merges: tuple[tuple[int, int, float, int], ...]


@dataclass(frozen=True)
class TrustFacts:
    """How far the answer can be believed, as ``result.json`` has it.

    Attributes
    ----------
    verdict, gain
        `CLUSTERS`, `NO_CLUSTERS` or `UNCLEAR`, "" where it does not say; and how much
        better than a single cloud clusters explain a row.
    confidence, shares
        How often the answer's k came out of resampled data, and every k that did with
        its share, in increasing k.
    stabilities
        How much of every cluster comes back, 0 to 1; empty: not known.
    levels
        Every k whose clusters come back, and the answer's.
    """

    verdict: str = ""
    gain: float | None = None
    confidence: float | None = None
    shares: tuple[tuple[int, float], ...] = ()
    stabilities: tuple[float, ...] = ()
    levels: tuple[int, ...] = ()

    @property
    def unstable(self) -> list[int]:
        """Clusters of which too little comes back, the least stable first."""
        parts = self.stabilities
        weak = [c for c, part in enumerate(parts) if not reaches(part, STABLE)]
        return sorted(weak, key=lambda c: parts[c])


@dataclass(frozen=True)
class OwnRows:
    """A site's own rows in their units, with their clusters; or why there are none.

    Only a site's own page gets them, on the site's own machine.
    """

    values: Floats | None = None
    labels: Ints | None = None
    columns: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class RunFolder:
    """Everything the page shows.

    Attributes
    ----------
    name, kind
        The folder's name and whose folder it is.
    done, failed, state
        Whether there is a result; why there is none; what a site's file says.
    n_clusters, columns, centers, sizes, scores, path, tree
        As in ``result.json``; centres in original units.
    trust, categories
        How far that can be believed, None where the method does not say; and which
        columns are levels of a category.
    sites, rounds, note, warnings, suspicions, notes, data_notes, parameters, versions
        As in ``result.json``; of suspicions the texts.
    flaw
        What suspicions and notes make of the answer (:func:`afcl.reliance.flaw_of`).
    shape
        Where the clusters are, if they need not be round.
    orders, times
        Levels of the columns whose centres are mean ranks of these; and, for parts of
        dates that go round, where every centre is.
    profiles
        Why every cluster is one; empty where that is not known.
    low, span
        The agreed scale.
    history
        What the trace adds up to.
    own
        A site's own rows.
    command
        What was typed, where a run remembers it.
    """

    name: str
    kind: str = SIMULATION
    done: bool = False
    failed: str = ""
    state: str = ""
    n_clusters: int | None = None
    columns: tuple[str, ...] = ()
    centers: Floats | None = None
    sizes: tuple[int, ...] = ()
    scores: dict[str, float | None] = field(default_factory=dict)
    path: tuple[tuple[int, dict[str, float | None]], ...] = ()
    tree: Tree | None = None
    trust: TrustFacts | None = None
    shape: ShapeFacts | None = None
    categories: dict[str, str] = field(default_factory=dict)
    sites: tuple[SiteSummary, ...] = ()
    rounds: int | None = None
    note: str = ""
    warnings: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()
    flaw: str = ""
    notes: tuple[str, ...] = ()
    data_notes: tuple[str, ...] = ()
    answers: tuple[AnswerSummary, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    orders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    times: dict[str, tuple[str, ...]] = field(default_factory=dict)
    profiles: tuple[ClusterProfile, ...] = ()
    low: Floats | None = None
    span: Floats | None = None
    history: RunHistory = field(default_factory=RunHistory)
    own: OwnRows | None = None
    command: str = ""
    min_clients: int | None = None

    @property
    def rows(self) -> int:
        """Rows of all sites together, as far as they are known."""
        if self.kind == MEMBER:
            return sum(self.sizes)
        return sum(site.rows for site in self.sites)

    def scaled(self, points: Floats) -> Floats:
        """Return points in original units as the agreed box sees them."""
        if self.low is None or self.span is None:
            return points
        # A constant column has no range: it stays where it is.
        there: Floats = (points - self.low) / np.where(self.span > 0, self.span, 1.0)
        return there

    @property
    def method(self) -> str:
        """Name of the method, with its preset."""
        name = str(self.parameters.get("method") or self.history.method or "afcl")
        preset = str(self.parameters.get("preset") or "default")
        return name if preset == "default" else f"{name}-{preset}"

    @property
    def criterion(self) -> str:
        """The index k was chosen by; `auto` looks at the silhouette first.

        A method that does not have it is judged by the first index it has, and clusters
        that are not round by an index of their own.
        """
        own = [name for name in OF_CONNECTED if self.scores.get(name) is not None]
        if own:
            return own[0]
        asked = self.parameters.get("criterion")
        asked = asked or self.history.parameters.get("criterion")
        wanted = "silhouette" if asked in (None, "auto") else str(asked)
        known = [
            name
            for scores in (self.scores, *(scores for _, scores in self.path))
            for name, value in scores.items()
            if value is not None
        ]
        return wanted if wanted in known or not known else known[0]


def read_run_folder(folder: Path, own: OwnRows | None = None) -> RunFolder:
    """Read a run's folder, finished or not.

    Raises
    ------
    InputError
        If there is no run in the folder, or one of its files is damaged.
    """
    folder = Path(folder)
    known = [RESULT, TRACE, PLAN, SITE, RUN]
    if not any((folder / name).is_file() for name in known):
        raise InputError(
            f"{folder} holds no run: give the folder that 'afcl run --out', "
            "'afcl serve --out' or 'afcl join --out' wrote"
        )
    return read_so_far(folder, own)


def read_so_far(folder: Path, own: OwnRows | None = None) -> RunFolder:
    """Read whatever is there already; an empty or missing folder is a run to come."""
    plan, member = _json(folder / PLAN), _json(folder / SITE)
    failed, result = _json(folder / FAILED), _json(folder / RESULT)
    history = history_of(_events(folder / TRACE))
    kind = SIMULATION
    if plan is not None:
        kind = COORDINATOR
    elif member is not None:
        kind = MEMBER
    parameters = (result or {}).get("parameters") or (plan or {}).get("parameters")
    common: dict[str, Any] = {
        "name": _name(folder, member),
        "kind": kind,
        "failed": _failure(failed, member),
        "state": str((member or {}).get("state", "")),
        "parameters": dict(parameters or {}),
        "history": history,
        "own": own,
        "command": str((_json(folder / RUN) or {}).get("command") or ""),
        "min_clients": (plan or {}).get("min_clients"),
    }
    if result is None:
        return RunFolder(**common, **_so_far(history))
    return RunFolder(**common, done=True, **_finished(folder / RESULT, result, history))


def _name(folder: Path, member: dict[str, Any] | None) -> str:
    if member is not None and member.get("name"):
        return str(member["name"])
    return "/".join(Path(folder).resolve().parts[-2:])


def _failure(failed: dict[str, Any] | None, member: dict[str, Any] | None) -> str:
    if failed is not None:
        return str(failed.get("reason", "")) or "for a reason nobody wrote down"
    if member is not None and member.get("state") == "refused":
        return f"refused: {member.get('reason', '')}"
    return ""


def _json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): run it again") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} does not hold what it should: run it again")
    return content


def _events(path: Path) -> list[Event]:
    """Return the trace's events; a file that was only just opened has none."""
    try:
        if b"\n" not in path.read_bytes()[:FIRST_LINE]:
            return []
        return read_trace(path).events
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _so_far(history: RunHistory) -> dict[str, Any]:
    """Return what the trace of a run without a result gives."""
    last = history.steps[-1] if history.steps else None
    return {
        "n_clusters": None if last is None else last.k,
        "columns": history.columns,
        "rounds": None if last is None else last.round,
        **({} if last is None else _clusters_so_far(last, history)),
        "sites": tuple(
            SiteSummary(site.name, site.rows, site.messages, site.bytes)
            for site in history.sites.values()
        ),
        "low": history.low,
        "span": history.span,
    }


def _clusters_so_far(last: ServerStep, history: RunHistory) -> dict[str, Any]:
    """Return the path and the clusters as the server last told them, if it did."""
    centers = last.centers
    known = centers is not None and len(last.sizes) == last.k == len(centers)
    found: dict[str, Any] = {
        "path": tuple((k, {"silhouette": score}) for k, score in last.path)
    }
    if centers is not None and known:
        found["sizes"] = last.sizes
        if history.low is not None and history.span is not None:
            found["centers"] = history.low + centers * history.span
            found["columns"] = history.columns or tuple(
                f"x{j}" for j in range(centers.shape[1])
            )
    return found


def _finished(
    path: Path, result: dict[str, Any], history: RunHistory
) -> dict[str, Any]:
    try:
        scale = result.get("scale") or {}
        centers = result.get("centers")
        return {
            "n_clusters": int(result["n_clusters"]),
            "columns": tuple(str(name) for name in result["columns"]),
            "centers": None if centers is None else np.array(centers, dtype=float),
            "sizes": tuple(int(size) for size in result.get("sizes") or ()),
            "scores": dict(result.get("scores") or {}),
            "path": tuple(
                (int(level["k"]), dict(level["scores"]))
                for level in result.get("path") or ()
            ),
            "tree": _tree(result.get("tree")),
            "trust": _trust(result),
            "shape": shape_of(result),
            "categories": categories_of(result),
            "sites": sites_of(result),
            "rounds": result.get("rounds"),
            "note": str(result.get("note") or ""),
            "answers": answers_of(result.get("history") or ()),
            "warnings": tuple(map(str, result.get("warnings") or ())),
            "suspicions": tuple(str(s["text"]) for s in result.get("suspicions") or ()),
            "flaw": flaw_of(
                result.get("suspicions") or (), map(str, result.get("notes") or ())
            ),
            "notes": tuple(map(str, result.get("notes") or ())),
            "data_notes": tuple(map(str, result.get("data_notes") or ())),
            "versions": dict(result.get("versions") or {}),
            "orders": orders_of(result),
            "times": times_of(result),
            "profiles": profiles_of(result),
            "low": _array(scale.get("low"), history.low),
            "span": _array(scale.get("span"), history.span),
        }
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} does not hold a result ({error!r}): run it again with --force"
        ) from error


def _array(values: Any, otherwise: Floats | None) -> Floats | None:
    return otherwise if values is None else np.array(values, dtype=float)


def _tree(tree: Any) -> Tree | None:
    if not tree:
        return None
    return Tree(
        tuple(None if size is None else int(size) for size in tree["sizes"]),
        tuple((int(a), int(b), float(c), int(n)) for a, b, c, n in tree["merges"]),
    )


def _trust(result: dict[str, Any]) -> TrustFacts | None:
    structure, sure = result.get("structure") or {}, result.get("confidence") or {}
    if not structure and not sure:
        return None
    verdict, gain = structure.get("verdict") or "", structure.get("gain")
    if verdict not in ("", CLUSTERS, NO_CLUSTERS, UNCLEAR):
        raise ValueError(f"verdict {verdict!r}")
    shares = {int(k): _share(part) for k, part in (sure.get("by_k") or {}).items()}
    stabilities = tuple(map(_share, sure.get("clusters") or ()))
    return TrustFacts(
        verdict,
        None if gain is None else float(gain),
        None if sure.get("k") is None else _share(sure["k"]),
        tuple(sorted(shares.items())),
        # Of other clusters than the answer's they would say nothing.
        stabilities if len(stabilities) == int(result["n_clusters"]) else (),
        tuple(sorted({int(k) for k in result.get("levels") or ()})),
    )


def _share(value: Any) -> float:
    share = float(value)
    if not -ROUNDING <= share <= 1 + ROUNDING:
        raise ValueError(f"share {share}")
    return min(max(share, 0.0), 1.0)
