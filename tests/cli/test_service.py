# SPDX-License-Identifier: Apache-2.0
"""`afcl service`: what it prints is what supervisors read."""

from __future__ import annotations

import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from afcl import __version__
from afcl.cli import main
from afcl.cli.continuing import Served
from afcl.cli.service_files import Service, compose_file, pinned, systemd_unit

SITE = ("join", "hub:8000", "--data", "my rows.csv", "--name", "a", "--out", "mine")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["service", *words])
    out = capsys.readouterr()
    assert ended.value.code == code, out
    return out.err if code else out.out


def keys(unit: str) -> dict[str, str]:
    lines = [line for line in unit.splitlines() if "=" in line and line[0] != "#"]
    return dict(line.split("=", 1) for line in lines)


def test_a_unit_for_either_side(
    capsys: pytest.CaptureFixture[str], here: Path, home: Path
):
    unit = keys(told(capsys, "serve", "--out", "run1", "--port", "9000"))
    assert unit["ExecStart"].endswith(" serve --out run1 --port 9000")
    assert unit["WorkingDirectory"] == str(here)
    assert unit["Restart"] == "on-failure"
    assert unit["RestartPreventExitStatus"] == "2"
    assert "Environment" not in unit
    unit = keys(told(capsys, *SITE, "--insecure"))
    assert '--data "my rows.csv" --name a' in unit["ExecStart"]
    assert unit["Environment"] == f"AFCL_HOME={home}"


HARD = ("--name", 'a "b" \\ %h ${HOME} $x é', "--out", "")


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="checks units with systemd-analyze, which is not installed",
)
@pytest.mark.parametrize("words", [("--out", "run1"), HARD])
def test_systemd_finds_nothing_wrong_with_a_unit(here: Path, words: tuple[str, ...]):
    folder = here / "100% of it"
    folder.mkdir()
    program = shutil.which("true")
    assert program is not None
    made = Service("serve", words, folder, home=folder)
    unit = here / "afcl-serve.service"
    unit.write_text(systemd_unit(made, [program], "root"))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = [line for line in done.stderr.splitlines() if unit.name in line]
    assert lines == [], done.stderr


def test_an_image_has_the_versions_that_are_installed(
    capsys: pytest.CaptureFixture[str], home: Path
):
    text = told(capsys, "serve", "--docker", "--out", "run1", "--port", "9000")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[0] == f"FROM python:{platform.python_version()}-slim"
    command = json.loads(lines[-1].removeprefix("CMD "))
    # The last one counts: outside of a container nobody reaches its loopback.
    own = ["serve", "--out", "run1", "--port", "9000", "--host", "0.0.0.0"]
    assert command == own
    assert "-p 9000:9000" in text
    (run,) = re.findall(r"^RUN ((?:.*\\\n)*.*)", text, re.MULTILINE)
    installed = shlex.split(run.replace("\\\n", " "))[3:]
    assert installed == pinned()
    extras = pinned()[0].removeprefix("afcl").partition("==")[0]
    wheel = f"afcl-{__version__}-py3-none-any.whl"
    assert f"# COPY {wheel} /tmp/\n# RUN pip install --no-cache-dir " in text
    assert f"'/tmp/{wheel}{extras}' \\\nRUN pip install" in text
    assert "AFCL_HOME" not in text
    assert "ENV AFCL_HOME=" in told(capsys, *SITE, "--insecure", "--docker")


def test_everything_is_pinned():
    own, *others = pinned()
    assert re.fullmatch(rf"afcl\[flower[a-z,]*\]=={re.escape(__version__)}", own)
    pins = dict(pin.split("==") for pin in others)
    for name in ("numpy", "scikit-learn", "typer", "llvmlite"):
        assert pins[name] == version(name)
    assert list(pins) == sorted(pins)
    assert "pytest" not in pins


def test_a_compose_file(capsys: pytest.CaptureFixture[str], here: Path, home: Path):
    yaml: Any = pytest.importorskip("yaml")
    read = yaml.safe_load(told(capsys, *SITE, "--insecure", "--compose"))
    (site,) = read["services"].values()
    assert site["command"] == [*SITE, "--insecure"]
    assert site["working_dir"] == str(here)
    assert site["volumes"][0] == f"{here}:{here}"
    assert f"AFCL_HOME={home}" in site["environment"]
    assert "HTTPS_PROXY" in site["environment"]
    assert "ports" not in site
    assert site["image"] == f"afcl:{__version__}"


def test_a_compose_file_of_a_coordinator():
    yaml: Any = pytest.importorskip("yaml")
    words = ("--out", 'a "b": $HOME #é')
    text = compose_file(Service("serve", words, Path("/x y"), port=9000), "1:2")
    made = yaml.safe_load(text)["services"]["serve"]
    assert made["ports"] == ["9000:9000"]
    assert made["user"] == "1:2"
    assert made["command"][:3] == ["serve", "--out", 'a "b": $$HOME #é']
    assert made["volumes"] == ["/x y:/x y"]
    # What is refused would be refused for ever: compose knows no exit codes.
    assert made["restart"] == "on-failure:5"


#: What may begin a line of a Dockerfile; ours uses these.
INSTRUCTIONS = {"FROM", "RUN", "ENV", "WORKDIR", "ENTRYPOINT", "CMD"}
#: What a service of the compose specification may say, as far as ours does.
COMPOSE = {
    *("build", "image", "command", "user", "working_dir", "volumes", "environment"),
    *("ports", "init", "restart", "stop_grace_period"),
}


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """Return a Dockerfile line by line, as Docker reads it."""
    kept = [line for line in dockerfile.splitlines() if not line.startswith("#")]
    joined = "\n".join(kept).replace("\\\n", " ")
    return [tuple(line.split(" ", 1)) for line in joined.splitlines()]  # type: ignore[misc]


@pytest.mark.parametrize("words", [("serve", "--out", "r"), (*SITE, "--insecure")])
def test_a_dockerfile_has_the_form_of_one(
    capsys: pytest.CaptureFixture[str], home: Path, words: tuple[str, ...]
):
    read = instructions(told(capsys, *words, "--docker"))
    names = [name for name, _ in read]
    assert names[0] == "FROM"
    assert set(names) <= INSTRUCTIONS
    assert names.count("FROM") == names.count("ENTRYPOINT") == names.count("CMD") == 1
    for name, rest in read:
        if name in ("ENTRYPOINT", "CMD"):
            assert all(isinstance(word, str) for word in json.loads(rest))
        elif name == "ENV":
            assert re.fullmatch(r"[A-Z_]+=\S+", rest)


def test_a_compose_file_says_what_compose_knows(capsys: pytest.CaptureFixture[str]):
    yaml: Any = pytest.importorskip("yaml")
    read = yaml.safe_load(told(capsys, "serve", "--out", "r", "--compose"))
    assert set(read) == {"services"}
    assert set(read["services"]["serve"]) <= COMPOSE


def docker_has(*words: str) -> bool:
    """Whether Docker is here and knows a command; some need its daemon."""
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", *words], capture_output=True, timeout=60)
    return done.returncode == 0


@pytest.mark.skipif(
    not docker_has("compose", "version"),
    reason="checks compose files with 'docker compose', which is not installed",
)
@pytest.mark.parametrize("words", [("--out", "run1"), HARD])
def test_compose_finds_nothing_wrong(here: Path, words: tuple[str, ...]):
    folder = here / "100% of it"
    folder.mkdir()
    made = Service("serve", words, folder, port=9000, home=folder)
    (here / "compose.yaml").write_text(compose_file(made, "1:2"))
    command = ["docker", "compose", "-f", "compose.yaml", "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(
    not (docker_has("buildx", "version") and docker_has("info")),
    reason="checks Dockerfiles with 'docker build --check', which is not here",
)
def test_docker_finds_nothing_wrong(capsys: pytest.CaptureFixture[str], here: Path):
    (here / "Dockerfile").write_text(told(capsys, "serve", "--out", "r", "--docker"))
    command = ["docker", "build", "--check", "."]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_what_an_image_installs_fits_together():
    """As pip sees it: nothing is missing, and no two pins exclude each other."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index"]
    command += ["--disable-pip-version-check", *pinned()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Would install" not in done.stdout


def test_files_and_begun_runs_are_asked_for_the_port(
    capsys: pytest.CaptureFixture[str], here: Path
):
    Served(port=9003).write(here / "begun")
    assert "-p 9003:9003" in told(capsys, "serve", "--docker", "--out", "begun")
    (here / "c.toml").write_text('out = "run1"\nport = 9001\n')
    assert "-p 9001:9001" in told(capsys, "serve", "--docker", "--config", "c.toml")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("status",), "no service 'status': give serve or join"),
        (("serve",), "give --out DIR"),
        (("serve", "--prot", "9"), "No such option"),
        (("serve", "--config", "c.toml"), "did you mean 'port'?"),
        (("join",), "Missing"),
        (("serve", "--out", "r", "--docker", "--compose"), "one at a time"),
    ],
)
def test_what_the_command_would_refuse_is_refused(
    capsys: pytest.CaptureFixture[str], here: Path, words: tuple[str, ...], line: str
):
    (here / "c.toml").write_text("prot = 1\n")
    text = told(capsys, *words, code=2)
    assert line in text
    assert text.count("\n") == 1
    assert [path.name for path in here.iterdir()] == ["c.toml"]
