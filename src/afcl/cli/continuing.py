# SPDX-License-Identifier: Apache-2.0
"""A live run that is begun already: what it remembers, and what cannot be changed.

What a run *is* (its settings, how many sites it waits for, public bounds) is in its
plan and stays. Where and how it is *served* may change from start to start and is
remembered in `serve.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afcl.cli.settings import DEFAULTS, bounds, participation
from afcl.exceptions import InputError
from afcl.owner_only import write_whole
from afcl.runtime.live.engines import DEFAULT

if TYPE_CHECKING:
    from afcl.runtime.live.server import RunPlan

#: Where and how the run is served, in its folder.
SERVED = "serve.json"
#: Flags that are called otherwise than their settings; the first says the opposite.
_FLAGS = {"allow_one": "at-least-two", "units": "unit", "stays": "stay"}


@dataclass(frozen=True)
class Served:
    """Where and how a run is served.

    Attributes
    ----------
    host, port
        The address it listens on.
    tls, names
        The folder of its certificates ("": the run's own) and the names in them.
    insecure
        Whether it goes without.
    engine
        What carries its messages.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    tls: str = ""
    names: tuple[str, ...] = ()
    insecure: bool = False
    engine: str = DEFAULT

    def write(self, folder: Path) -> None:
        """Keep it in the run's folder."""
        text = json.dumps(asdict(self), indent=2) + "\n"
        write_whole(folder / SERVED, text.encode())

    @classmethod
    def read(cls, folder: Path) -> Served | None:
        """Return how the run in a folder was served last, None if nothing says so."""
        try:
            fields = json.loads((folder / SERVED).read_text(encoding="utf-8"))
            return cls(**{**fields, "names": tuple(fields["names"])})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{folder / SERVED} cannot be read ({error}): delete it, and give "
                "--host and --port anew"
            ) from error


def served_now(
    was: Served | None,
    host: str | None,
    port: int | None,
    tls: Path | None,
    names: Sequence[str],
    insecure: bool,
    engine: str | None,
) -> Served:
    """Return how the run is served from now on: as it was, but for what is said.

    A new run was not served before (None).
    """
    if insecure and was is not None and not was.insecure:
        raise InputError(
            "this run has TLS and cannot go on without: leave out --insecure, or begin "
            "another run with another --out"
        )
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "tls": None if tls is None else str(tls.resolve()),
        "names": tuple(names) or None,
        "engine": engine,
    }
    was = was or Served()
    now = replace(was, **{k: v for k, v in options.items() if v is not None})
    return replace(now, insecure=(insecure or was.insecure) and tls is None)


def refuse_changes(
    plan: RunPlan,
    options: Mapping[str, Any],
    ranges: Sequence[str],
    fixed: Mapping[str, int | None],
) -> None:
    """Refuse what cannot be changed in a run that is begun, by name.

    Parameters
    ----------
    plan : RunPlan
        The run.
    options : mapping
        Settings of a run that were typed or are in the file.
    ranges : sequence of str
        Public bounds that were typed.
    fixed : mapping
        Fields of the plan that were typed; None: not.
    """
    planned = {**DEFAULTS, **(plan.parameters or {})}
    for name, value in options.items():
        if name != "ranges" and not _same(name, value, planned[name]):
            raise _refused(name, planned[name])
    for name, number in fixed.items():
        if number is not None and number != getattr(plan, name):
            raise _refused(name, getattr(plan, name))
    wanted = bounds(ranges or options.get("ranges", ()))
    agreed = {name: (low, high) for name, (low, high) in (plan.ranges or {}).items()}
    if wanted is not None and wanted != agreed:
        texts = [f"{name}={low:g}:{high:g}" for name, (low, high) in agreed.items()]
        raise _refused("ranges", texts)


def _same(name: str, value: Any, planned: Any) -> bool:
    if name == "privacy":
        return _level(value) == _level(planned)
    if name == "participation":
        value, planned = participation(value), participation(planned)
    if isinstance(value, list | tuple) and isinstance(planned, list | tuple):
        return list(value) == list(planned)
    return bool(value == planned)


def _level(text: Any) -> str:
    """Return a level as it is written out, whatever a user has left out."""
    from afcl.privacy import parse_level

    try:
        return str(parse_level(text))
    except InputError:
        return str(text)


def _refused(name: str, planned: Any) -> InputError:
    planned = not planned if name == "allow_one" else planned
    return InputError(
        f"{flag_of(name)} is {shown(planned)} in this run and cannot be changed: leave "
        "it out, or begin another run with another --out"
    )


def flag_of(name: str) -> str:
    """Return the flag of a setting."""
    return f"--{_FLAGS.get(name, name.replace('_', '-'))}"


def shown(value: object) -> str:
    """Return a setting for people to read."""
    if value is None or value is False or value in ("", (), [], {}):
        return "not set"
    if value is True:
        return "set"
    if isinstance(value, Mapping):
        value = [f"{name}={each}" for name, each in value.items()]
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
