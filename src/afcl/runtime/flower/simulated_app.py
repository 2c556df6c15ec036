# SPDX-License-Identifier: Apache-2.0
"""What Flower's simulation runs at a site: the same answer, from a numbered folder."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from afcl.runtime.flower.client_app import answered

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Answer for the site that this node stands for.

    Where all sites are on one machine the run may say where their folders are; a real
    site is told by nobody but its owner (:mod:`.client_app`).
    """
    sites = Path(str(context.run_config["sites"]))
    return answered(message, sites / str(context.node_config["partition-id"]))
