# SPDX-License-Identifier: Apache-2.0
"""Every example runs as it is, without a warning, and says what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
#: What each example prints, among other things; `federation.py` starts real processes
#: and is `make federation`.
SAID = {
    "hospitals.py": [
        "4 clusters in 480 rows at 3 sites",
        "cluster,rows,age_years,pressure_mmHg,glucose_mmol_l",
        "round 0: k = 3",  # the late one holds a kind alone
        "round 4: k = 4",
    ],
    "numpy_arrays.py": [
        "4 clusters of [1500, 500, 200, 100] rows",
        "agreement with the hidden groups (ARI): 1.000",
    ],
    "sklearn_pipeline.py": ["3 kinds of wine", "min_cell 5, participation 0.5: k = 3"],
}


def test_every_example_is_run_here_or_by_make():
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert names == {*SAID, "federation.py"}


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_and_says_so(name, tmp_path):
    source = (EXAMPLES / name).read_text()
    assert source.count("\n") < 60
    given = [str(tmp_path)] if name == "hospitals.py" else []
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *given],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [text for text in SAID[name] if text not in done.stdout] == []
