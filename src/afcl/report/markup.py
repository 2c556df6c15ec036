# SPDX-License-Identifier: Apache-2.0
"""Markup that cannot be forged: whatever is not :class:`Html` is escaped."""

from __future__ import annotations

import html
import json
import math
from typing import Any

#: Elements without a closing tag.
VOID = ("br", "input", "link", "meta")
#: What a name in a file may hold but a page must not: control characters.
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)])


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escape(value: object) -> Html:
    """Return a value as text that is safe between tags and inside quotes."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(str(value).translate(_CONTROLS)))


def tag(name: str, /, *inside: object, **attributes: object) -> Html:
    """Return an element; ``class_`` is class, ``data_tip`` is data-tip.

    Examples
    --------
    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    head = name + "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
    )
    if name in VOID:
        return Html(f"<{head}>")
    return Html(f"<{head}>{join(*inside)}</{name}>")


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    if isinstance(value, float):
        value = f"{value:.2f}".rstrip("0").rstrip(".")
    # An attribute is text, never markup: escaped whatever it claims to be.
    return f' {name}="{html.escape(str(value).translate(_CONTROLS))}"'


def join(*parts: object) -> Html:
    """Put parts one after the other, lists opened, None left out."""
    texts = [
        join(*part) if isinstance(part, list | tuple) else escape(part)
        for part in parts
        if part is not None
    ]
    return Html("".join(texts))


def section(mark: str, title: str, *inside: object) -> Html:
    """Return a part of the page under its title; `mark` is what links name."""
    return tag("section", tag("h2", title, id=mark), *inside, aria_labelledby=mark)


def note(text: str) -> Html:
    """Return a remark in small print."""
    return tag("p", text, class_="note")


def cards(class_: str, *parts: Html | None) -> Html:
    """Return pictures side by side, each on a card of its own; None left out."""
    shown = [tag("div", part, class_="card") for part in parts if part is not None]
    return tag("div", shown, class_=class_)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def data_island(name: str, value: Any) -> Html:
    """Return values for the page's script, as JSON that cannot end its element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Html(f'<script type="application/json" id="{name}">{text}</script>')


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits, as people write it.

    Examples
    --------
    >>> number(0.56403), number(1176.56), number(-2.0), number(0.01234), number(None)
    ('0.564', '1,177', '−2', '0.0123', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e7:
        text = f"{value:.{digits}g}"
    else:
        whole = 0 if size == 0 else math.floor(math.log10(size)) + 1
        text = f"{value:,.{max(0, digits - whole)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")


def count(amount: int, one: str, many: str = "") -> str:
    """Return ``1 site`` or ``1,200 sites``."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def size_of(n_bytes: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.3g} {unit}"
    return count(round(n_bytes), "byte")


def span_of(seconds: float) -> str:
    """Return a duration in the unit that suits it.

    Examples
    --------
    >>> span_of(0.2), span_of(42), span_of(725), span_of(7300)
    ('0.2 s', '42 s', '12 min', '2 h 1 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours // 24} days"
