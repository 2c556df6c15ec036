# SPDX-License-Identifier: Apache-2.0
"""A site's process: a SuperNode, which joins a coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from afcl.exceptions import InputError
from afcl.runtime.flower.child import Child
from afcl.runtime.flower.commands import save, toml
from afcl.runtime.flower.environment import scripts
from afcl.runtime.flower.logs import GIVE_CA
from afcl.runtime.flower.network import LOOPBACK, require_free


def start_supernode(
    folder: Path,
    address: str,
    port: int,
    tls_ca: Path | None,
    key: Path | None,
    node_config: Mapping[str, str],
    env: Mapping[str, str],
) -> Child:
    """Start a site's engine, which joins the coordinator at `address`.

    It does not wait: `node_id` and `refusal` tell from the log how it fares. `port` is
    for its own use on this machine. A `key` needs `tls_ca`.
    """
    require_free(LOOPBACK, port)
    if tls_ca is None and key is not None:
        raise InputError(f"a key is of use only with TLS: {GIVE_CA}")
    for path in (tls_ca, key):
        if path is not None and not path.is_file():
            raise InputError(f"{path} is not there: give the path of the file")
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "node.toml"
    save(settings, toml(node_config))
    command = [str(scripts() / "flower-supernode"), "--superlink", address]
    command += ["--host", LOOPBACK, "--port", str(port), "--node-config", str(settings)]
    if tls_ca is None:
        command += ["--insecure"]
    else:
        command += ["--root-certificates", str(tls_ca.resolve())]
    if key is not None:
        command += ["--auth-supernode-private-key", str(key.resolve())]
    return Child(command, log=folder / "supernode.log", cwd=folder, env=env)
