# SPDX-License-Identifier: Apache-2.0
"""Warnings that point at the user's own line, however deep in here they come from."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

#: Where this package lies.
PACKAGE = str(Path(__file__).parents[1])


def warn_user(warning: Warning) -> None:
    """Warn at the nearest caller that is not part of this package."""
    frame, level = sys._getframe(1), 3
    while frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(
        PACKAGE
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)
