# SPDX-License-Identifier: Apache-2.0
"""Reports: the tables and figures a spec asks for, from the runs that are stored."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from afcl.exceptions import InputError
from afcl.runtime.results import write_text
from afcl.texts import csv_cell
from afcl_bench import (
    blocks_honest,
    blocks_k,
    blocks_more,
    blocks_paper,
    blocks_settings,
    blocks_sites,
    blocks_splits,
    figures,
)
from afcl_bench.figures import Figure
from afcl_bench.frame import FACTS, collect
from afcl_bench.kept import keep, with_kept
from afcl_bench.measures import MEASURES
from afcl_bench.published import WHERE, is_kept
from afcl_bench.runner import SPECS, data_of
from afcl_bench.spec import BenchSpec, parse_spec
from afcl_bench.tables import Table

Block = Callable[[pl.DataFrame], Iterable[Table | Figure]]

#: What a spec may ask for, by name.
BLOCKS: dict[str, Block] = {
    "ablation": blocks_more.ablation,
    "asynchrony": blocks_more.asynchrony,
    "asynchrony-plot": figures.asynchrony,
    "by-split": blocks_splits.by_split,
    "capped": blocks_honest.capped,
    "convergence": blocks_more.convergence,
    "convergence-plot": figures.convergence,
    "cost": blocks_more.cost,
    "cost-plot": figures.cost,
    "default-alone": blocks_paper.default_alone,
    "default-squared": blocks_paper.default_squared,
    "honest": blocks_honest.honest,
    "k-recovery": blocks_k.k_recovery,
    "late": blocks_more.late,
    "learned-k": blocks_honest.learned_k,
    "pooled-gap": blocks_honest.pooled_gap,
    "printed": blocks_paper.printed,
    "printed-shares": blocks_paper.printed_shares,
    "scores": blocks_more.scores,
    "seeds": blocks_more.seeds,
    "seeds-plot": figures.seeds,
    "settings": blocks_settings.settings,
    "significance": blocks_honest.significance,
    "significance-plot": figures.significance,
    "sites": blocks_sites.sites,
    "three-ways": blocks_honest.three_ways,
    "time": blocks_more.time,
    "time-plot": figures.time,
    "trajectories": blocks_more.trajectories,
    "trajectories-plot": figures.trajectories,
}

#: What a part of a page that a report renews begins with, and all of it.
PLACE = r"<!-- bench: (\S+) -->\n"
MARKED = r"(<!-- bench: {name} -->\n).*?(<!-- /bench -->)"


def write_reports(
    root: Path,
    folder: Path | None,
    out: Path,
    only: str | None = None,
    pages: Path | None = None,
) -> Iterator[str]:
    """Write the reports of the specs whose runs are in a folder.

    Parameters
    ----------
    root : Path
        Folder of the runs.
    folder : Path, optional
        Where files of data sets are looked for; None: where the runs had them.
    out : Path
        Gets a folder for every spec.
    only : str, optional
        The name of one spec.
    pages : Path, optional
        Folder with ``SPEC.md`` pages whose marked parts are renewed. Runs that are kept
        beside them stand in for those not made here (:mod:`afcl_bench.kept`).

    Yields
    ------
    str
        What was written, a line for every spec.
    """
    if pages is not None:
        _check_folder(pages)
    specs, none = _specs(root, only), []
    folder = data_of(root, folder)
    for spec in specs:
        frame = collect(spec, root, folder)
        page = None if pages is None else pages / f"{spec.name}.md"
        renewed = pages if page is not None and page.is_file() else None
        if renewed is not None:
            frame = with_kept(spec, frame, renewed)
        if not frame.height:
            none.append(spec.name)
            continue
        made = made_of(spec, frame)
        _write(spec, frame, made, out / spec.name)
        where = str(out / spec.name)
        if renewed is not None:
            without = renew(renewed / f"{spec.name}.md", made, out / spec.name)
            keep(spec, frame, renewed)
            where += f" and {page}"
            where += f" (no place there for {', '.join(without)})" if without else ""
        yield f"{spec.name}: {frame.height} of {len(spec.cells)} runs, in {where}"
    if len(none) == len(specs):
        raise InputError(f"{root} holds no run of {', '.join(none)}: make some first")


def keep_runs(
    root: Path, folder: Path | None, pages: Path, only: str | None = None
) -> Iterator[str]:
    """Publish the runs of specs beside their pages, and leave the pages as they are.

    So a grid can grow over many sittings before its tables are made.

    Parameters
    ----------
    root, folder, only
        As of :func:`write_reports`.
    pages : Path
        Folder of the pages.

    Yields
    ------
    str
        What was written, a line for every spec.
    """
    _check_folder(pages)
    folder = data_of(root, folder)
    for spec in _specs(root, only):
        if not is_kept(spec):
            yield f"{spec.name}: its tables need whole runs, of which nothing is kept"
            continue
        frame = with_kept(spec, collect(spec, root, folder), pages)
        keep(spec, frame, pages)
        yield f"{spec.name}: {frame.height} of {len(spec.cells)} runs kept"


def _check_folder(pages: Path) -> None:
    if not pages.is_dir():
        raise InputError(f"no folder {pages}: give the one that holds the pages")


def _specs(root: Path, only: str | None) -> list[BenchSpec]:
    paths = sorted((root / SPECS).glob("*.toml"))
    if not paths:
        raise InputError(f"{root} holds no benchmark: make one with 'afcl bench run'")
    specs = [parse_spec(path.stem, path.read_text(encoding="utf-8")) for path in paths]
    if only is None:
        return specs
    if only not in [spec.name for spec in specs]:
        raise InputError(
            f"{root} holds no runs of {only!r}; it has those of "
            f"{', '.join(spec.name for spec in specs)}"
        )
    return [spec for spec in specs if spec.name == only]


def made_of(spec: BenchSpec, frame: pl.DataFrame) -> list[Table | Figure]:
    """Return the tables and pictures that a spec asks for."""
    unknown = [name for name in spec.blocks if name not in BLOCKS]
    if unknown:
        raise InputError(
            f"spec {spec.name} asks for unknown blocks {', '.join(unknown)}; choose "
            f"from {', '.join(BLOCKS)}"
        )
    return [made for name in spec.blocks for made in BLOCKS[name](frame)]


def _write(
    spec: BenchSpec, frame: pl.DataFrame, made: Iterable[Table | Figure], folder: Path
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    page = [f"# {spec.title}\n"]
    for each in made:
        if isinstance(each, Table):
            write_text(folder / f"{each.name}.csv", each.csv())
            write_text(folder / f"{each.name}.tex", each.latex())
            page.append(each.markdown())
        else:
            each.write(folder)
            page.append(f"![{each.name}]({each.name}.png)\n\n{each.caption}\n")
    write_text(folder / "runs.csv", runs_csv(frame))
    write_text(folder / "report.md", "\n".join(page))


def runs_csv(frame: pl.DataFrame) -> str:
    """Return every run with its facts and scores."""
    numbers = pl.col(*FACTS, *MEASURES).map_elements("{:.6g}".format, pl.String)
    # Polars writes an empty text as "", and nothing as nothing.
    texts = pl.col(pl.String).replace("", None)
    columns = frame.select(*WHERE, "status", "k_true", numbers)
    safe = pl.col(pl.String).map_elements(csv_cell, pl.String)
    return columns.with_columns(texts).with_columns(safe).write_csv()


def renew(page: Path, made: Sequence[Table | Figure], written: Path) -> list[str]:
    """Put tables and pictures between the marks of a page; the words stay.

    Parameters
    ----------
    page : Path
    made : sequence of Table or Figure
        All that the page's spec makes.
    written : Path
        Folder of the pictures.

    Returns
    -------
    list of str
        What has no place on the page. A place for what is not made is refused.
    """
    text = page.read_text(encoding="utf-8")
    names = set(re.findall(PLACE, text))
    unknown = sorted(names - {each.name for each in made})
    if unknown:
        raise InputError(
            f"{page} has a place for {unknown[0]}, which is not made: take it out, or "
            f"choose from {', '.join(each.name for each in made)}"
        )
    for each in made:
        if each.name not in names:
            continue
        if isinstance(each, Table):
            content = each.markdown()
        else:
            shutil.copy(written / f"{each.name}.png", page.parent)
            content = f"![{each.name}]({each.name}.png)\n\n{each.caption}\n"
        marked = re.compile(MARKED.format(name=re.escape(each.name)), re.DOTALL)
        text = marked.sub(partial(_between, content), text)
    write_text(page, text)
    return [each.name for each in made if each.name not in names]


def _between(content: str, marks: re.Match[str]) -> str:
    return f"{marks[1]}\n{content}\n{marks[2]}"
