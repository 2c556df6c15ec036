# SPDX-License-Identifier: Apache-2.0
"""Tables of a page: they scroll by themselves, and the keyboard reaches them."""

from __future__ import annotations

from collections.abc import Sequence

from afcl.report.markup import Html, tag

#: Rows beyond which a table of marks gets a height of its own and scrolls.
TALL = 16


def scroll_table(
    head: Sequence[object],
    rows: Sequence[object],
    label: str,
    class_: str | None = None,
) -> Html:
    """Return a table in a region that scrolls.

    Parameters
    ----------
    head, rows
        Cells of the header, and whole rows.
    label
        What a screen reader calls the region.
    class_
        Of a table whose cells are marks, which the arrow keys go through.
    """
    is_marked = class_ is not None
    return tag(
        "div",
        tag(
            "table",
            tag("thead", tag("tr", list(head))),
            tag("tbody", list(rows), data_marks=is_marked),
            class_=class_,
        ),
        class_="scroll tall" if is_marked and len(rows) > TALL else "scroll",
        tabindex=0,
        role="region",
        aria_label=label,
    )


def folded_table(
    header: Sequence[object],
    rows: Sequence[Sequence[object]],
    name: str = "The numbers",
) -> Html:
    """Return the numbers behind a picture, folded away."""
    head = [tag("th", title, scope="col") for title in header]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            [tag("td", value) for value in row[1:]],
        )
        for row in rows
    ]
    return tag("details", tag("summary", name), scroll_table(head, body, "table"))
