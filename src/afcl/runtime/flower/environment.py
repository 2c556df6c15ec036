# SPDX-License-Identifier: Apache-2.0
"""The environment of Flower's processes: silent, and with their programs found.

Flower's telemetry, update check and installing are switched off.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from afcl.exceptions import InputError
from afcl.owner_only import make_folder
from afcl.runtime.flower.keys import require_flower
from afcl.runtime.flower.network import LOOPBACK

#: The part that the engine starts by its bare name.
_SCRIPT = "flower-superexec"


def environment(home: Path) -> dict[str, str]:
    """Return the environment of the engine's processes, which keep house in `home`.

    The engine starts its parts by name: they are found beside the running Python.
    """
    require_flower()
    make_folder(home)
    ours = {
        # A proxy that all may claim to be would let strangers pass for local.
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FLWR_") and name != "FORWARDED_ALLOW_IPS"
    }
    ours |= {
        "PATH": f"{scripts()}{os.pathsep}{ours.get('PATH', os.defpath)}",
        "FLWR_HOME": str(home.resolve()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
    }
    if paths := ours.get("PYTHONPATH"):  # they run in other folders
        absolute = map(os.path.abspath, paths.split(os.pathsep))
        ours["PYTHONPATH"] = os.pathsep.join(absolute)
    return without_proxy(ours, LOOPBACK, "localhost", "::1")


def scripts() -> Path:
    """Return where this Python's environment has the engine's commands."""
    user = sysconfig.get_preferred_scheme("user")
    for folder in (
        Path(sys.executable).parent,
        Path(sysconfig.get_path("scripts")),
        Path(sysconfig.get_path("scripts", user)),
    ):
        if (folder / _SCRIPT).exists():
            return folder
    raise InputError("federation needs Flower: pip install 'afcl[flower]'")


def without_proxy(env: Mapping[str, str], *hosts: str) -> dict[str, str]:
    """Return `env` with `hosts` reached directly, whatever proxy there is."""
    before = env.get("no_proxy") or env.get("NO_PROXY") or ""
    direct = ",".join(dict.fromkeys([*filter(None, before.split(",")), *hosts]))
    return {**env, "no_proxy": direct, "NO_PROXY": direct}
