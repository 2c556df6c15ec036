# SPDX-License-Identifier: Apache-2.0
"""Let the tests use the hostile sites of the benchmark."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
