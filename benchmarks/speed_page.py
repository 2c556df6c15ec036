# SPDX-License-Identifier: Apache-2.0
"""Turn a folder of measurements into docs/results/speed.md.

The folder holds ``speed.json`` (what pytest-benchmark wrote) and, by the name of the
script, the output of the other benchmarks; ``make bench`` makes it.
``python benchmarks/speed_page.py FOLDER PAGE``
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

#: Sections made of a script's own table: title, and what to know before reading it.
SCRIPTS = {
    "fastest": (
        "Beside other libraries",
        "Five sites and an unknown k against sweeps k = 2 to 10 on the pooled rows, on "
        "`make_blobs` (8 centres, standard deviation .7) and on the mixture of the "
        "whole runs above. *Times* is how often the CPU time goes into that of the "
        "nine fits of scikit-learn (`KMeans(n_init=1)`). faiss and superkmeans work "
        "on all rows, in 32 bits, 25 iterations each. Asked of AFCL at both levels: "
        "at least 5 at 200,000 × 2 and 1,000,000 × 16, at least 10 at 5,000,000 × 16, "
        "at no lower ARI; of a step at least 1.2.",
    ),
    "paper_pass": (
        "The paper's interaction, row by row",
        "A pass of the `paper` preset over one client's rows, in Lloyd iterations with "
        "as many centres (k = 32). Asked: at most 6.",
    ),
    "memory": (
        "Memory of a run in memory",
        "Peak of the whole process, interpreter and libraries included. Asked: at most "
        "1.3 times the data and 200 MB. With two features the labels (32 bits a "
        "row) are a quarter of the data.",
    ),
    "streaming": (
        "Rows that do not fit in memory",
        "`afcl run` on files that are read again for every message. Asked: at most "
        "500 MB for 10 GB, extrapolated from what was measured; the same result as in "
        "memory to 1e-10.",
    ),
    "absorb": (
        "The server: messages a second",
        "Updates with 64 cells and the candidates' replies, ten features, k0 = 64. "
        "Asked: at least 1 000 a second with 10 000 clients.",
    ),
    "crowd": (
        "The simulator: crowds",
        "Asked: at most 5 µs a client step beside the kernels (100 rows, two features, "
        "k = 8); a million clients of 20 rows in one process under 10 minutes and "
        "12 GB with k' = 10, with `min_cell=1` (`summary`) and in cohorts (`secure`).",
    ),
    "seeding": (
        "The sample that places a hello's cells",
        "Over mixtures of 200 000 rows; the last line of each has no sample at all. "
        "The default is 4 096 rows, and 32 768 with more than eight features.",
    ),
    "flower_many": (
        "Flower with 200 nodes",
        "Flower's simulation engine on this machine, and the coordinator's own share "
        "of a message without any engine.",
    ),
    "first_fit": (
        "Start-up",
        "Whole processes. Asked: `afcl --help` in .3 s, the first fit on Iris in 2 s "
        "with a warm cache and 6 s with a cold one. Nothing is compiled on small data.",
    ),
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def milliseconds(seconds: float) -> str:
    """Write a time."""
    return f"{1e3 * seconds:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def between(pair: Sequence[float]) -> str:
    """Write quartiles."""
    return f"{pair[0]:.2f} to {pair[1]:.2f}"


def steps(found: dict[str, Any]) -> list[str]:
    """Return the client step against a Lloyd iteration."""
    rows = []
    for name, facts in found.items():
        if name.startswith("bench_client_step"):
            shape = f"{facts['n']:,} × {facts['d']}, k = {facts['k']}"
            rows.append(
                [
                    shape,
                    milliseconds(facts["theirs_cpu"]),
                    milliseconds(facts["ours_cpu"]),
                    f"**{facts['ratio_cpu']:.2f}**",
                    between(facts["ratio_cpu_quartiles"]),
                    f"{facts['ratio_wall']:.2f}",
                    f"≥ {facts['asked_ratio']:g}",
                ]
            )
    head = ["rows", "Lloyd", "step", "times as fast", "quartiles", "wall", "asked"]
    return table(head, rows)


def replies(found: dict[str, Any]) -> list[str]:
    """Return the whole reply in Lloyd iterations."""
    rows = []
    for name, facts in found.items():
        if name.startswith("bench_reply"):
            low, high = facts["ratio_cpu_quartiles"]
            rows.append(
                [
                    f"{facts['n']:,} × {facts['d']}",
                    milliseconds(facts["theirs_cpu"]),
                    milliseconds(facts["ours_cpu"]),
                    f"**{facts['iterations']:.2f}**",
                    between((1 / high, 1 / low)),
                    f"≤ {facts['asked_iterations']:g}",
                ]
            )
    head = ["rows", "Lloyd, k = 326", "reply", "iterations", "quartiles", "asked"]
    return table(head, rows)


def runs(found: dict[str, Any]) -> list[str]:
    """Return whole runs against a pooled sweep."""
    rows = []
    for name, facts in found.items():
        if name.startswith("bench_whole_run"):
            rows.append(
                [
                    f"{facts['n']:,} × {facts['d']}",
                    milliseconds(facts["theirs_cpu"]),
                    milliseconds(facts["ours_cpu"]),
                    f"**{facts['ratio_cpu']:.1f}** ({facts['asked_ratio']:g})",
                    f"**{facts['ratio_with_scoring']:.0f}** "
                    f"({facts['asked_ratio_with_scoring']:g})",
                    ", ".join(map(str, facts["k"])),
                    f"{min(facts['ari']):.4f}",
                    f"{facts['sweep_k']}: {facts['sweep_ari']:.4f}",
                ]
            )
    head = [
        "rows",
        "sweep",
        "run",
        "times as fast (asked)",
        "with scoring (asked)",
        "k' of the runs",
        "ARI, the worst",
        "the sweep's best k: ARI",
    ]
    return table(head, rows)


def growths(found: dict[str, Any]) -> list[str]:
    """Return the exponents."""
    rows = []
    for name, facts in found.items():
        if name.startswith("bench_growth"):
            sizes = ", ".join(f"{size:,}" for size in facts["sizes"])
            times = ", ".join(milliseconds(cpu) for cpu in facts["cpu"])
            exponent = f"**{facts['exponent']:.2f}**"
            asked = f"≤ {facts['asked_exponent']:g}"
            rows.append([facts["grows_with"], sizes, times, exponent, asked])
    return table(["grows with", "sizes", "CPU time", "exponent", "asked"], rows)


def page(folder: Path) -> str:
    """Return the whole page."""
    said = json.loads((folder / "speed.json").read_text(encoding="utf-8"))
    found = {each["name"]: each["extra_info"] for each in said["benchmarks"]}
    machine = said["machine_info"]
    used = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "numba", "scikit-learn")
    )
    lines = [
        "# Speed and size",
        "",
        "Made by `make bench`: the work and its reference take turns in one process, "
        "on one thread each. Ratios are medians over the turns, of CPU time unless a "
        "column says otherwise; absolute times are this machine's "
        f"({machine['cpu']['count']} cores of {machine['cpu']['brand_raw']}, Python "
        f"{platform.python_version()}, {used}). What was asked for stands beside what "
        "was seen, also where it was missed.",
        "",
        "## A client's step",
        "",
        "Nearest seed, count, sum, scatter and simplified silhouette in one pass, "
        "against one Lloyd iteration of scikit-learn's `KMeans` on the same rows.",
        "",
        *steps(found),
        "",
        "One whole reply: 256 seeds and seven levels (70 centres) with both "
        "silhouettes.",
        "",
        *replies(found),
        "",
        "## Whole runs",
        "",
        "Five sites, k unknown, against `KMeans(n_init=1)` on the pooled rows for "
        "k = 2 to 10, without the time to score the fits and with it (silhouette of "
        "10 000 rows). A mixture of eight Gaussian clusters.",
        "",
        *runs(found),
        "",
        *growths(found),
        "",
        "Exponents are slopes over the whole range, small runs with their fixed cost "
        "included. From 1 000 clients on a run is simulated in batches; between 10 and "
        "100 the path of levels grows with the rows too, and the slope there is "
        "steeper.",
    ]
    for name, (title, text) in SCRIPTS.items():
        output = folder / f"{name}.txt"
        if output.is_file():
            shown = output.read_text(encoding="utf-8").strip()
            lines += ["", f"## {title}", "", text, "", "```text", shown, "```"]
            lines += ["", f"Again: `python benchmarks/{name}.py`."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(Path(sys.argv[1])), encoding="utf-8")
