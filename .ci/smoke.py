# SPDX-License-Identifier: Apache-2.0
"""What a plain install must do: run by `make matrix` in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from afcl import AFCL, __version__, method_names

AFCL_COMMAND = str(Path(sys.executable).with_name("afcl"))


def afcl(*words: str, code: int = 0) -> str:
    """Run a command, which must end with this code."""
    done = subprocess.run([AFCL_COMMAND, *words], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def main() -> None:
    """Cluster, by hand and from files, and see what is refused in one line."""
    rng = np.random.default_rng(0)
    spots = np.array([[0, 0], [0, 9], [9, 0], [9, 9]])
    tables = [rng.normal(spots, 1, (60, 4, 2)).reshape(-1, 2) for _ in range(4)]
    model = AFCL(random_state=0).fit_clients(tables)
    assert model.n_clusters_ == 4
    assert model.predict_proba(tables[0]).shape == (240, 4)
    assert set(method_names()) >= {"afcl", "afcl-paper", "afcl-matlab"}
    with TemporaryDirectory() as name:
        folder = Path(name)
        assert model.report(folder / "page.html").is_file()
        np.savetxt(
            folder / "new.csv", tables[0], delimiter=",", header="x,y", comments=""
        )
        files = []
        for number, table in enumerate(tables):
            files.append(str(folder / f"site{number}.csv"))
            np.savetxt(files[-1], table, delimiter=",", header="x,y", comments="")
        out = str(folder / "run")
        assert __version__ in afcl("--version")
        assert "4 clusters" in afcl("run", *files, "--out", out)
        afcl("predict", out, str(folder / "new.csv"))
        afcl("export", out, "--to", "json")
        afcl("export", out, "--to", "pmml")
        afcl("report", out)
        afcl("status", out)
        afcl("demo", "--out", str(folder / "demo"))
    sys.stdout.write(f"afcl {__version__} works with NumPy {np.__version__}.\n")


if __name__ == "__main__":
    main()
