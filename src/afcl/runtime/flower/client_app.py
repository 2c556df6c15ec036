# SPDX-License-Identifier: Apache-2.0
"""What Flower runs at a site: one answer to one request, from the site's folder."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from afcl.runtime.flower.engine import packed, unpacked
from afcl.runtime.live.trouble import answer_or_reason

app = ClientApp()
#: The same in Flower's simulation, for sites whose folders are numbered.
simulated = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Answer, or say in one line why not."""
    return answered(message, Path(str(context.node_config["folder"])))


@simulated.query()
def query_simulated(message: Message, context: Context) -> Message:
    """Answer for the site that this node stands for.

    Where all sites are on one machine the run may say where their folders are; a real
    site hears that from nobody but its owner.
    """
    sites = Path(str(context.run_config["sites"]))
    return answered(message, sites / str(context.node_config["partition-id"]))


def answered(message: Message, folder: Path) -> Message:
    """Return the answer of the site in a folder, or its one line why not."""
    request, _ = unpacked(message.content)
    return Message(packed(*answer_or_reason(folder, request)), reply_to=message)
