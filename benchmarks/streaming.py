# SPDX-License-Identifier: Apache-2.0
"""Memory and time of ``afcl run`` on rows that stay in their files.

Two sites of a mixture of eight Gaussians in 16 columns are written as Parquet (.25, .5
and 1 of ``--gigabytes``) and, smaller, as CSV, and clustered with ``--stream`` in a
process of their own each. Says wall and CPU time, the peak of resident memory, how both
grow, what that makes at 10 GB, and whether the smallest run gives the same in memory.
Exits 1 if more than 500 MB would be needed or the results differ.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats

COLUMNS, CLUSTERS, SITES = 16, 8, 2
#: Rows that are made, and written as a row group, together.
CHUNK = 1 << 17
GIGABYTE = 1 << 30
#: What is promised, in MB, and at how many GB.
PROMISED, AT = 500.0, 10.0
SHARES = (0.25, 0.5, 1.0)
#: A CSV file holds this share of the numbers.
TEXT = 0.1
#: Gigabytes of the run that makes sure that kernels are compiled.
FIRST = 0.01
#: Largest difference from the run in memory.
EQUAL = 1e-10

#: Runs the command line and says at the end what it took.
CHILD = """
import json, resource, sys, time
from afcl.cli import main
try:
    main(sys.argv[1:])
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    try:
        status = open("/proc/self/status").read()
        peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    except OSError:
        peak = used.ru_maxrss / 1024
    took = {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_mb": peak}
    print(json.dumps(took), file=sys.stderr)
"""


def mixture(n_rows: int, seed: int) -> Iterator[Floats]:
    """Yield rows of a mixture, chunk by chunk."""
    rng = np.random.default_rng(seed)
    spots = np.random.default_rng(0).uniform(0, 20, (CLUSTERS, COLUMNS))
    for start in range(0, n_rows, CHUNK):
        size = min(CHUNK, n_rows - start)
        rows = rng.normal(size=(size, COLUMNS))
        rows += spots[rng.integers(CLUSTERS, size=size)]
        yield rows


def write_site(path: Path, n_rows: int, seed: int) -> None:
    """Write one site's rows, as Parquet or as CSV."""
    import polars as pl
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    names = [f"x{place}" for place in range(COLUMNS)]
    if path.suffix == ".csv":
        with open(path, "wb") as file:
            for number, rows in enumerate(mixture(n_rows, seed)):
                frame = pl.DataFrame(rows, schema=names)
                frame.write_csv(file, include_header=number == 0)
        return
    schema = pa.schema([(name, pa.float64()) for name in names])
    with ParquetWriter(path, schema) as writer:
        for rows in mixture(n_rows, seed):
            columns = [pa.array(column) for column in rows.T]
            writer.write_table(pa.table(columns, schema=schema))


def run(sites: Sequence[Path], out: Path, *options: str) -> dict[str, Any]:
    """Run the command line in a process of its own; return what it took and found."""
    command = ["run", *map(str, sites), "--out", str(out), *options]
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *command],
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"afcl run ended with {done.returncode}: {done.stderr}")
    took = json.loads(done.stderr.splitlines()[-1])
    found = json.loads((out / "result.json").read_text())
    return {"wall_seconds": wall, **took, "n_clusters": found["n_clusters"]}


def measure(folder: Path, gigabytes: float, ending: str, compare: bool) -> list[Any]:
    """Write the sites, run on them, and remove everything again."""
    n_rows = int(gigabytes * GIGABYTE) // (8 * COLUMNS * SITES)
    sites = [folder / f"site{number}{ending}" for number in range(SITES)]
    for seed, path in enumerate(sites):
        write_site(path, n_rows, seed + 1)
    facts = {
        "gigabytes": gigabytes,
        "kind": ending[1:],
        "rows": n_rows * SITES,
        "file_mb": sum(path.stat().st_size for path in sites) / 1e6,
    }
    taken = [{**facts, "mode": "stream", **run(sites, folder / "a", "--stream")}]
    if compare:
        held = run(sites, folder / "b", "--no-stream")
        off = difference(folder / "a", folder / "b")
        taken.append({**facts, "mode": "memory", **held, "difference": off})
    for path in sites:
        path.unlink()
    for name in ("a", "b"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return taken


def difference(one: Path, other: Path) -> float:
    """Return how far two runs are apart: infinitely, if a row's label differs."""
    for path in (one / "labels").iterdir():
        if path.read_bytes() != (other / "labels" / path.name).read_bytes():
            return float("inf")
    results = [json.loads((run / "result.json").read_text()) for run in (one, other)]
    centers = [np.array(result["centers"]) for result in results]
    scores = [np.array(list(result["scores"].values())) for result in results]
    return float(
        max(np.abs(a - b).max() for a, b in (centers, scores)) / np.abs(centers).max()
    )


def grown(taken: Sequence[dict[str, Any]], what: str) -> dict[str, float]:
    """Return the line through the streamed Parquet runs, and where it is at 10 GB."""
    runs = [t for t in taken if t["kind"] == "parquet" and t["mode"] == "stream"]
    slope, start = np.polyfit(
        [run["gigabytes"] for run in runs], [run[what] for run in runs], 1
    )
    # Memory cannot shrink with the rows: a line that falls is noise.
    rises = max(float(slope), 0.0)
    most = max(run[what] for run in runs)
    far = max(most, float(start) + AT * rises)
    return {"per_gb": float(slope), "at_start": float(start), "at_10_gb": far}


def main() -> int:
    """Measure, print, and say whether the promises are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    asked = parser.parse_args()
    taken: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        # The first run may have to compile, which takes memory too: it is told apart.
        first = measure(Path(name), FIRST, ".parquet", False)[0]
        print(f"the first run: {first['peak_mb']:.0f} MB", flush=True)
        plan = [(share, ".parquet", share == SHARES[0]) for share in SHARES]
        for share, ending, compare in [*plan, (TEXT, ".csv", False)]:
            size = share * asked.gigabytes
            for one in measure(Path(name), size, ending, compare):
                taken.append(one)
                print(
                    f"{one['gigabytes']:5.2f} GB {one['kind']:8} {one['mode']:7}"
                    f"{one['wall_seconds']:8.1f} s{one['cpu_seconds']:8.1f} CPU s"
                    f"{one['peak_mb']:7.0f} MB  k = {one['n_clusters']}",
                    flush=True,
                )
    lines = {
        what: grown(taken, what) for what in ("peak_mb", "cpu_seconds", "wall_seconds")
    }
    off = max(one.get("difference", 0.0) for one in taken)
    worst = max(
        lines["peak_mb"]["at_10_gb"],
        *(one["peak_mb"] for one in taken if one["mode"] == "stream"),
    )
    print(
        f"memory {lines['peak_mb']['per_gb']:+.1f} MB a GB, at {AT:g} GB "
        f"{worst:.0f} MB (at most {PROMISED:g}); "
        f"{lines['cpu_seconds']['per_gb']:.0f} CPU s a GB; "
        f"differs from memory by {off:.1e}"
    )
    if asked.out:
        facts = {"first": first, "runs": taken, "growth": lines, "difference": off}
        asked.out.write_text(json.dumps(facts, indent=2) + "\n")
    return int(worst > PROMISED or not off <= EQUAL)


if __name__ == "__main__":
    sys.exit(main())
