# SPDX-License-Identifier: Apache-2.0
"""Where the wheel's code is: in the repository's src, or unpacked from an sdist."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CodeHook(BuildHookInterface):
    """Adds src/afcl_bench to a wheel or an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder; an editable install points to it instead."""
        unpacked = Path(self.root, "afcl_bench")
        if version == "editable" or (self.target_name == "sdist" and unpacked.exists()):
            return
        repository = Path(self.root, "..", "..", "src", "afcl_bench").resolve()
        code = unpacked if unpacked.exists() else repository
        build_data["force_include"][str(code)] = "afcl_bench"
