# SPDX-License-Identifier: Apache-2.0
"""What pictures share: colours, sizes fit for print, where to draw, how to write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afcl.exceptions import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colour-blind-safe (Okabe and Ito), and a marker for each, so that print will do.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^v<>PX*hdp"

#: Sizes of a picture that fills one column of a paper, in points.
PAPER: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
}
#: Width of a column and a fitting height, in inches.
COLUMN = (3.5, 2.6)

FORMATS = ("png", "svg", "pdf")
#: Text stays text, and nothing random or dated gets into a file: the same picture is
#: the same bytes.
_WRITING = {"svg.fonttype": "none", "pdf.fonttype": 42}
_METADATA = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def panels(
    columns: int = 1, rows: int = 1, width: float = 4.2, height: float = 3.2
) -> Any:
    """Return a new figure that belongs to no window, and its axes.

    Parameters
    ----------
    columns, rows : int
        How many axes there are.
    width, height : float
        Size of each, in inches.

    Returns
    -------
    (matplotlib.figure.Figure, ndarray of Axes of shape (rows, columns))
    """
    size = (width * columns, height * rows)
    figures = import_module("matplotlib.figure")
    figure = figures.Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


@contextmanager
def drawn_on(ax: Axes | None, size: tuple[float, float] = COLUMN) -> Iterator[Axes]:
    """Yield the axes that were given, or those of a new figure with sizes for print."""
    if ax is not None:
        yield ax
        return
    with import_module("matplotlib").rc_context(PAPER):
        _, places = panels(1, 1, *size)
        # Ticks are made when they are first needed, and would ask again by then.
        for axis in ("x", "y"):
            places[0][0].tick_params(
                axis=axis, labelsize=PAPER[f"{axis}tick.labelsize"]
            )
        yield places[0][0]


def line_style(place: int) -> dict[str, Any]:
    """Return colour, marker and width of the line in this place; the first stands out.

    Lines beyond the last colour are dashed.

    Examples
    --------
    >>> line_style(0)["color"], line_style(1)["marker"]
    ('#0072B2', 's')
    """
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": 4,
        "linewidth": 2.2 if place == 0 else 1.2,
        "linestyle": "-" if place < len(COLOURS) else "--",
    }


def whole_numbers(axis: Any) -> None:
    """Put ticks on whole numbers only."""
    axis.set_major_locator(import_module("matplotlib.ticker").MaxNLocator(integer=True))


def legend_above(ax: Any, handles: Any = None, columns: int = 3) -> None:
    """Explain colours and signs above the axes, where nothing is covered."""
    where = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": columns}
    ax.legend(
        handles=handles or ax.get_legend_handles_labels()[0],
        frameon=False,
        handlelength=1.2,
        columnspacing=1.2,
        **where,
    )


def shared_legend(figure: Any, places: Any, size: float) -> None:
    """Name everything once beside the figure, also what the first axes lack."""
    known: dict[str, Any] = {}
    for ax in places.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            known.setdefault(label, handle)
    if known:
        figure.legend(
            list(known.values()), list(known), loc="outside right", fontsize=size
        )


def save(drawn: Axes | Figure, path: Path | str, dpi: int = 300) -> Path:
    """Write a picture; the name's ending says how: png, svg or pdf.

    Text stays text in SVG and PDF, and the same picture is the same bytes.

    Parameters
    ----------
    drawn : matplotlib.axes.Axes or matplotlib.figure.Figure
        What a function of this package returned.
    path : Path or str
        Where to; folders on the way are made.
    dpi : int
        Dots per inch of a PNG.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        If the ending is another one, or the file cannot be written.
    """
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise InputError(
            f"{path.name} is no picture afcl can write: end it in "
            f".{', .'.join(FORMATS[:-1])} or .{FORMATS[-1]}"
        )
    figure: Any = drawn if hasattr(drawn, "savefig") else drawn.figure
    settings = {**_WRITING, "svg.hashsalt": path.stem}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with import_module("matplotlib").rc_context(settings):
            figure.savefig(path, dpi=dpi, metadata=_METADATA[kind])
    except OSError as error:
        raise InputError(
            f"cannot write {path} ({error.strerror}): choose another place"
        ) from error
    return path
