# SPDX-License-Identifier: Apache-2.0
"""``afcl demo``: five simulated sites, unknown k, everything in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from afcl.cli.run import cluster_files
from afcl.cli.settings import settings
from afcl.cli.words import in_words

if TYPE_CHECKING:
    from afcl._typing import Floats, Ints

SITES = ("harbour", "hill", "lake", "meadow", "station")
CLUSTERS = 6


def demo(
    out: Path = typer.Option(Path("afcl-demo"), help="Folder for sites and results."),
    seed: int = typer.Option(0, help="Seed of data and run."),
    force: bool = typer.Option(False, "--force", help="Replace another run there."),
) -> None:
    """Let five sites that share no cluster find out how many there are together.

    Makes five CSV files from a generated mixture, split so that sites do not overlap,
    lets each site take part at random, and says what came out.
    """
    from afcl.data.split import kmeans_split
    from afcl.data.synthetic import make_mixture

    X, truth = make_mixture(CLUSTERS, 3, separation=2.5, imbalance=3, random_state=seed)
    owner = kmeans_split(X, len(SITES), random_state=seed, min_rows=5)
    paths = write_sites(out / "sites", X, owner, force)
    chosen = settings(None, {"participation": "random", "seed": seed})
    result, _ = cluster_files(paths, out / "run", chosen, force)

    typer.echo(
        f"Five sites, {X.shape[0]:,} rows from {CLUSTERS} groups; nobody knows k."
    )
    for site, path in zip(result["sites"], paths, strict=True):
        typer.echo(
            f"  {path}: {site['rows']:,} rows, "
            f"{site['messages']} messages, {site['bytes']:,} bytes sent"
        )
    for line in in_words(result):
        typer.echo(line)
    typer.echo(
        f"Agreement with the hidden groups (ARI): {_agreement(out, owner, truth):.3f}."
    )
    typer.echo(
        f"Labels, centres, path and trace are in {out / 'run'}; "
        f"look at {out / 'run' / 'report.html'} in a browser."
    )


def write_sites(folder: Path, X: Floats, owner: Ints, force: bool) -> list[Path]:
    """Write one CSV file per site; other files of the same names are not replaced."""
    from afcl.exceptions import InputError
    from afcl.runtime.results import write_text

    header = ",".join(f"x{j + 1}" for j in range(X.shape[1]))
    texts = {}
    for site in range(int(owner.max()) + 1):
        rows = [",".join(repr(float(v)) for v in row) for row in X[owner == site]]
        texts[folder / f"{SITES[site]}.csv"] = "\n".join([header, *rows]) + "\n"
    for path, text in texts.items():
        if path.exists() and path.read_text() != text and not force:
            raise InputError(
                f"{path} is from another demo: choose another folder with --out, "
                "or replace it with --force"
            )
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)


def _agreement(out: Path, owner: Ints, truth: Ints) -> float:
    """Compare the written labels with the groups the rows were drawn from."""
    import numpy as np

    from afcl.metrics import adjusted_rand

    found = np.empty_like(truth)
    for site in range(int(owner.max()) + 1):
        lines = (out / "run" / "labels" / f"{SITES[site]}.csv").read_text().split()
        found[owner == site] = [int(line) for line in lines[1:]]
    return adjusted_rand(truth, found)
