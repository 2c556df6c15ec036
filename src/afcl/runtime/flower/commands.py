# SPDX-License-Identifier: Apache-2.0
"""Flower's own commands, given to a SuperLink on this machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from afcl.exceptions import InputError
from afcl.owner_only import write_whole
from afcl.runtime.flower.environment import scripts, without_proxy
from afcl.runtime.flower.network import at, split_address, unreachable
from afcl.runtime.live.engine import EngineSilent, Tls

#: The app that is handed to the engine: no code, only where the library has it.
APP = Path(__file__).parent / "app"
#: The connection's name in the engine's own configuration.
_LINK = "afcl"
#: Seconds for a command to be answered.
_PATIENCE = 60.0


def submit(
    app: Path,
    address: str,
    tls: Tls | None,
    env: Mapping[str, str],
    config: Mapping[str, str],
    *,
    nodes: str | None = None,
) -> str:
    """Hand an app to the engine; return the run's id.

    `config` overrides what the app's ``pyproject.toml`` declares, and nothing else.
    `nodes` are the settings of a simulation.
    """
    overrides = Path(env["FLWR_HOME"], "run.toml")
    save(overrides, toml(config))
    words = ["run", str(app), _LINK, "-c", str(overrides)]
    if nodes is not None:
        words += ["--federation-config", nodes]
    return str(_flwr(address, tls, env, *words)["run-id"])


def status(
    run: str, address: str, tls: Tls | None, env: Mapping[str, str]
) -> tuple[str, str]:
    """Return how a run fares, such as ``finished:failed``, and the engine's reason."""
    (found,) = _flwr(address, tls, env, "list", _LINK, "--run-id", run)["runs"][:1]
    return str(found["status"]), " ".join(str(found["status-details"]).split())


def ended(
    run: str, address: str, tls: Tls | None, env: Mapping[str, str]
) -> str | None:
    """Return in one line that and why the engine has ended a run, None if not."""
    found, details = status(run, address, tls, env)
    if not found.startswith("finished"):
        return None
    return f"the engine has ended the run ({found}: {details})"


def register(
    public_key: Path, address: str, tls: Tls | None, env: Mapping[str, str]
) -> int | None:
    """Enrol a site, here, where the coordinator runs; return the id of its node.

    Once more does no harm, and tells no id.
    """
    try:
        known = public_key.read_bytes().startswith(b"ecdsa-sha2-nistp")
    except OSError as error:
        raise InputError(f"{public_key} cannot be read: {error.strerror}") from error
    if not known:
        raise InputError(f"{public_key} is no public key: give the site's .pub file")
    path = str(public_key.resolve())
    try:
        made = _flwr(address, tls, env, "supernode", "register", path, _LINK)
    except InputError as error:
        if "[code: 23]" not in str(error):  # the key is enrolled already
            raise
        return None
    return int(made["node-id"])


def unregister(
    node: int, address: str, tls: Tls | None, env: Mapping[str, str]
) -> None:
    """Take a site's enrolment back; once more does no harm.

    The engine lets nobody enrol with that site's key again.
    """
    try:
        _flwr(address, tls, env, "supernode", "unregister", str(node), _LINK)
    except InputError as error:
        if "[code: 24]" not in str(error):  # the node is not known any more
            raise


def nodes(
    address: str, tls: Tls | None, env: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return what the engine knows of every site: ``node-id``, ``status``, times."""
    return list(_flwr(address, tls, env, "supernode", "list", _LINK)["nodes"])


def _flwr(
    address: str, tls: Tls | None, env: Mapping[str, str], *arguments: str
) -> dict[str, Any]:
    """Run one of the engine's commands; return what it says, or why it failed."""
    host, port = split_address(address)
    address = at(host, port)
    ca = None if tls is None else tls.ca.resolve()
    if why := unreachable(address, ca):
        raise EngineSilent(why)
    secured = "insecure = true" if ca is None else f"root-certificates = {_quoted(ca)}"
    save(
        Path(env["FLWR_HOME"], "config.toml"),
        f"[superlink]\ndefault = {_quoted(_LINK)}\n\n[superlink.{_LINK}]\n"
        f"address = {_quoted(address)}\n{secured}\n",
    )
    try:
        done = subprocess.run(
            [str(scripts() / "flwr"), *arguments, "--format", "json"],
            env=without_proxy(env, host),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired as error:
        text = f"the engine did not answer in {_PATIENCE:.0f} s"
        raise EngineSilent(text) from error
    try:
        output: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        output = {"error-message": done.stderr or done.stdout}
    if not output.get("success"):
        # The last paragraph is the reason; above it is what was going on.
        reason = str(output.get("error-message")).strip().rpartition("\n\n")[2]
        raise InputError(f"the engine refused: {' '.join(reason.split())}")
    return output


def save(path: Path, text: str) -> None:
    """Write a file so that no other process ever reads half of it."""
    write_whole(path, text.encode())


def toml(values: Mapping[str, str]) -> str:
    """Return a TOML file of texts."""
    return "".join(f"{_quoted(k)} = {_quoted(v)}\n" for k, v in values.items())


def _quoted(value: object) -> str:
    """Return a TOML string, whatever is in it."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
