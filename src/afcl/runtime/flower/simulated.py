# SPDX-License-Identifier: Apache-2.0
"""Many sites on one machine: a live run in Flower's simulation engine.

A SuperNode takes some 200 MB, and another process for every request, so a machine holds
a few dozen of them. The simulation engine has as many nodes as one likes and one
process per core, which answers for one node after the other (Ray's actors). The server
is that of every live run, and so is what a site answers; keys, TLS and processes that
die are what is not tried here. See docs/decisions/0015-many-nodes.md.

All of it is on the loopback interface. Ray's usage statistics and its dashboard are
switched off.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from afcl.exceptions import InputError
from afcl.runtime.flower import commands
from afcl.runtime.flower.child import Child
from afcl.runtime.flower.environment import environment as flower_environment
from afcl.runtime.flower.network import LOOPBACK, at, free_port
from afcl.runtime.flower.superlink import start_superlink
from afcl.runtime.live.farewell import is_served
from afcl.runtime.live.membership import Membership, keep_membership
from afcl.runtime.live.server import read_failure
from afcl.runtime.results import RESULT

#: The app that is handed to the engine: no code, only where the library has it.
APP = Path(__file__).parent / "simulation"
#: Seconds between two looks at the folder.
_PAUSE = 0.2
#: Seconds between two looks at the engine.
_LOOK = 10.0
#: Bytes of shared memory for messages under way; Ray takes a third of it all unasked.
_STORE = 256 << 20


def require_simulation() -> None:
    """Say what to install if the simulation engine is not there."""
    if find_spec("ray") is None:
        raise InputError(
            "simulating Flower's nodes needs Ray: pip install 'afcl[simulation]'"
        )


def environment(home: Path, scratch: Path) -> dict[str, str]:
    """Return the environment of the engine's processes; Ray's files go to `scratch`."""
    return flower_environment(home) | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        # Despite the name: no cluster means that everything stays on the loopback.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": str(_STORE),
        "RAY_TMPDIR": str(scratch),
    }


def lay_out(sites: Path, members: Sequence[Membership]) -> None:
    """Make a folder for every site, named by its number, as ``afcl join`` would."""
    for number, member in enumerate(members):
        folder = sites / str(number)
        folder.mkdir(mode=0o700, parents=True)
        keep_membership(folder, member)


def serve_simulated(
    folder: Path, sites: Path, *, cores: int = 2, patience: float = 3600.0
) -> None:
    """Run the plan of a folder with the sites of another, all on this machine.

    Parameters
    ----------
    folder
        Holds the :class:`~afcl.runtime.live.server.RunPlan`; the result goes there.
    sites
        Holds a folder for every site, see :func:`lay_out`; each gets its labels.
    cores
        Processes that answer for the sites.
    patience
        Seconds after which a run that has not ended is given up.
    """
    require_simulation()
    engine = folder.resolve() / "engine"
    count = sum(1 for path in sites.iterdir() if path.is_dir())
    # Ray's sockets have long names: its folder must have a short one.
    scratch = Path(tempfile.mkdtemp(prefix="afcl-"))
    try:
        env = environment(engine, scratch)
        port = free_port()
        with start_superlink(
            engine, LOOPBACK, port, None, env, simulation=True
        ) as link:
            run = commands.submit(
                APP,
                at(LOOPBACK, port),
                None,
                env,
                {"out": str(folder.resolve()), "sites": str(sites.resolve())},
                nodes=f"num-supernodes={count} client-resources-num-cpus=1 "
                f"init-args-num-cpus={cores}",
            )
            _wait(folder, link, run, port, env, time.monotonic() + patience)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _wait(
    folder: Path,
    link: Child,
    run: str,
    port: int,
    env: dict[str, str],
    deadline: float,
) -> None:
    """Wait for the result, or say why there will be none."""
    looked = time.monotonic()
    while not is_served(folder):
        failure = read_failure(folder)
        if failure is not None:
            raise InputError(failure)
        now = time.monotonic()
        if not link.alive or now > deadline:
            raise InputError(f"the engine brought no result: see {link.log}")
        if now - looked > _LOOK:
            looked = now
            ended = commands.ended(run, at(LOOPBACK, port), None, env)
            if ended is not None and not (folder / RESULT).is_file():
                raise InputError(ended)
        time.sleep(_PAUSE)
