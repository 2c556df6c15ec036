# SPDX-License-Identifier: Apache-2.0
"""Flower's processes: started, watched and ended, with everything they start.

A coordinator runs a SuperLink, a site a SuperNode; both start processes of their own,
some in process groups of their own. Each stands under a guard, a small process that
ends the whole family when it is told to, and also when we die without a word.

Flower lets anybody who reaches a SuperLink's port submit code, which then runs at the
coordinator and at every site, and enrol keys. Ours lets the network only join: all else
is for the coordinator's own machine.

Linux and macOS. Flower's telemetry, update check and installing are switched off.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import http.client
import ipaddress
import json
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import sysconfig
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from afcl.exceptions import InputError
from afcl.runtime.flower.keys import Tls, require_flower

if TYPE_CHECKING:
    import psutil

#: The app that is handed to the engine: no code, only where the library has it.
APP = Path(__file__).parent / "app"
#: The connection's name in the engine's own configuration.
_LINK = "afcl"
_HERE = "127.0.0.1"
#: Seconds to end by themselves when asked, and when nobody is left to ask.
_GRACE, _ORPHANED = 10.0, 3.0
#: Seconds for a SuperLink to start, and for a command to be answered.
_START, _PATIENCE = 60.0, 300.0
#: The part that the engine starts by its bare name.
_SCRIPT = "flower-superexec"
_MODULE = "afcl.runtime.flower.processes"


def environment(home: Path) -> dict[str, str]:
    """Return the environment of the engine's processes, which keep house in `home`.

    The engine starts its parts by name: they are found beside the running Python.
    """
    require_flower()
    home.mkdir(parents=True, exist_ok=True)
    ours = {
        # A proxy that all may claim to be would let strangers pass for local.
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FLWR_") and name != "FORWARDED_ALLOW_IPS"
    }
    ours |= {
        "PATH": f"{_scripts()}{os.pathsep}{ours.get('PATH', os.defpath)}",
        "FLWR_HOME": str(home.resolve()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
    }
    if paths := ours.get("PYTHONPATH"):  # they run in other folders
        absolute = map(os.path.abspath, paths.split(os.pathsep))
        ours["PYTHONPATH"] = os.pathsep.join(absolute)
    return _without_proxy(ours, _HERE, "localhost", "::1")


def _scripts() -> Path:
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


def _without_proxy(env: Mapping[str, str], *hosts: str) -> dict[str, str]:
    """Return `env` with `hosts` reached directly, whatever proxy there is."""
    said = env.get("no_proxy") or env.get("NO_PROXY") or ""
    direct = ",".join(dict.fromkeys([*filter(None, said.split(",")), *hosts]))
    return {**env, "no_proxy": direct, "NO_PROXY": direct}


def free_port() -> int:
    """Return a port of this machine that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(host: str, port: int) -> None:
    """Refuse a port that cannot be listened on, and say what to do."""
    if not 0 < port < 65536:
        raise InputError(f"{port} is no port: choose one from 1 to 65535 with --port")
    try:
        family, kind, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port {port} on {host} is taken: choose another with --port"
            ) from error
        if error.errno == errno.EACCES:
            raise InputError(
                f"port {port} is reserved for administrators: choose one above 1023 "
                "with --port"
            ) from error
        raise InputError(
            f"{host} is no address of this machine: choose one with --host"
        ) from error


class Child:
    """A process of ours, and everything it starts.

    Parameters
    ----------
    command
        The program and its arguments.
    log
        Where its output goes; what was there is lost.
    cwd, env
        The folder and the environment it runs in.
    """

    def __init__(
        self, command: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str]
    ) -> None:
        require_flower()
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as out:
            self._guard = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, "guard", *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The guard's process id; all others descend from it."""
        return self._guard.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs; it counts as running until its family is gone."""
        return self._guard.poll() is None

    def wait(self, seconds: float | None = None) -> int:
        """Wait until all is over; return the exit code."""
        return self._guard.wait(seconds)

    def stop(self, grace: float = _GRACE) -> None:
        """End the process and all it started: asked first, killed after `grace` s."""
        pipe = self._guard.stdin
        assert pipe is not None
        if self.alive and not pipe.closed:
            with contextlib.suppress(BrokenPipeError):
                pipe.write(f"{grace}\n".encode())
                pipe.flush()
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
        try:
            self._guard.wait(grace + _GRACE)
        except subprocess.TimeoutExpired:
            _end(self.pid, 0.0)
            self._guard.kill()
            self._guard.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _guard(command: Sequence[str], orders: IO[str]) -> int:
    """Run `command`; end its family when it ends, is to end, or nobody is left to say.

    `orders` is a pipe whose other end only our parent holds: the system closes it
    however that parent dies. A line on it is the time to end in.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # On Linux whoever loses a parent in the family becomes our child, so nobody can
    # get out of sight; should we be killed, the engine is at least asked to end.
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    engine = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: _prctl(1, signal.SIGTERM),  # PR_SET_PDEATHSIG
    )
    grace = _ORPHANED
    try:
        while engine.poll() is None:
            if select.select([orders], [], [], 0.2)[0]:
                grace = float(orders.readline() or grace)
                break
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(os.getpid(), grace)
    code = engine.wait()
    return code if code >= 0 else 128 - code


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _end(root: int, grace: float) -> None:
    """End all that descend from the process `root`, but not `root` itself."""
    import psutil

    told: set[psutil.Process] = set()
    deadline = time.monotonic() + grace
    while (late := time.monotonic() - deadline) < _GRACE:
        family = _family(root, told)
        if not family:
            return
        for process in family:
            with contextlib.suppress(psutil.Error):
                if late >= 0:
                    process.kill()
                elif process not in told:
                    process.terminate()
        told |= family
        psutil.wait_procs(family, timeout=0.2)


def _family(root: int, known: Iterable[psutil.Process]) -> set[psutil.Process]:
    """Return the living that descend from `root` or are `known` to have done so."""
    import psutil

    heads = set(known)
    with contextlib.suppress(psutil.NoSuchProcess):
        heads |= set(psutil.Process(root).children())
    family = set(heads)
    for head in heads:
        with contextlib.suppress(psutil.NoSuchProcess):
            family |= set(head.children(recursive=True))
    return {process for process in family if _lives(process)}


def _lives(process: psutil.Process) -> bool:
    import psutil

    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def start_superlink(
    folder: Path,
    host: str,
    port: int,
    tls: Tls | None,
    env: Mapping[str, str],
    *,
    simulation: bool = False,
) -> Child:
    """Start the coordinator's engine; return when it answers on its port.

    With `tls` only enrolled sites can join; without, anybody can, in plain text. In a
    `simulation` nobody can: the engine plays the sites itself.
    """
    require_free(host, port)
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ["--host", host, "--port", str(port)]
    arguments += ["--database", str(folder / "engine.db")]
    arguments += ["--disable-runtime-dependency-installation"]
    if simulation:
        arguments += ["--simulation"]
    if tls is None:
        arguments += ["--insecure"]
    else:
        arguments += ["--ssl-ca-certfile", str(tls.ca.resolve())]
        arguments += ["--ssl-certfile", str(tls.cert.resolve())]
        arguments += ["--ssl-keyfile", str(tls.key.resolve())]
        arguments += ["--enable-supernode-auth"]
    child = Child(
        [sys.executable, "-P", "-m", _MODULE, "superlink", *arguments],
        log=folder / "superlink.log",
        cwd=folder,
        env=_without_proxy(env, host),
    )
    try:
        _wait_for(child, at(host, port), tls)
    except BaseException:
        child.stop()
        raise
    return child


def _wait_for(child: Child, address: str, tls: Tls | None) -> None:
    deadline = time.monotonic() + _START
    while why := unreachable(address, None if tls is None else tls.ca):
        if not child.alive:
            raise InputError(f"the engine did not start: {last_words(child.log)}")
        if time.monotonic() > deadline:
            raise InputError(f"the engine did not start in {_START:.0f} s: {why}")
        time.sleep(0.1)


def at(host: str, port: int | str) -> str:
    """Return the address at which this machine reaches a server bound to `host`."""
    host = {"0.0.0.0": _HERE, "::": "::1"}.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _split(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


def unreachable(address: str, ca: Path | None) -> str | None:
    """Return in one line why the coordinator at `address` cannot be spoken to, if so.

    `ca` is what vouches for it, or None for plain text.
    """
    host, port = _split(address)
    if not host or not port.isdigit():
        return f"{address!r} is no address: write it as HOST:PORT"
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    if ca is not None:
        trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            trusted.load_verify_locations(ca)
        except OSError:  # of which ssl.SSLError is one
            return f"{ca} is no certificate: use the coordinator's ca.crt"
        connection = http.client.HTTPSConnection(
            host, int(port), timeout=5, context=trusted
        )
    try:
        connection.request("GET", "/health")
        code = connection.getresponse().status
    except ssl.SSLError as error:
        return _meaning(str(error)) or f"no TLS with {address}: {error}"
    except (http.client.HTTPException, ConnectionResetError):
        return f"what answers at {address} is no coordinator, or speaks TLS only: {_CA}"
    except OSError:
        return f"nobody answers at {address}: is the coordinator running?"
    finally:
        connection.close()
    return None if code == 200 else f"what answers at {address} is no coordinator"


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
    _save(overrides, _toml(config))
    words = ["run", str(app), _LINK, "-c", str(overrides)]
    if nodes is not None:
        words += ["--federation-config", nodes]
    said = _flwr(address, tls, env, *words)
    return str(said["run-id"])


def status(
    run: str, address: str, tls: Tls | None, env: Mapping[str, str]
) -> tuple[str, str]:
    """Return how a run fares, such as ``finished:failed``, and the engine's reason."""
    said = _flwr(address, tls, env, "list", _LINK, "--run-id", run)["runs"][0]
    return str(said["status"]), " ".join(str(said["status-details"]).split())


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
    require_free(_HERE, port)
    if tls_ca is None and key is not None:
        raise InputError(f"a key is of use only with TLS: {_CA}")
    for path in (tls_ca, key):
        if path is not None and not path.is_file():
            raise InputError(f"{path} is not there: give the path of the file")
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "node.toml"
    _save(settings, _toml(node_config))
    command = [str(_scripts() / "flower-supernode"), "--superlink", address]
    command += ["--host", _HERE, "--port", str(port), "--node-config", str(settings)]
    if tls_ca is None:
        command += ["--insecure"]
    else:
        command += ["--root-certificates", str(tls_ca.resolve())]
    if key is not None:
        command += ["--auth-supernode-private-key", str(key.resolve())]
    return Child(command, log=folder / "supernode.log", cwd=folder, env=env)


def register(
    public_key: Path, address: str, tls: Tls | None, env: Mapping[str, str]
) -> None:
    """Enrol a site, here, where the coordinator runs; once more does no harm."""
    try:
        known = public_key.read_bytes().startswith(b"ecdsa-sha2-nistp")
    except OSError as error:
        raise InputError(f"{public_key} cannot be read: {error.strerror}") from error
    if not known:
        raise InputError(f"{public_key} is no public key: give the site's .pub file")
    path = str(public_key.resolve())
    try:
        _flwr(address, tls, env, "supernode", "register", path, _LINK)
    except InputError as error:
        if "[code: 23]" not in str(error):  # the key is enrolled already
            raise


def nodes(
    address: str, tls: Tls | None, env: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return what the engine knows of every site: ``node-id``, ``status``, times."""
    said = _flwr(address, tls, env, "supernode", "list", _LINK)
    return list(said["nodes"])


def _flwr(
    address: str, tls: Tls | None, env: Mapping[str, str], *arguments: str
) -> dict[str, Any]:
    """Run one of the engine's commands; return what it says, or why it failed."""
    host, port = _split(address)
    address = at(host, port)
    ca = None if tls is None else tls.ca.resolve()
    if why := unreachable(address, ca):
        raise InputError(why)
    secured = "insecure = true" if ca is None else f"root-certificates = {_quoted(ca)}"
    _save(
        Path(env["FLWR_HOME"], "config.toml"),
        f"[superlink]\ndefault = {_quoted(_LINK)}\n\n[superlink.{_LINK}]\n"
        f"address = {_quoted(address)}\n{secured}\n",
    )
    try:
        done = subprocess.run(
            [str(_scripts() / "flwr"), *arguments, "--format", "json"],
            env=_without_proxy(env, host),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"the engine did not answer in {_PATIENCE:.0f} s") from error
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = {"error-message": done.stderr or done.stdout}
    if not said.get("success"):
        # The last paragraph is the reason; above it is what was going on.
        reason = str(said.get("error-message")).strip().rpartition("\n\n")[2]
        raise InputError(f"the engine refused: {' '.join(reason.split())}")
    return said


def _save(path: Path, text: str) -> None:
    """Write a file so that no other process ever reads half of it."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def _toml(values: Mapping[str, str]) -> str:
    return "".join(f"{_quoted(k)} = {_quoted(v)}\n" for k, v in values.items())


def _quoted(value: object) -> str:
    """Return a TOML string, whatever is in it."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


_PLAIN = "the coordinator speaks plain text: join with --insecure, without --ca"
_CA = "give the coordinator's ca.crt with --ca"
#: The engine says the same of a key it does not know and of one that is online. It
#: takes a site for online until it has been silent for a minute.
KEY_REFUSED = (
    "the coordinator does not know this key, or has a site online with it: ask for "
    "'afcl enrol' with the .pub file, or, if the site has just been cut off, "
    "join again in a minute"
)
#: What a SuperNode's log says, and what it means; the first that fits counts.
_REFUSALS = {
    "[code: 2004]": KEY_REFUSED,
    "[code: 2001]": (
        "the coordinator admits only enrolled sites: make a key with 'afcl keygen', "
        "have its .pub file enrolled, and join with --key"
    ),
    "mismatch, certificate is not valid for": (
        "the coordinator's certificate is not made out to this address: "
        "join at a name or address that it was made for"
    ),
    "certificate has expired": (
        "the coordinator's certificate has expired: tell whoever runs the coordinator"
    ),
    "CERTIFICATE_VERIFY_FAILED": (
        "the coordinator's certificate is not vouched for by this ca.crt: "
        "get the file from whoever runs the coordinator"
    ),
    "WRONG_VERSION_NUMBER": _PLAIN,
    "RECORD_LAYER_FAILURE": _PLAIN,  # the same, from OpenSSL 3.2 on
    "Exit Code: 606": (
        "the coordinator runs another version of Flower: "
        "install the same 'afcl[flower]' as there"
    ),
    "Unable to parse the private key file": (
        "the key cannot be used: give the private file that 'afcl keygen' made"
    ),
    "address already in use": "the site's port is taken: choose another with --port",
}
#: So many attempts to connect take about five seconds; the pauses are random.
_ATTEMPTS = 4
_ERROR = re.compile(r"\bERROR\b|^[\w.]+(Error|Exception|Exit): |: error: ")
_REFUSED = re.compile(r"Failed to initialize the connection to the SuperLink\.\n(.+)")
_JOINED = re.compile(r"SuperNode ID: (\d+)")


def node_id(log: Path) -> str | None:
    """Return the id under which a SuperNode has joined, or None if it has not yet."""
    found = _JOINED.search(_read(log))
    return None if found is None else found[1]


def refusal(log: Path) -> str | None:
    """Return in one line why a SuperNode is not let in, or None if nothing says so.

    A SuperNode that cannot reach the coordinator keeps trying and does not say why;
    `unreachable` does. Here it counts as refused after a few attempts.
    """
    said = _read(log)
    if _JOINED.search(said):
        return None
    if meaning := _meaning(said):
        return meaning
    if found := _REFUSED.search(said):
        return f"the coordinator refused: {found[1]}"
    if said.count("Connection attempt failed") >= _ATTEMPTS:
        return "no answer from the coordinator yet: wrong address, not started, or TLS?"
    return None


def _meaning(said: str) -> str | None:
    return next((line for sign, line in _REFUSALS.items() if sign in said), None)


def last_words(log: Path) -> str:
    """Return the line of a log that says best why its process ended."""
    lines = [line.strip() for line in _read(log).splitlines()]
    lines = [line for line in lines if line and "For more information" not in line]
    for at, line in enumerate(lines[:-1]):
        if "Exit Code: " in line:
            return lines[at + 1]
    errors = [line for line in lines if _ERROR.search(line)]
    return [f"see {log}", *lines, *errors][-1]


def _read(log: Path) -> str:
    try:
        said = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return re.sub(r"\x1b\[\d*m", "", said)


class Doorman:
    """Let the network join and no more; only this machine gives orders.

    ASGI middleware before everything that a SuperLink serves.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or answer it with 403."""
        if scope["type"] == "lifespan" or self._admits(scope):
            await self._app(scope, receive, send)
            return
        from starlette.responses import JSONResponse

        said = {"detail": "only the coordinator's own machine may do this"}
        await JSONResponse(said, status_code=403)(scope, receive, send)

    @staticmethod
    def _admits(scope: Any) -> bool:
        if scope["path"] == "/health" or scope["path"].startswith("/v1/fleet/"):
            return True
        caller, called = scope.get("client"), scope.get("server")
        if caller is None:
            return False
        if called is not None and caller[0] == called[0]:
            return True  # both ends are the same machine
        try:
            return ipaddress.ip_address(caller[0]).is_loopback
        except ValueError:
            return False


def _superlink(arguments: Sequence[str]) -> None:
    """Be a SuperLink with a doorman."""
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from starlette.middleware import Middleware

    extensions.get_middleware = lambda: (Middleware(Doorman),)
    sys.argv = ["flower-superlink", *arguments]
    flower_superlink()


if __name__ == "__main__":
    if sys.argv[1] == "superlink":
        _superlink(sys.argv[2:])
    else:
        sys.exit(_guard(sys.argv[2:], sys.stdin))
