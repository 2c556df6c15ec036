# SPDX-License-Identifier: Apache-2.0
"""What keeps ``afcl serve`` or ``afcl join`` running: a unit, an image, a compose file.

Pure functions of text; versions are those that are installed, nothing is contacted.
"""

from __future__ import annotations

import json
import platform
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

#: What the engine needs, and what is taken along if it is installed here.
NEEDED = ("flower",)
TAKEN_ALONG = ("stream", "excel", "he")
#: Where a container has the folder it is started in.
INSIDE = "/srv/afcl"
#: Seconds for everything to end when it is asked to.
STOP = 90
#: Variables that say how the coordinator is reached.
PROXIES = ("HTTPS_PROXY", "NO_PROXY")

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True)
class Service:
    """What is to be kept running.

    Attributes
    ----------
    side
        ``serve`` or ``join``.
    words
        What is typed after it.
    folder
        Where it is started: relative paths are meant from there.
    port
        The port that a coordinator listens on; None at a site.
    home
        The site's home; None at a coordinator.
    """

    side: str
    words: tuple[str, ...]
    folder: Path
    port: int | None = None
    home: Path | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What it has to be told besides."""
        return {} if self.home is None else {"AFCL_HOME": str(self.home)}

    @property
    def words_inside(self) -> tuple[str, ...]:
        """What is typed in a container, which must listen on all of its addresses."""
        listen = ("--host", "0.0.0.0") if self.port is not None else ()
        return (self.side, *self.words, *listen)


def systemd_unit(service: Service, command: Sequence[str], user: str) -> str:
    """Return a unit of systemd.

    Parameters
    ----------
    service : Service
        What it runs.
    command : sequence of str
        How ``afcl`` is called.
    user : str
        Whom it runs as; "" leaves that open.
    """
    words = [*command, service.side, *service.words]
    lines = [
        "[Unit]",
        f"Description=afcl {service.side} in {_percent(str(service.folder))}",
        "Wants=network-online.target",
        "After=network-online.target",
        "# However often it is started: it may have to wait long for its disk.",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        *([f"User={user}"] if user else []),
        f"WorkingDirectory={_percent(str(service.folder))}",
        *(
            f"Environment={_word(f'{name}={value}')}"
            for name, value in service.environment.items()
        ),
        *(f"# Environment={name}=..." for name in PROXIES),
        f"ExecStart={' '.join(map(_word, words))}",
        "# 0: done. 2: refused, which another start would not change.",
        "Restart=on-failure",
        "RestartSec=10",
        "RestartPreventExitStatus=2",
        "SuccessExitStatus=130 143",
        f"TimeoutStopSec={STOP}",
        "UMask=0077",
        "NoNewPrivileges=yes",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def dockerfile(service: Service) -> str:
    """Return a Dockerfile with the versions that are installed here."""
    from afcl import __version__

    own, *others = pinned()
    extras, wheel = own[5 : own.index("]")], f"afcl-{__version__}-py3-none-any.whl"
    pins = [shlex.quote(pin) for pin in (own, *others)]
    port = service.port
    publish = "" if port is None else f" -p {port}:{port}"
    home = "" if service.home is None else f"ENV AFCL_HOME={INSIDE}/home\n"
    return (
        f"# docker build -t {_image()} .\n"
        f'# docker run --init --user "$(id -u):$(id -g)" -v "$PWD:{INSIDE}"{publish} '
        f"{_image()}\n"
        "# Paths are relative to the folder that is mounted.\n"
        f"FROM python:{platform.python_version()}-slim\n"
        "# Where afcl is on no index, put its wheel beside this file, and write\n"
        "# instead of the next two lines:\n"
        f"# COPY {wheel} /tmp/\n"
        f"# RUN pip install --no-cache-dir '/tmp/{wheel}[{extras}]' \\\n"
        "RUN pip install --no-cache-dir \\\n    " + " \\\n    ".join(pins) + "\n"
        f"{home}WORKDIR {INSIDE}\n"
        'ENTRYPOINT ["afcl"]\n'
        f"CMD {json.dumps(service.words_inside)}\n"
    )


def compose_file(service: Service, user: str) -> str:
    """Return a compose file for the image of :func:`dockerfile`.

    The folder has the same name inside as outside, so that absolute paths in it hold.

    Parameters
    ----------
    service : Service
        What it runs.
    user : str
        Numbers of the user and the group that own the folder, such as ``1000:1000``.
    """
    mounted = [service.folder]
    if service.home is not None and not service.home.is_relative_to(service.folder):
        mounted.append(service.home)
    settings = [f"{name}={value}" for name, value in service.environment.items()]
    lines = [
        "services:",
        f"  {service.side}:",
        "    build: .",
        f"    image: {_text(_image())}",
        f"    command: {_texts(service.words_inside)}",
        f"    user: {_text(user)}",
        f"    working_dir: {_text(str(service.folder))}",
        f"    volumes: {_texts(f'{path}:{path}' for path in mounted)}",
        f"    environment: {_texts([*settings, *PROXIES])}",
    ]
    if service.port is not None:
        lines.append(f"    ports: {_texts([f'{service.port}:{service.port}'])}")
    lines += [
        "    init: true",
        "    # Compose cannot tell 2 (refused: another start would not change it) from",
        "    # 3 (a disk was full, say): so often it is tried, then somebody looks.",
        '    restart: "on-failure:5"',
        f"    stop_grace_period: {STOP}s",
    ]
    return "\n".join(lines) + "\n"


def pinned() -> list[str]:
    """Return what is to be installed: afcl, and all it needs as it is installed."""
    from afcl import __version__

    extras = [*NEEDED, *(extra for extra in TAKEN_ALONG if _is_installed(extra))]
    found: dict[str, str] = {}
    _add_needs("afcl", tuple(extras), found, set())
    found.pop("afcl", None)
    own = f"afcl[{','.join(extras)}]=={__version__}"
    return [own, *(f"{name}=={found[name]}" for name in sorted(found))]


def _add_needs(
    name: str,
    extras: tuple[str, ...],
    found: dict[str, str],
    seen: set[tuple[str, tuple[str, ...]]],
) -> None:
    """Add a package and what it needs, as far as that is installed."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if (key, extras) in seen:
        return
    seen.add((key, extras))
    try:
        found[key], needs = version(name), requires(name) or []
    except PackageNotFoundError:  # for another system, or not installed by name
        return
    for text in needs:
        extra = _EXTRA.search(text)
        if extra is not None and extra[1] not in extras:
            continue
        need = _REQUIREMENT.match(text)
        assert need is not None
        more = (each.strip() for each in (need[2] or "").split(","))
        _add_needs(need[1], tuple(filter(None, more)), found, seen)


def _is_installed(extra: str) -> bool:
    """Whether everything that an extra of ours asks for is installed."""
    try:
        texts = requires("afcl") or []
    except PackageNotFoundError:
        return False
    names = []
    for text in texts:
        of, need = _EXTRA.search(text), _REQUIREMENT.match(text)
        if of is not None and of[1] == extra and need is not None:
            names.append(need[1])
    try:
        return bool(names) and all(map(version, names))
    except PackageNotFoundError:
        return False


def _image() -> str:
    from afcl import __version__

    return f"afcl:{re.sub('[^A-Za-z0-9_.-]', '-', __version__)}"


def _percent(text: str) -> str:
    """Return a text in which systemd finds nothing to replace."""
    return text.replace("%", "%%")


def _word(text: str) -> str:
    """Return one word of a command line of systemd, whatever is in it."""
    text = _percent(text).replace("$", "$$")
    if re.fullmatch(r"[A-Za-z0-9_@%+=:,./$-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _text(text: str) -> str:
    """Return a YAML text in which compose finds nothing to replace."""
    return json.dumps(text.replace("$", "$$"), ensure_ascii=False)


def _texts(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"
