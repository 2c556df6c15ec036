# SPDX-License-Identifier: Apache-2.0
"""The engine's processes: they start, they are refused, and they all end."""

import asyncio
import contextlib
import datetime
import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from afcl.exceptions import InputError
from afcl.privacy.identity import identity_of_pem
from afcl.runtime.flower import certificates, commands, keys, superlink
from afcl.runtime.flower import environment as flower_environment
from afcl.runtime.flower.certificates import make_server_certificates
from afcl.runtime.flower.child import Child
from afcl.runtime.flower.commands import (
    APP,
    nodes,
    register,
    status,
    submit,
    unregister,
)
from afcl.runtime.flower.environment import environment
from afcl.runtime.flower.keys import make_site_key
from afcl.runtime.flower.launcher import start_supernode
from afcl.runtime.flower.log_file import read_log
from afcl.runtime.flower.logs import (
    KEY_REFUSED,
    last_words,
    node_id,
    refusal,
    sent_home,
    turned_away,
)
from afcl.runtime.flower.network import at, free_port, require_free, unreachable
from afcl.runtime.flower.superlink import NetworkGuard, start_superlink
from afcl.runtime.live.engine import Tls

pytest.importorskip("flwr", reason="the network needs Flower: afcl[flower]")
psutil = pytest.importorskip("psutil", reason="the network needs psutil: afcl[flower]")

pytestmark = pytest.mark.federation

#: Longer than anything takes, on a machine that is busy with something else.
PATIENCE = 300.0


@pytest.fixture(scope="module", autouse=True)
def _patient():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(superlink, "_START", PATIENCE)
        yield


def until(true, seconds=PATIENCE):
    """Wait until `true()` is; return what it is."""
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    return value


def said(line):
    """Return `line`, which must be one."""
    assert isinstance(line, str)
    assert "\n" not in line
    return line


def alive(pids):
    """Return those of `pids` that are processes; zombies are not."""
    return [
        pid
        for pid in pids
        if psutil.pid_exists(pid)
        and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]


def named(text):
    """Return the processes with `text` in their command line, but not this one."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or [])
        if text in words and process.pid != os.getpid():
            found.append(process.pid)
    return found


def family(child):
    below = psutil.Process(child.pid).children(recursive=True)
    return [child.pid, *(process.pid for process in below)]


# The environment


def test_the_environment_is_silent_and_finds_the_engine(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    monkeypatch.setenv("FLWR_OIDC_ENABLED", "1")
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    monkeypatch.setenv("PYTHONPATH", "here")
    monkeypatch.setenv("NO_PROXY", "intra.example.org")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("OTHER", "kept")
    env = environment(tmp_path / "new" / "home")
    assert {name: env[name] for name in env if name.startswith("FLWR_")} == {
        "FLWR_HOME": str(tmp_path / "new" / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
    }
    assert (tmp_path / "new" / "home").is_dir()
    assert "FORWARDED_ALLOW_IPS" not in env
    assert env["PYTHONPATH"] == str(Path.cwd() / "here")
    assert env["NO_PROXY"] == "intra.example.org,127.0.0.1,localhost,::1"
    assert env["OTHER"] == "kept"
    first = Path(env["PATH"].split(os.pathsep)[0])
    assert (first / "flower-superexec").exists()


def test_the_engine_knows_the_switches_that_silence_it(tmp_path):
    from flwr.common import constant as common
    from flwr.supercore import constant, telemetry
    from flwr.supercore.superexec import run_superexec

    known = {
        common.FLWR_HOME,
        common.FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION,
        constant.FLWR_DISABLE_UPDATE_CHECK,
        run_superexec._TASK_POLL_INTERVAL_ENV,
    }
    assert hasattr(telemetry, "FLWR_TELEMETRY_ENABLED")
    ours = {name for name in environment(tmp_path) if name.startswith("FLWR_")}
    assert ours - {"FLWR_TELEMETRY_ENABLED"} == known


def test_without_flower_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(flower_environment, "_SCRIPT", "no-such-command")
    with pytest.raises(InputError, match=r"pip install 'afcl\[flower\]'"):
        environment(tmp_path)
    monkeypatch.setattr(keys, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'afcl\[flower\]'"):
        environment(tmp_path)


# Ports


def test_a_free_port_is_free():
    require_free("127.0.0.1", free_port())


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0.0.0.0", "127.0.0.1:8000"),
        ("::", "[::1]:8000"),
        ("::1", "[::1]:8000"),
        ("example.org", "example.org:8000"),
    ],
)
def test_a_server_on_all_addresses_is_reached_at_one(host, address):
    assert at(host, 8000) == address


def test_a_taken_port_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"port {port} on 127.0.0.1 is taken: choose another with --port"
        with pytest.raises(InputError, match=f"^{line}\n"):
            require_free("127.0.0.1", port)
        with pytest.raises(InputError, match=line):
            start_superlink(tmp_path, "127.0.0.1", port, None, {})
        with pytest.raises(InputError, match=line):
            start_supernode(tmp_path, "127.0.0.1:1", port, None, None, {}, {})
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(InputError, match=f"^{port} is no port"):
        require_free("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(InputError, match="no address of this machine"):
        require_free("192.0.2.1", free_port())


# A child and its family

#: A parent whose child, in a group of its own, does not listen to SIGTERM.
STUBBORN = """
import os, signal, subprocess, sys, time
code = (
    "import signal, time; signal.signal(15, signal.SIG_IGN); "
    "print('deaf', flush=True); time.sleep(600)"
)
deaf = subprocess.Popen(
    [sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE
)
deaf.stdout.readline()
print("PIDS", os.getpid(), deaf.pid, flush=True)
if "leave" in sys.argv: os._exit(3)
time.sleep(600)
"""


def stubborn(folder, *arguments):
    """Start the family; return it and its process ids, the guard's first."""
    command = [sys.executable, "-c", STUBBORN, *arguments]
    child = Child(command, log=folder / "log", cwd=folder, env=os.environ)
    pids = until(lambda: re.search(r"PIDS (\d+) (\d+)", child.log.read_text()))
    return child, [child.pid, int(pids[1]), int(pids[2])]


def test_stop_ends_the_deaf_and_those_in_other_groups(tmp_path):
    child, pids = stubborn(tmp_path)
    assert child.alive
    assert alive(pids) == pids
    child.stop(grace=0.5)
    assert not child.alive
    assert not alive(pids)
    child.stop()


def test_a_child_that_ends_takes_its_family_along(tmp_path):
    child, pids = stubborn(tmp_path, "leave")
    assert child.wait(PATIENCE) == 3
    assert not alive(pids)
    child.stop()


def test_the_exit_code_and_the_output_are_kept(tmp_path):
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    (tmp_path / "log").write_text("older\n")
    with Child(
        [sys.executable, "-c", code],
        log=tmp_path / "log",
        cwd=tmp_path,
        env=os.environ,
    ) as child:
        assert child.wait(PATIENCE) == 7
    assert sorted(read_log(child.log).split()) == ["err", "out"]


def test_leaving_the_block_ends_the_child(tmp_path):
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with Child(command, log=tmp_path / "log", cwd=tmp_path, env=os.environ) as child:
        pids = until(lambda: len(family(child)) == 2 and family(child))
    assert not alive(pids)


def test_nobody_outlives_a_parent_that_is_killed(tmp_path):
    parent = """
        import os, sys, time
        from pathlib import Path
        from afcl.runtime.flower.child import Child
        here = Path(sys.argv[1])
        child = Child(sys.argv[2:], log=here / "log", cwd=here, env=os.environ)
        time.sleep(600)
    """
    ours = subprocess.Popen(
        [
            *(sys.executable, "-c", textwrap.dedent(parent), str(tmp_path)),
            *(sys.executable, "-c", STUBBORN),
        ]
    )
    log = tmp_path / "log"
    found = until(
        lambda: log.exists() and re.search(r"PIDS (\d+) (\d+)", log.read_text())
    )
    pids = [int(found[1]), int(found[2])]
    guard = psutil.Process(pids[0]).ppid()
    assert psutil.Process(guard).ppid() == ours.pid
    ours.kill()
    ours.wait()
    until(lambda: not alive([guard, *pids]), 60)


def test_a_guard_ends_its_family_when_it_is_asked_to_end_itself(tmp_path):
    child, pids = stubborn(tmp_path)
    os.kill(child.pid, signal.SIGTERM)
    until(lambda: not alive(pids), 60)
    child.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="needs the Linux kernel's help")
def test_the_engine_is_asked_to_end_when_its_guard_is_killed(tmp_path):
    child, (guard, engine, deaf) = stubborn(tmp_path)
    os.kill(guard, signal.SIGKILL)
    until(lambda: not alive([engine]), 60)
    os.kill(deaf, signal.SIGKILL)
    child.stop()


# Logs


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "see "),
        ("INFO: one\n\nINFO: two\n", "INFO: two"),
        ("\x1b[91mERROR \x1b[0m:  Exit Code: 104\nThe reason.\nHelp.\n", "The reason."),
        ("ERROR: [Errno 98] in use\nINFO [a.error] x\n", "ERROR: [Errno 98] in use"),
        ("usage: x\nx: error: argument\n", "x: error: argument"),
        ("a.b.SomeError: no\n(Background on this error)\n", "a.b.SomeError: no"),
        ("  File x\nRuntimeError: no\n\nFor more information: y", "RuntimeError: no"),
    ],
)
def test_the_last_words_of_a_log(tmp_path, log, words):
    (tmp_path / "log").write_text(log)
    assert last_words(tmp_path / "log").startswith(words)


def test_a_log_that_is_not_there_says_nothing(tmp_path):
    assert refusal(tmp_path / "log") is None
    assert node_id(tmp_path / "log") is None


def test_a_site_that_has_joined_and_lost_the_coordinator_is_not_refused(tmp_path):
    log = tmp_path / "log"
    log.write_text("Connection attempt failed, retrying in 0.1 seconds\n" * 3)
    assert refusal(log) is None
    log.write_text("Connection attempt failed, retrying in 0.1 seconds\n" * 4)
    assert "no answer from the coordinator yet" in said(refusal(log))
    log.write_text("SuperNode ID: 12\n" + "Connection attempt failed\n" * 9)
    assert refusal(log) is None
    assert node_id(log) == "12"


def test_an_unknown_refusal_is_passed_on(tmp_path):
    log = tmp_path / "log"
    failed = "Failed to initialize the connection to the SuperLink."
    log.write_text(f"ERROR : Exit Code: 305\n{failed}\n[code: 9999] New.\nHelp.\n")
    assert refusal(log) == "the coordinator refused: [code: 9999] New."


def test_a_coordinator_in_trouble_of_its_own_refuses_nobody(tmp_path):
    log = tmp_path / "log"
    log.write_text(
        "Failed to initialize the connection to the SuperLink.\n"
        "Server error '500 Internal Server Error' for url 'http://x/register-node'\n"
    )
    assert refusal(log) is None


def test_a_site_that_was_sent_home_after_it_had_joined(tmp_path):
    log = tmp_path / "log"
    for text, expected in (
        ("", False),
        ("SuperNode ID: 12\n", False),
        ("SuperNode terminated gracefully.\n", False),
        ("SuperNode ID: 12\nSuperNode terminated gracefully.\n", True),
        ("SuperNode terminated gracefully.\nSuperNode ID: 13\n", False),
    ):
        log.write_text(text)
        assert sent_home(log) is expected


def test_keys_that_were_turned_away_are_read_from_the_log(tmp_path):
    from cryptography.hazmat.primitives import serialization as form

    _, public = make_site_key(tmp_path)
    key = form.load_ssh_public_key(public.read_bytes())
    pem = key.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    line = "[ApiError:2004] Attempted to register SuperNode with public key: "
    log = f"ERROR : [/v1/fleet/activate-node]{line}{pem!r}, exception: No SuperNode\n"
    assert turned_away(f"other\n{log}{line}b'\\x', and\n{log}") == [pem, pem]
    assert identity_of_pem(pem) == public.read_text().split()[1]
    assert identity_of_pem(b"nothing") == ""


# Who may do what


def answer(client, path, server=("10.0.0.1", 8000)):
    """Return the status that what stands behind the guard answers with."""
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": path, "client": client, "server": server}
    asyncio.run(NetworkGuard(app)(scope, None, send))
    return sent[0]["status"]


@pytest.mark.parametrize(
    ("client", "path", "expected"),
    [
        (("192.0.2.7", 1), "/v1/fleet/pull-messages", 200),
        (("192.0.2.7", 1), "/health", 200),
        (("192.0.2.7", 1), "/v1/control/start-run", 403),
        (("192.0.2.7", 1), "/v1/control/register-node", 403),
        (("192.0.2.7", 1), "/v1/runtime/acquire-task", 403),
        (("192.0.2.7", 1), "/v1/fleet", 403),
        (("192.0.2.7", 1), "/", 403),
        (("somebody", 1), "/v1/control/start-run", 403),
        (None, "/v1/control/start-run", 403),
        (("127.0.0.1", 1), "/v1/control/start-run", 200),
        (("::1", 1), "/v1/control/start-run", 200),
        (("10.0.0.1", 1), "/v1/control/start-run", 200),
    ],
)
def test_the_network_joins_and_this_machine_gives_orders(client, path, expected):
    assert answer(client, path) == expected


# The engine itself


@dataclass(frozen=True)
class Coordinator:
    """A SuperLink at work."""

    folder: Path
    address: str
    tls: Tls | None
    env: dict[str, str]

    @property
    def ca(self):
        return None if self.tls is None else self.tls.ca


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """A SuperLink with TLS that admits enrolled sites."""
    folder = tmp_path_factory.mktemp("secure")
    tls = make_server_certificates(folder / "tls", ["127.0.0.1"])
    env = environment(folder / "home")
    port = free_port()
    with start_superlink(folder, "127.0.0.1", port, tls, env):
        yield Coordinator(folder, f"127.0.0.1:{port}", tls, env)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A SuperLink in plain text that admits everybody."""
    folder = tmp_path_factory.mktemp("plain")
    env = environment(folder / "home")
    port = free_port()
    with start_superlink(folder, "127.0.0.1", port, None, env):
        yield Coordinator(folder, f"127.0.0.1:{port}", None, env)


def join(folder, coordinator, ca=None, key=None, config=None):
    """Start a site's engine at `coordinator`."""
    env = environment(folder / "home")
    return start_supernode(
        folder, coordinator.address, free_port(), ca, key, config or {}, env
    )


def why_refused(folder, coordinator, ca=None, key=None):
    with join(folder, coordinator, ca, key) as site:
        return said(until(lambda: refusal(site.log)))


def test_a_superlink_leaves_no_process(tmp_path):
    port = free_port()
    link = start_superlink(
        tmp_path, "127.0.0.1", port, None, environment(tmp_path / "home")
    )
    # The guard, the SuperLink, and its SuperExec in a group of its own.
    pids = until(lambda: len(family(link)) >= 3 and family(link))
    assert len({os.getpgid(pid) for pid in pids}) == 2
    assert named(str(tmp_path))
    link.stop()
    assert not alive(pids)
    assert not named(str(tmp_path))
    require_free("127.0.0.1", port)


def test_a_superlink_that_cannot_start_says_why(tmp_path):
    (tmp_path / "engine.db").write_text("not a database, but long enough to be read")
    with pytest.raises(InputError, match="did not start: .*not a database") as caught:
        start_superlink(
            tmp_path, "127.0.0.1", free_port(), None, environment(tmp_path / "home")
        )
    assert "\n" not in str(caught.value)
    assert not named(str(tmp_path))


def test_an_enrolled_site_joins_and_a_second_with_its_key_does_not(tmp_path, secure):
    private, public = make_site_key(tmp_path, "site-a")
    register(public, secure.address, secure.tls, secure.env)
    register(public, secure.address, secure.tls, secure.env)
    with join(tmp_path / "a", secure, secure.ca, private) as site:
        number = until(lambda: node_id(site.log))
        assert refusal(site.log) is None
        known = nodes(secure.address, secure.tls, secure.env)
        assert {n["node-id"]: n["status"] for n in known}[number] == "online"
        why = why_refused(tmp_path / "b", secure, secure.ca, private)
        assert why == KEY_REFUSED
    known = nodes(secure.address, secure.tls, secure.env)
    assert {n["node-id"]: n["status"] for n in known}[number] == "offline"


def test_a_revoked_site_is_cut_off_and_not_let_in_again(tmp_path, secure):
    private, public = make_site_key(tmp_path, "site-a")
    there = (secure.address, secure.tls, secure.env)
    node = register(public, *there)
    assert node is not None
    with join(tmp_path / "a", secure, secure.ca, private) as site:
        assert until(lambda: node_id(site.log)) == str(node)
        unregister(node, *there)
        unregister(node, *there)
        until(lambda: not site.alive)
        assert sent_home(site.log)
    assert why_refused(tmp_path / "b", secure, secure.ca, private) == KEY_REFUSED
    assert register(public, *there) is None
    log = (secure.folder / "superlink.log").read_text()
    knocked = [identity_of_pem(key) for key in turned_away(log)]
    assert public.read_text().split()[1] in knocked


def test_a_key_that_is_not_enrolled_is_refused(tmp_path, secure):
    private, _ = make_site_key(tmp_path)
    why = why_refused(tmp_path, secure, secure.ca, private)
    assert why == KEY_REFUSED


def test_a_site_without_a_key_is_refused(tmp_path, secure):
    why = why_refused(tmp_path, secure, secure.ca)
    assert why.startswith("the coordinator admits only enrolled sites")


def test_a_site_with_a_key_that_is_none_is_told(tmp_path, secure):
    _, public = make_site_key(tmp_path)
    why = why_refused(tmp_path, secure, secure.ca, public)
    assert why.startswith("the key cannot be used")


def test_a_site_with_the_wrong_authority_refuses_the_coordinator(tmp_path, secure):
    other = make_server_certificates(tmp_path / "tls", ["127.0.0.1"])
    private, _ = make_site_key(tmp_path)
    why = why_refused(tmp_path, secure, other.ca, private)
    assert why.startswith("the coordinator's certificate is not vouched for")
    assert unreachable(secure.address, other.ca) == why


def test_a_site_in_plain_text_gets_no_answer_of_a_secure_coordinator(tmp_path, secure):
    why = why_refused(tmp_path, secure)
    assert why.startswith("no answer from the coordinator yet")
    assert "speaks TLS only" in said(unreachable(secure.address, None))


def test_a_secure_site_is_told_that_the_coordinator_is_not(tmp_path, plain):
    tls = make_server_certificates(tmp_path / "tls", ["127.0.0.1"])
    private, _ = make_site_key(tmp_path)
    why = why_refused(tmp_path, plain, tls.ca, private)
    assert why.startswith("the coordinator speaks plain text")
    assert unreachable(plain.address, tls.ca) == why


def test_a_site_waits_for_a_coordinator_that_is_not_there(tmp_path):
    nobody = Coordinator(tmp_path, f"127.0.0.1:{free_port()}", None, {})
    with join(tmp_path, nobody) as site:
        why = until(lambda: refusal(site.log))
        assert why.startswith("no answer from the coordinator yet")
        assert site.alive
    assert not named(str(tmp_path))


def test_unreachable_says_why(tmp_path, secure, plain):
    assert unreachable(secure.address, secure.ca) is None
    assert unreachable(plain.address, None) is None
    port = free_port()
    assert unreachable(f"127.0.0.1:{port}", None) == (
        f"nobody answers at 127.0.0.1:{port}: is the coordinator running?"
    )
    assert "is no address" in said(unreachable("127.0.0.1", None))
    assert "is no certificate" in said(unreachable(secure.address, tmp_path))
    (tmp_path / "ca.crt").write_text("nothing")
    assert "is no certificate" in said(unreachable(secure.address, tmp_path / "ca.crt"))


@pytest.mark.parametrize(
    ("host", "age", "why"),
    [
        ("127.0.0.1", 900, "certificate has expired"),
        ("127.0.0.1", 0, "is no coordinator"),
        ("localhost", 0, "is not made out to this address"),
    ],
)
def test_unreachable_tells_certificates_apart(tmp_path, monkeypatch, host, age, why):
    tls = Tls(
        *(
            tmp_path / name
            for name in (certificates.CA, certificates.CERTIFICATE, certificates.KEY)
        )
    )
    if host == "localhost":  # the certificate is for another name only
        monkeypatch.setattr(certificates, "OWN_NAMES", ())
    now = datetime.datetime.now(datetime.UTC)
    certificates._issue(tls, ["127.0.0.1"], now - datetime.timedelta(days=age))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.cert, tls.key)

    def serve(listener):
        with contextlib.suppress(OSError), listener.accept()[0] as caller:
            context.wrap_socket(caller, server_side=True).close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        port = listener.getsockname()[1]
        assert why in said(unreachable(f"{host}:{port}", tls.ca))
        server.join(PATIENCE)


def test_what_cannot_be_enrolled_is_refused(tmp_path, secure):
    private, public = make_site_key(tmp_path)
    with pytest.raises(InputError, match=r"is no public key: give the site's \.pub"):
        register(private, secure.address, secure.tls, secure.env)
    with pytest.raises(InputError, match=r"gone\.pub cannot be read"):
        register(tmp_path / "gone.pub", secure.address, secure.tls, secure.env)
    with pytest.raises(InputError, match="speaks TLS only"):
        register(public, secure.address, None, secure.env)
    (tmp_path / "bad.pub").write_text("ecdsa-sha2-nistp384 AAAA nobody\n")
    with pytest.raises(InputError, match="the engine refused: ") as caught:
        register(tmp_path / "bad.pub", secure.address, secure.tls, secure.env)
    assert "\n" not in str(caught.value)


def test_a_key_is_of_no_use_without_tls(tmp_path):
    private, _ = make_site_key(tmp_path)
    with pytest.raises(InputError, match="a key is of use only with TLS"):
        start_supernode(tmp_path, "127.0.0.1:1", free_port(), None, private, {}, {})
    with pytest.raises(InputError, match="is not there"):
        start_supernode(
            tmp_path, "127.0.0.1:1", free_port(), tmp_path / "ca.crt", None, {}, {}
        )


def test_strangers_cannot_give_orders(plain):
    def ask(path, **headers):
        host, port = plain.address.split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        connection.request("POST", path, headers=headers)
        status = connection.getresponse().status
        connection.close()
        return status

    # The engine believes a proxy on this machine about who is calling.
    stranger = {"X-Forwarded-For": "192.0.2.7"}
    for path in ("/v1/control/start-run", "/v1/runtime/acquire-task"):
        assert ask(path, **stranger) == 403
        assert ask(path) == 415
    assert ask("/v1/fleet/pull-messages", **stranger) == 415


# An app


SERVER = """
import time
from pathlib import Path
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    Path(context.run_config["out"]).write_text("here")
    while not (ids := list(grid.get_node_ids())):
        time.sleep(0.1)
    ask = RecordDict({"ask": ConfigRecord({"data": b""})})
    sent = grid.push_messages([Message(ask, ids[0], "query")])
    while not list(grid.pull_messages(sent)):
        time.sleep(0.1)
"""
#: The work is one call into C: no signal is heard before it is done.
CLIENT = """
import hashlib, os
from pathlib import Path
from flwr.clientapp import ClientApp
app = ClientApp()

@app.query()
def query(message, context):
    Path(context.node_config["note"]).write_text(str(os.getpid()))
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


def write_app(folder):
    """Write an app of our own into `folder`, in the manner of the one we ship."""
    package = folder / "probe"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "server.py").write_text(SERVER)
    (package / "client.py").write_text(CLIENT)
    ours = (APP / "pyproject.toml").read_text()
    ours = ours.replace("afcl.runtime.flower.server_app", "probe.server")
    ours = ours.replace("afcl.runtime.flower.client_app", "probe.client")
    (folder / "pyproject.toml").write_text(ours)
    return folder


def test_all_ends_in_the_middle_of_a_task(tmp_path, secure):
    odd = tmp_path / 'it\'s a "folder" \\ {ü}'
    odd.mkdir()
    note, out = odd / "note", odd / "out"
    app = write_app(tmp_path / "app")
    before = {path: path.stat().st_mtime_ns for path in app.rglob("*")}
    private, public = make_site_key(tmp_path)
    there = (secure.address, secure.tls, secure.env)
    register(public, *there)
    with join(tmp_path, secure, secure.ca, private, {"note": str(note)}) as site:
        run = submit(app, *there, {"out": str(out)})
        worker = int(until(lambda: note.exists() and note.read_text()))
        assert out.read_text() == "here"
        assert status(run, *there) == ("running", "N/A")
        pids = family(site)
        assert worker in pids
        site.stop(grace=1)
        assert not alive(pids)
    assert before == {path: path.stat().st_mtime_ns for path in app.rglob("*")}


def test_a_run_that_fails_says_why(tmp_path, plain):
    app = write_app(tmp_path / "app")
    there = (plain.address, plain.tls, plain.env)
    run = submit(app, *there, {"out": str(tmp_path / "no" / "out")})

    def finished():
        how, why = status(run, *there)
        return how.startswith("finished") and (how, why)

    how, why = until(finished)
    assert how == "finished:failed"
    assert "No such file or directory" in why


def test_an_app_that_cannot_run_is_refused(tmp_path, plain, monkeypatch):
    with pytest.raises(InputError, match="the engine refused: ") as caught:
        submit(tmp_path / "nothing", plain.address, None, plain.env, {})
    assert "\n" not in str(caught.value)
    app = write_app(tmp_path / "app")
    with pytest.raises(InputError, match="the engine refused: "):
        submit(app, plain.address, None, plain.env, {"undeclared": "1"})
    monkeypatch.setattr(commands, "_PATIENCE", 0.1)
    with pytest.raises(InputError, match="did not answer in 0 s"):
        submit(app, plain.address, None, plain.env, {})
    with pytest.raises(InputError, match="nobody answers at"):
        submit(app, f"127.0.0.1:{free_port()}", None, plain.env, {})


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_the_app_we_ship_is_whole_and_holds_no_code(tmp_path):
    from flwr.cli.build import build_fab_from_disk
    from flwr.cli.config_utils import load_and_validate

    config, warnings = load_and_validate(APP / "pyproject.toml", check_module=False)
    assert warnings == []
    assert config["tool"]["flwr"]["app"]["config"] == {"out": ""}
    assert config["project"]["dependencies"] == []
    assert [path.name for path in APP.iterdir()] == ["pyproject.toml"]
    assert len(build_fab_from_disk(APP)) < 2000
    assert [path.name for path in APP.iterdir()] == ["pyproject.toml"]
