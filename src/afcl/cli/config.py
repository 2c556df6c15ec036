# SPDX-License-Identifier: Apache-2.0
"""``--config FILE`` of ``afcl serve`` and ``afcl join``: what their flags can say.

The file's values take the place of the flags' defaults, so that a flag that is typed
wins, and everything is checked as if it had been typed.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from afcl.cli.tables import LISTS, quoted
from afcl.exceptions import InputError

#: What a file may not say: it is the file, or no setting.
_NEVER = ("config", "help")
_NUMBERS = {"integer": (int,), "integer range": (int,)} | dict.fromkeys(
    ("float", "float range"), (int, float)
)


def read_toml(config: Path) -> dict[str, Any]:
    """Return what a TOML file says, or say in one line why it cannot be read."""
    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {config}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{config} is not TOML: {error}") from error


def unknown_key(config: Path, key: str, known: Iterable[str]) -> InputError:
    """Return the error about a key that means nothing, with the nearest that does."""
    names = sorted(known)
    near = difflib.get_close_matches(key.replace("_", "-").lower(), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
    return InputError(f"{config}: unknown key {key!r}; {hint}")


def fill_in(
    context: typer.Context, config: Path | None, elsewhere: Iterable[str] = ()
) -> Path | None:
    """Give the command's flags the values of a file, where none is typed.

    Parameters
    ----------
    context : typer.Context
        Of the command that is about to be called.
    config : Path or None
        The file. Paths in it are relative to the folder it is in.
    elsewhere : iterable of str
        Keys that are read somewhere else.

    Returns
    -------
    Path or None
        The file, as it was given.
    """
    if config is None:
        return None
    others = {name.replace("_", "-") for name in elsewhere}
    flags = {
        _key_of(parameter): parameter
        for parameter in context.command.params
        if parameter.name not in _NEVER
    }
    values = dict(context.default_map or {})
    for key, value in read_toml(config).items():
        name = key.replace("_", "-")
        if name in others:
            continue
        if name not in flags:
            raise unknown_key(config, key, {*flags, *others})
        flag = flags[name]
        values[str(flag.name)] = _value(config, key, flag, value)
    context.default_map = values
    return config


def _from_file(context: typer.Context, config: Path | None) -> Path | None:
    return fill_in(context, config)


#: The option of a command whose file says what its flags can, and nothing else.
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with these options.",
        metavar="FILE",
        callback=_from_file,
        is_eager=True,
    ),
]


def _key_of(parameter: Any) -> str:
    """Return what a file calls a flag: as it is typed, without the dashes."""
    typed = max(parameter.opts, key=len, default=parameter.name)
    return str(typed).lstrip("-").replace("_", "-")


def _value(config: Path, key: str, flag: Any, value: Any) -> Any:
    """Return a value as the flag would be typed, or refuse it."""
    kind = flag.type.name
    if getattr(flag, "multiple", False):
        fits = isinstance(value, list) and all(isinstance(v, str) for v in value)
        _require(fits, config, key, "a list of texts", value)
        return [quoted(each) if flag.name in LISTS else each for each in value]
    if kind == "boolean":
        _require(isinstance(value, bool), config, key, "true or false", value)
        return value
    if kind in _NUMBERS:
        fits = type(value) in _NUMBERS[kind]
        wanted = "a number" if float in _NUMBERS[kind] else "a whole number"
        _require(fits, config, key, wanted, value)
        return value
    _require(isinstance(value, str), config, key, "a text", value)
    return str(config.parent / value) if kind == "path" else value


def _require(fits: bool, config: Path, key: str, wanted: str, value: Any) -> None:
    if not fits:
        raise InputError(f"{config}: {key} must be {wanted}, not {value!r}")
