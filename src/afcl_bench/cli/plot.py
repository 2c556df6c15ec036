# SPDX-License-Identifier: Apache-2.0
"""``afcl plot``: pictures for papers, from the folder of a run or of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

#: What can be drawn of a run.
OF_A_RUN = ("trajectories", "objective", "k-path", "participation")
#: What can be drawn of a benchmark, and the block of its specs that has it.
OF_A_BENCHMARK = {
    "trajectories": "trajectories-plot",
    "objective": "convergence-plot",
    "critical-difference": "significance-plot",
    "time-growth": "time-plot",
    "seeds": "seeds-plot",
    "asynchrony": "asynchrony-plot",
    "cost": "cost-plot",
}

#: A picture's own name, and how it is drawn.
Picture = tuple[str, Callable[[], Any]]

plot = typer.Typer(add_completion=False)


@plot.command()
def draw(
    folder: Path = typer.Argument(
        ..., help="Folder of a run, finished or not, or of a benchmark.", metavar="DIR"
    ),
    what: str = typer.Argument(
        ...,
        help="Of a run: trajectories, objective, k-path or participation. Of a "
        "benchmark: trajectories, objective, critical-difference, time-growth, seeds, "
        "asynchrony or cost.",
        metavar="WHAT",
    ),
    out: Path | None = typer.Option(
        None, help="File to write (DIR/WHAT.png).", metavar="FILE"
    ),
    kind: str | None = typer.Option(
        None, "--format", help="png, svg or pdf (the ending of --out, or png)."
    ),
    index: str = typer.Option(
        "silhouette", help="Index of a k-path: silhouette, simplified, ch, db or bic."
    ),
    data: Path | None = typer.Option(
        None,
        help="Folder with a benchmark's NAME.csv files (the one of its runs).",
        metavar="DIR",
    ),
) -> None:
    """Draw a picture of a run or of a benchmark (PNG, SVG or PDF).

    Fits one column of a paper; SVG and PDF keep text as text.
    """
    from afcl_bench.plots import save

    target = _target(folder, what, out, kind)
    if (folder / "specs").is_dir():
        pictures = list(_of_benchmark(folder, what, data))
    else:
        pictures = [(what, _of_run(folder, what, index))]
    for name, draw in pictures:
        path = target
        if len(pictures) > 1:
            path = target.with_stem(f"{target.stem}-{name}")
        typer.echo(f"{what} is in {save(draw(), path)}.")


def _target(folder: Path, what: str, out: Path | None, kind: str | None) -> Path:
    """Return the file to write; ending and format must not contradict each other."""
    from afcl.exceptions import InputError
    from afcl_bench.plots import FORMATS

    if kind is not None and kind not in FORMATS:
        raise InputError(
            f"--format {kind} is unknown: choose one of {', '.join(FORMATS)}"
        )
    if not folder.is_dir():
        raise InputError(
            f"no folder {folder}: give the one that 'afcl run --out' or 'afcl bench "
            "run --out' wrote"
        )
    if out is None:
        return folder / f"{what}.{kind or 'png'}"
    ending = out.suffix.removeprefix(".").lower()
    if kind is not None and not ending:
        return out.with_name(f"{out.name}.{kind}")
    if kind is not None and ending != kind:
        raise InputError(
            f"--out {out} and --format {kind} contradict each other: leave out one"
        )
    if ending not in FORMATS:
        raise InputError(
            f"--out {out}: end the name in {', '.join(f'.{k}' for k in FORMATS)}, or "
            "give --format"
        )
    return out


# ------------------------------------------------------------------ a run


def _of_run(folder: Path, what: str, index: str) -> Callable[[], Any]:
    from afcl.exceptions import InputError
    from afcl.runtime.results import RESULT, TRACE, read_result
    from afcl.trace import read_trace
    from afcl_bench import plots

    if what not in OF_A_RUN:
        raise InputError(
            f"{what!r} cannot be drawn of a run: choose one of {', '.join(OF_A_RUN)}"
        )
    if what == "k-path":
        result = read_result(folder)
        return lambda: plots.k_path(result, index=index)
    path = folder / TRACE
    if not path.is_file():
        raise InputError(
            f"{folder} holds no run: give the folder that 'afcl run --out' wrote"
        )
    trace = read_trace(path)
    if what == "objective":
        return lambda: plots.objective(trace)
    if what == "participation":
        return lambda: plots.participation(trace)
    finished = read_result(folder) if (folder / RESULT).is_file() else None
    return lambda: plots.trajectories(trace, result=finished)


# ------------------------------------------------------------------ a benchmark


def _of_benchmark(folder: Path, what: str, data: Path | None) -> Iterator[Picture]:
    from afcl.exceptions import InputError
    from afcl_bench.figures import Figure
    from afcl_bench.frame import collect
    from afcl_bench.report import BLOCKS
    from afcl_bench.runner import data_of
    from afcl_bench.spec import parse_spec

    if what not in OF_A_BENCHMARK:
        raise InputError(
            f"{what!r} cannot be drawn of a benchmark: choose one of "
            f"{', '.join(OF_A_BENCHMARK)}"
        )
    block = OF_A_BENCHMARK[what]
    for path in sorted((folder / "specs").glob("*.toml")):
        spec = parse_spec(path.stem, path.read_text(encoding="utf-8"))
        if block not in spec.blocks:
            continue
        frame = collect(spec, folder, data_of(folder, data))
        if frame.height:
            for made in BLOCKS[block](frame):
                assert isinstance(made, Figure)
                yield made.name.split("-")[-1], made.draw
            return
    raise InputError(
        f"{folder} holds no run of a spec with {block}: see 'afcl bench specs'"
    )
