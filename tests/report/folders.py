# SPDX-License-Identifier: Apache-2.0
"""Folders of runs that never happened, written in a moment: what the pages read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

INDICES = ("silhouette", "simplified", "ch", "db", "bic", "free_bic")


def names_of(n_sites: int) -> list[str]:
    return [f"site-{i}" for i in range(n_sites)]


def path_of(k: int) -> list[dict[str, Any]]:
    """A path with its silhouette at `k` and a runner-up one lower, .1 behind."""
    levels = []
    for level in range(2, max(12, k + 5)):
        value = 0.7 - 0.1 * abs(level - k) + (0.001 if level < k else 0.0)
        scores = dict(
            zip(
                INDICES,
                (value, value, 100 * value, 2 - value, 900 * value, 800 * value),
                strict=True,
            )
        )
        levels.append({"k": level, "scores": scores})
    return levels


def tree_of(n_leaves: int) -> dict[str, Any]:
    """A chain: every merge takes one more leaf of 10 rows, at growing cost."""
    merges = [[0, 1, 1.0, 20]]
    for i in range(2, n_leaves):
        merges.append([n_leaves + i - 2, i, float(i * i), 10 * (i + 1)])
    return {"sizes": [None, None] + [10] * (n_leaves - 2), "merges": merges}


def profiles_of(centers: Any, columns: list[str]) -> list[dict[str, Any]]:
    """Profiles as a run writes them; column 0 sets every cluster apart, most of all."""
    k, d = np.shape(centers)
    several = k > 1
    shares = [0.0] * d
    if several:
        shares = [1.0] if d == 1 else [0.6, 0.3] + [0.1 / max(1, d - 2)] * (d - 2)
    rule = {
        "conditions": [{"column": columns[0], "at_least": True, "value": 12.5}],
        "covers": 0.93,
        "right": 0.881,
    }
    return [
        {
            "spreads": [0.5] * d,
            "others": [12.0] * d,
            "apart": [2.0 if several else 0.0] * d,
            "shares": shares,
            "nearest": (c + 1) % k if several else None,
            "separation": 2.5 if several else None,
            "silhouette": 0.61 if several else None,
            "rule": rule if several and c != 1 else None,
        }
        for c in range(k)
    ]


def result_of(
    k: int = 3, n_features: int = 3, n_sites: int = 4, n_seeds: int = 8, **changes: Any
) -> dict[str, Any]:
    rng = np.random.default_rng(k * 1000 + n_features)
    shares = rng.integers(0, 40, (n_sites, k)) + 1
    sizes = shares.sum(axis=0)
    order = np.argsort(-sizes, kind="stable")
    shares, sizes = shares[:, order], sizes[order]
    scores = path_of(k)[k - 2]["scores"] if k > 1 else dict.fromkeys(INDICES)
    made = {
        "n_clusters": k,
        "columns": [f"x{j}" for j in range(n_features)],
        "centers": (10 + 5 * rng.random((k, n_features))).tolist(),
        "sizes": sizes.tolist(),
        "scores": scores,
        "path": path_of(k) if k > 1 else [{"k": 1, "scores": scores}],
        "sites": [
            {
                "name": name,
                "rows": int(shares[i].sum()),
                "messages": 3,
                "bytes": 3000 + i,
                "sizes": shares[i].tolist(),
            }
            for i, name in enumerate(names_of(n_sites))
        ],
        "tree": tree_of(n_seeds) if k > 1 else None,
        "rounds": 5,
        "scale": {"low": [10.0] * n_features, "span": [5.0] * n_features},
        "parameters": {
            "method": "afcl",
            "preset": "default",
            "privacy": "summary",
            "criterion": "auto",
            "min_cell": 5,
            "n_clusters": None,
            "seed": 0,
        },
        "versions": {"afcl": "0", "numpy": "2"},
    }
    made["profiles"] = profiles_of(made["centers"], made["columns"])
    return {**made, **changes}


def trust_of(
    verdict: str = "clusters",
    gain: float | None = 0.5,
    k: float = 0.96,
    by_k: dict[int, float] | None = None,
    clusters: tuple[float, ...] = (0.98, 0.97, 0.95),
    levels: tuple[int, ...] = (3, 5),
) -> dict[str, Any]:
    """What a result of 3 clusters says of how far it can be believed."""
    shares = {2: 0.04, 3: 0.96} if by_k is None else by_k
    return {
        "structure": {"verdict": verdict, "gain": gain},
        "confidence": {
            "k": k,
            "by_k": {str(level): share for level, share in shares.items()},
            "clusters": list(clusters),
        },
        "levels": list(levels),
    }


#: Runs that say how far they can be believed, by what they say.
TRUSTED = {
    "sure": trust_of(),
    "none": trust_of("none", -0.01, 0.97, {1: 0.97, 2: 0.03}, (1.0,), (1,)),
    "unclear": trust_of("unclear", None, 0.6, {2: 0.4, 3: 0.6}, levels=()),
    "doubtful": trust_of(
        k=0.3,
        by_k={2: 0.1, 3: 0.3, **dict.fromkeys(range(4, 16), 0.05)},
        clusters=(0.9, 0.4, 0.6),
        levels=(2,),
    ),
}


def events_of(
    n_sites: int = 4,
    rounds: int = 5,
    n_features: int = 3,
    n_seeds: int = 8,
    k: int = 3,
    end: bool = True,
    at: float = 1000.0,
) -> list[dict[str, Any]]:
    """Hellos, then rounds in which every other site answers, the last one late."""
    rng = np.random.default_rng(0)
    names = names_of(n_sites)
    events: list[dict[str, Any]] = [
        {"event": "run", "tick": 0, "schema": 1, "run": "r", "method": "afcl"}
        | {"parameters": {"criterion": "auto"}, "seed": 0, "clients": names}
    ]
    for i in range(n_sites):
        events.append(
            {"event": "ranges", "tick": 0, "client": i, "rows": 50, "bytes": 9}
        )
    for i in range(n_sites):
        events.append(_send(0, i))
        events.append(
            {"event": "hello", "tick": 0, "client": i, "contact": 0, "rows": 50}
            | {"bytes": 1000, "array_bytes": 900}
        )
    seeds = rng.random((n_seeds, n_features))
    events.append(prepare(0, k, seeds))
    for tick in range(1, rounds + 1):
        for i in range(tick % 2, n_sites, 2):
            events.append(_send(tick, i))
            stale = 2 if i == n_sites - 1 else 0
            events.append(
                {"event": "update", "tick": tick, "client": i, "contact": tick}
                | {"version": 1, "staleness": stale, "bytes": 1000, "array_bytes": 900}
            )
        seeds = seeds + rng.normal(0, 0.02, seeds.shape)
        events.append(prepare(tick, k, seeds))
    if end:
        events.append(
            {"event": "end", "tick": rounds, "round": rounds, "k": k, "reason": "done"}
            | {"messages": 10, "bytes": 10_000}
        )
    return [{**event, "at": at + i} for i, event in enumerate(events)]


def _send(tick: int, client: int) -> dict[str, Any]:
    return {"event": "send", "tick": tick, "client": client} | {
        "contact": tick,
        "version": 1,
        "bytes": 500,
    }


def prepare(tick: int, k: int, seeds: Any = None, at: float | None = None) -> Any:
    event = {"event": "prepare", "tick": tick, "round": tick, "k": k} | {
        "objective": 0.5 + 0.01 * tick,
        "version": 1,
        "movement": 0.0,
        "seeds": None if seeds is None else np.asarray(seeds).tolist(),
    }
    return event if at is None else {**event, "at": at}


def told_so_far(tick: int) -> dict[str, Any]:
    """A `prepare` that says where path and clusters stand."""
    event: dict[str, Any] = prepare(tick, 3)
    return event | {
        "path": [[2, 0.4], [3, 0.62], [4, 0.5]],
        "centers": [[0.1, 0.2, 0.3], [0.5, 0.5, 0.5], [0.9, 0.8, 0.7]],
        "sizes": [50, 30, 20],
    }


def to_lines(events: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def history_of_answers(n: int) -> list[dict[str, Any]]:
    """Answers of four clusters; every second one has a fifth."""
    history = []
    for number in range(1, n + 1):
        k = 4 + (number % 2 == 0)
        change = "c4 is new" if k == 5 else "c4 is gone"
        history.append(
            {
                "number": number,
                "clients": names_of(4),
                "names": [f"c{i}" for i in range(k)],
                "sizes": [100] * k,
                "changes": [change] if number > 1 else [],
                "withdrawn": False,
            }
        )
    return history


def write_run(
    folder: Path,
    result: dict[str, Any] | None = None,
    events: list[dict[str, Any]] | None = None,
    **files: dict[str, Any],
) -> Path:
    """Write a folder; `files` are further JSON files by name, without their ending."""
    folder.mkdir(parents=True, exist_ok=True)
    if result is not None:
        (folder / "result.json").write_text(json.dumps(result))
    if events is not None:
        (folder / "trace.jsonl").write_text(to_lines(events))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def scenarios(folder: Path) -> dict[str, Path]:
    """The kinds of runs a page must be readable for."""
    wide = result_of(k=7, n_features=40)
    wide["columns"] = [f"measurement number {j} of many" for j in range(40)]
    wide["profiles"] = profiles_of(wide["centers"], wide["columns"])
    rival = result_of(scores={}, path=[], tree=None)
    rival["profiles"] = []
    rival["parameters"] = {"method": "k-fed", "n_clusters": 3, "privacy": "rival"}
    half = events_of(end=False)
    half[20]["event"] = "failure"
    half[20]["reason"] = "no answer in time"
    site = result_of()
    site["site"] = {
        "name": "site-0",
        "rows": 50,
        "sizes": site["sites"][0]["sizes"],
        "members": ["0123 4567 89ab cdef 0123 4567 89ab cdef"],
    }
    coordinator = result_of()
    for said in coordinator["sites"]:
        del said["sizes"]
    del site["sites"], site["profiles"]
    running = events_of(end=False)[:-3]
    agreed = {"event": "agreed", "tick": 0, "columns": ["x0", "x1", "x2"], "rows": 100}
    running.insert(1, {**agreed, "low": [10.0] * 3, "span": [5.0] * 3})
    running.append(told_so_far(running[-1]["tick"] + 1))
    plan = {"min_clients": 3, "parameters": site["parameters"]}
    trusted = {
        name: write_run(
            folder / name, result_of(1 if name == "none" else 3, **said), events_of()
        )
        for name, said in TRUSTED.items()
    }
    return {
        **trusted,
        "plain": write_run(folder / "plain", result_of(), events_of()),
        "flat": write_run(
            folder / "flat", result_of(n_features=2), events_of(n_features=2)
        ),
        "line": write_run(
            folder / "line", result_of(n_features=1), events_of(n_features=1)
        ),
        "wide": write_run(folder / "wide", wide, events_of(n_features=40, k=7)),
        "crowd": write_run(
            folder / "crowd",
            result_of(k=20, n_sites=200, n_seeds=120),
            events_of(n_sites=200, rounds=60, n_seeds=120, k=20),
        ),
        "thirty": write_run(
            folder / "thirty",
            result_of(k=30, n_sites=8, n_seeds=60),
            events_of(n_sites=8, n_seeds=60, k=30),
        ),
        "running": write_run(folder / "running", None, running),
        "half": write_run(folder / "half", None, half[:-3]),
        "one": write_run(folder / "one", result_of(k=1), events_of(k=1)),
        "rival": write_run(folder / "rival", rival, events_of(rounds=0)),
        "no-centers": write_run(folder / "no-centers", {**rival, "centers": None}),
        "coordinator": write_run(
            folder / "coordinator", coordinator, events_of(), plan=plan
        ),
        "failed": write_run(
            folder / "failed",
            None,
            events_of(end=False),
            plan=plan,
            failed={"reason": "the disk is full"},
        ),
        "site": write_run(
            folder / "site", site, site={"name": "site-0", "state": "done"}
        ),
        "standing": write_run(
            folder / "standing",
            result_of(k=4, history=history_of_answers(30)),
            events_of(k=4),
        ),
        "waiting": write_run(folder / "waiting", None, None, plan=plan),
    }
