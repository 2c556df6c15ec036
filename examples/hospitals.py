# SPDX-License-Identifier: Apache-2.0
"""Three hospitals, three CSV files, one of them late: the command line, then Python.

``python examples/hospitals.py [FOLDER]`` makes the files and runs ``afcl run`` on them.
Every column has its own unit, and centres come back in it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from afcl import AFCL, Rounds

COLUMNS = ["age_years", "pressure_mmHg", "glucose_mmol_l"]
#: Four kinds of patients; the last is seen in the third hospital only.
KINDS = np.array([[30, 115, 5.0], [55, 150, 5.5], [60, 135, 10.0], [80, 170, 7.0]])
HOSPITALS = {"city": [0, 1], "coast": [1, 2], "valley": [2, 3]}


def write_tables(folder: Path) -> list[Path]:
    """Write one CSV file per hospital, 80 patients of each of its kinds."""
    rng, paths = np.random.default_rng(0), []
    for name, kinds in HOSPITALS.items():
        rows = np.concatenate(
            [rng.normal(KINDS[k], [3, 4, 0.4], (80, 3)) for k in kinds]
        )
        paths.append(folder / f"{name}.csv")
        pl.DataFrame(rows.round(2), schema=COLUMNS).write_csv(paths[-1])
    return paths


def main() -> None:
    """Run the command; then let the third hospital come late."""
    folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp(prefix="afcl-"))
    paths = write_tables(folder)

    # The third hospital answers in one round of five.
    words = ["run", *map(str, paths), "--participation", "1,1,.2", "--seed", "0"]
    program = "import sys; from afcl.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, *words, "--out", str(folder / "result")]
    print("$ afcl", *command[3:], flush=True)
    subprocess.run(command, check=True)
    print((folder / "result" / "centers.csv").read_text())

    # The same in Python, but the third hospital joins in round 4.
    late = AFCL(participation=Rounds(late={2: 4}), random_state=0)
    late.fit_clients([pl.read_csv(path) for path in paths])
    for event in late.trace_.of("prepare"):
        print(f"round {event['round']}: k = {event['k']}")


if __name__ == "__main__":
    main()
