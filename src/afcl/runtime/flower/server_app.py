# SPDX-License-Identifier: Apache-2.0
"""What Flower runs at the coordinator: the run of a folder, over its grid."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from afcl.exceptions import AfclError
from afcl.runtime.flower.engine import GridEngine
from afcl.runtime.live.going_on import serve_folder
from afcl.runtime.live.server import write_failure

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Serve the run; what goes wrong is left in the folder for ``afcl serve``."""
    folder = Path(str(context.run_config["out"]))
    try:
        serve_folder(GridEngine(grid), folder)
    except Exception as error:
        reason = str(error) if isinstance(error, AfclError) else repr(error)
        write_failure(folder, reason)
        raise
