# SPDX-License-Identifier: Apache-2.0
"""Where the wheel's code is: in the repository's src, or unpacked from an sdist."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CodeHook(BuildHookInterface):
    """Adds src/afcl_bench to a wheel or an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder; it is beside this file in an sdist, and found there."""
        # An editable install only points to the folder: dev-mode-dirs.
        if version != "editable" and not Path(self.root, "afcl_bench").exists():
            code = Path(self.root, "..", "..", "src", "afcl_bench").resolve()
            build_data["force_include"][str(code)] = "afcl_bench"
