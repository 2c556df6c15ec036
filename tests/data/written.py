# SPDX-License-Identifier: Apache-2.0
"""Files of sites, written in a moment."""

from __future__ import annotations

import gzip
from pathlib import Path

ROWS = "x,y\n1,2\n3,4\n"


def write(name, content=ROWS):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
