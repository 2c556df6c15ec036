# SPDX-License-Identifier: Apache-2.0
"""Flower as an engine of live runs: what ``afcl serve`` and ``afcl join`` start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from afcl.exceptions import InputError
from afcl.owner_only import make_folder
from afcl.privacy.identity import identity_of_pem
from afcl.runtime.flower import commands, database, renewal
from afcl.runtime.flower.child import Child
from afcl.runtime.flower.environment import environment
from afcl.runtime.flower.keys import make_site_key, require_flower
from afcl.runtime.flower.logs import (
    GIVE_CA,
    KEY_REFUSED,
    NO_ANSWER,
    PUT_OUT,
    heart_stopped,
    node_id,
    owes_answer,
    refusal,
    sent_home,
    turned_away,
)
from afcl.runtime.flower.network import (
    LOOPBACK,
    Knocking,
    at,
    clocks_apart,
    free_port,
    nobody_at,
    require_free,
    unreachable,
)
from afcl.runtime.flower.superlink import start_superlink
from afcl.runtime.live.engine import Tls

#: Where the engine keeps house, below the folder of the run or of the site.
HOME = "engine"
#: Seconds between two looks whether a SuperNode still says that it is there.
PULSE = 15.0
#: How often in a row a SuperNode that ended by itself is started anew.
ANEW = 20
_SUPERNODE = "afcl.runtime.flower.supernode"


class _Process:
    """A process of the engine, ended with everything it has started."""

    def __init__(self, child: Child) -> None:
        self._child = child

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._child.alive

    @property
    def log(self) -> Path:
        """Where its output is."""
        return self._child.log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._child.stop()


class FlowerServer(_Process):
    """A SuperLink, and the run that was handed to it."""

    def __init__(
        self,
        child: Child,
        folder: Path,
        address: str,
        tls: Tls | None,
        env: Mapping[str, str],
    ) -> None:
        super().__init__(child)
        self._folder, self._address, self._tls, self._env = folder, address, tls, env
        self._run = ""
        #: How much of the log has been looked through for keys that were not let in.
        self._read = child.log.stat().st_size if child.log.is_file() else 0

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        database.tidy(self._folder / HOME)

    def enrol(self, public_key: Path) -> int | None:
        """Let the owner of a key join; return the id of its node, if it is new."""
        return commands.register(public_key, self._address, self._tls, self._env)

    def revoke(self, address: int) -> None:
        """Let a node join no more, and cut its line."""
        commands.unregister(address, self._address, self._tls, self._env)

    def turned_away(self) -> list[str]:
        """Return the keys that the SuperLink has not let in since the last call."""
        if self.log.stat().st_size < self._read:
            self._read = 0  # it was begun anew
        with self.log.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        # A line that is being written is read when it is whole.
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        found = turned_away(whole.decode(errors="replace"))
        return [key for key in map(identity_of_pem, found) if key]

    def begin(self) -> None:
        """Hand the run over; the engine serves it in a process of its own."""
        where = {"out": str(self._folder)}
        self._run = commands.submit(
            commands.APP, self._address, self._tls, self._env, where
        )

    def trouble(self) -> str | None:
        """Return why the engine has given the run up, None if it has not."""
        return commands.ended(self._run, self._address, self._tls, self._env)


class FlowerNode(_Process):
    """A SuperNode, started anew when it has stopped to say that it is there, or ended.

    Parameters
    ----------
    start
        Starts its process.
    address, ca
        The coordinator's, and what vouches for it.
    clock
        In seconds.
    """

    def __init__(
        self,
        start: Callable[[], Child],
        address: str,
        ca: Path | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(start())
        self._start, self._clock, self._next = start, clock, clock() + PULSE
        self._address, self._ca = address, ca
        self._joined = False
        #: Whether it was ever let in, and how often it may still be started anew.
        self._was_in, self._left = False, ANEW
        self._knocking = Knocking(lambda: unreachable(address, ca))

    @property
    def alive(self) -> bool:
        """Whether it still runs, or is about to be started anew."""
        return self._child.alive or self._comes_back

    @property
    def _comes_back(self) -> bool:
        """Whether a SuperNode that has ended is started anew: it had been let in.

        An error of the coordinator's ends it, as with a full disk.
        """
        return self._was_in and self._left > 0 and not sent_home(self.log)

    def trouble(self) -> str | None:
        """Return why the coordinator does not let this site in, if it does not.

        Who was let in once is not refused any more, and its log may be a long one.
        """
        self._feel_pulse()
        self._joined = self._joined or node_id(self.log) is not None
        if self._joined:
            self._was_in = True
            cut_off = not self._child.alive and sent_home(self.log)
            return PUT_OUT if cut_off else None
        reason = refusal(self.log)
        if self._comes_back and reason in (None, KEY_REFUSED):
            return None  # the coordinator may hold the one that ended for online yet
        if reason is None:
            if self.alive:
                return None
            return clocks_apart(self._address, self._ca)
        if reason != NO_ANSWER:
            return unreachable(self._address, self._ca) or reason
        why = self._knocking.why()
        return None if why == nobody_at(self._address) else why

    def _feel_pulse(self) -> None:
        """Start a SuperNode anew that has ended, or that the coordinator calls gone.

        What tells that it is there ends at a coordinator's first error, as with a full
        disk, and nothing begins it again.
        """
        if self._clock() < self._next:
            return
        self._next = self._clock() + PULSE
        if not self._child.alive:
            if not self._comes_back:
                return
            self._left -= 1
        elif not heart_stopped(self.log):
            self._left = ANEW if self._joined else self._left
            return
        self._child.stop()
        self._child, self._joined = self._start(), False

    def absent(self) -> str | None:
        """Return that nobody answers yet; a SuperNode tries again by itself."""
        if self._joined or refusal(self.log) != NO_ANSWER:
            return None
        return self._knocking.why() or NO_ANSWER

    @property
    def busy(self) -> bool:
        """Whether an answer that was made is still to be handed over."""
        return self._child.alive and owes_answer(self.log)


class FlowerLauncher:
    """Starts SuperLinks and SuperNodes; refused at once where there is no Flower."""

    def __init__(self) -> None:
        require_flower()

    def keygen(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Make a site's key pair; return the private and the public file."""
        return make_site_key(folder, name)

    def certificates(
        self, folder: Path, hosts: Sequence[str], say: Callable[[str], None]
    ) -> Tls:
        """Return the coordinator's certificates, made or renewed now if need be."""
        return renewal.certificates_for(folder, hosts, say)

    def renew(
        self, folder: Path, hosts: Sequence[str], say: Callable[[str], None]
    ) -> None:
        """Make a new certificate of the coordinator's, for more hosts if given."""
        renewal.renew(folder, hosts, say)

    def describe_certificates(self, folder: Path) -> list[str]:
        """Return what the certificates in a folder are good for, a line each."""
        return renewal.described(folder)

    def ending_soon(self, address: str, ca: Path) -> list[str]:
        """Return which certificates a site relies on end soon, a line each."""
        return renewal.ending_soon(address, ca)

    def serve(
        self, folder: Path, host: str, port: int, tls: Tls | None
    ) -> FlowerServer:
        """Start a SuperLink that listens on an address."""
        require_free(host, port)
        home = folder / HOME
        env = environment(home)
        database.tidy(home)  # whoever was killed could not
        child = start_superlink(home, host, port, tls, env)
        return FlowerServer(child, folder, at(host, port), tls, env)

    def forget_messages(self, folder: Path) -> None:
        """Delete the messages that lie in a run's folder, which nobody serves."""
        database.forget_messages(folder / HOME)

    def join(
        self, folder: Path, address: str, ca: Path | None, key: Path | None, port: int
    ) -> FlowerNode:
        """Start a SuperNode that joins the coordinator at an address."""
        home = folder / HOME
        env = environment(home)

        def start() -> Child:
            own, config = port or free_port(), {"folder": str(folder)}
            return start_supernode(home, address, own, ca, key, config, env)

        return FlowerNode(start, address, ca)


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
    make_folder(folder)
    settings = folder / "node.toml"
    commands.save(settings, commands.toml(node_config))
    command = [sys.executable, "-P", "-m", _SUPERNODE, "--superlink", address]
    command += ["--host", LOOPBACK, "--port", str(port), "--node-config", str(settings)]
    if tls_ca is None:
        command += ["--insecure"]
    else:
        command += ["--root-certificates", str(tls_ca.resolve())]
    if key is not None:
        command += ["--auth-supernode-private-key", str(key.resolve())]
    return Child(command, log=folder / "supernode.log", cwd=folder, env=env)
