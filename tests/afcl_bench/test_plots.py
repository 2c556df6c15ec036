# SPDX-License-Identifier: Apache-2.0
"""Pictures: the right numbers in the right places, on given axes and on new ones."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl import AFCL, EventClock, Rounds
from afcl.exceptions import InputError
from afcl.trace import Attendance, Event, Trace, attendance, history_of
from afcl_bench import plots
from afcl_bench.plots.canvas import PAPER
from afcl_bench.significance import CriticalDifference

pytest.importorskip("matplotlib")

START = {"event": "run", "tick": 0, "schema": 1, "method": "afcl", "clients": ["a"]}


def prepare(number: int, seeds=None, objective: float | None = 0.5) -> Event:
    event = {"event": "prepare", "tick": number, "round": number, "k": 2}
    return {**event, "objective": objective, "movement": 0.0, "seeds": seeds}


def lines(ax) -> list[list[list[float]]]:
    return [np.asarray(line.get_xydata()).tolist() for line in ax.get_lines()]


def legend(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def new_axes():
    _, places = plots.panels()
    return places[0][0]


@pytest.fixture(scope="module")
def model() -> AFCL:
    rng = np.random.default_rng(0)
    spots = np.array([[0, 0], [0, 900], [9, 0]])
    tables = [rng.normal(spots[[g, g - 1]], 1, (40, 2, 2)) for g in range(3)]
    return AFCL(random_state=0, participation=0.6).fit_clients(
        [table.reshape(-1, 2) for table in tables]
    )


# ------------------------------------------------------------------ trajectories


def test_ways_starts_and_ends_by_hand():
    first, second, third = [[0, 0], [1, 1]], [[0, 0.5], [1, 1]], [[0.5, 0.5], [1, 0]]
    trace = [START, prepare(0, first), prepare(1, second), prepare(2, third)]
    ax = new_axes()
    assert plots.trajectories(trace, ax, centers=[[0.7, 0.2]], linewidth=3) is ax
    start, one, two, end, centers = lines(ax)
    assert start == first
    assert one == [[0, 0], [0, 0.5], [0.5, 0.5]]
    assert two == [[1, 1], [1, 1], [1, 0]]
    assert end == third
    assert centers == [[0.7, 0.2]]
    assert ax.get_lines()[1].get_linewidth() == 3
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x₁ (scaled)", "x₂ (scaled)")


def test_ways_end_where_seeds_merge():
    three, two = [[0, 0], [1, 1], [2, 2]], [[0, 0], [1.5, 1.5]]
    trace = [prepare(0, three), prepare(1, two), prepare(2, two)]
    ways = lines(plots.trajectories(trace, new_axes()))[1:-1]
    assert ways == [[[0, 0], [0, 0]], [[1.5, 1.5], [1.5, 1.5]]]


def test_a_result_gives_units_and_centres():
    result = {
        "scale": {"low": [10, 0], "span": [5, 2]},
        "columns": ["age", "dose"],
        "centers": [[12, 1]],
    }
    trace = [prepare(0, [[0, 0], [1, 1]])]
    ax = plots.trajectories(trace, result=result)
    start, end, centers = lines(ax)
    assert start == end == [[10, 0], [15, 2]]
    assert centers == [[12, 1]]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", "dose")
    ax = plots.trajectories(trace, result=result, centers=[[0.5, 0.5]])
    assert lines(ax)[-1] == [[12.5, 1]]


def test_one_feature_is_drawn_against_the_rounds():
    trace = [prepare(0, [[0], [1]]), prepare(3, [[0.5], [1]])]
    ax = plots.trajectories(trace, centers=[[0.2]])
    start, one, *_, centers = lines(ax)
    assert start == [[0, 0], [0, 1]]
    assert one == [[0, 0], [3, 0.5]]
    assert centers == [[3, 0.2]]
    assert ax.get_xlabel() == "round"


def test_more_features_are_seen_from_where_the_seeds_lie(seed):
    """Seeds that lie in a plane keep their (standardised) distances."""
    rng = np.random.default_rng(seed)
    flat = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 5))
    ax = plots.trajectories([prepare(0, flat.tolist())])
    drawn = np.array(lines(ax)[0])
    standard = flat / flat.std(axis=0)

    def gaps(points):
        return np.linalg.norm(points[:, None] - points[None], axis=2)

    np.testing.assert_allclose(gaps(drawn), gaps(standard), atol=1e-9)
    assert ax.get_xlabel() == "first principal axis"


@pytest.mark.parametrize("seeds", [None, []])
def test_a_trace_without_seeds_is_refused(seeds):
    with pytest.raises(InputError, match="holds no seeds") as caught:
        plots.trajectories([START, prepare(0, seeds)])
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ objective


def test_the_objective_of_one_run_and_of_several():
    trace = Trace()
    trace.events = [
        START,
        prepare(0, objective=0.2),
        prepare(1, objective=None),
        prepare(4, objective=0.3),
    ]
    ax = plots.objective(trace)
    assert lines(ax) == [[[0, 0.2], [4, 0.3]]]
    assert (ax.get_ylabel(), ax.get_legend()) == ("moment silhouette", None)
    other = [{**START, "method": "afcl-paper"}, prepare(0, objective=9.0)]
    ax = plots.objective({"ours": trace, "theirs": other}, new_axes())
    assert len(lines(ax)) == 2
    assert legend(ax) == ["ours", "theirs"]
    assert ax.get_ylabel() == "objective"  # the two are not the same thing
    assert plots.objective(other).get_ylabel() == "objective Z"


def test_a_trace_without_an_objective_is_refused():
    with pytest.raises(InputError, match="no objective in this trace"):
        plots.objective([START, prepare(0, objective=None)])


# ------------------------------------------------------------------ k-path

PATH = {
    "n_clusters": 3,
    "path": [
        {"k": 2, "scores": {"silhouette": 0.4, "db": None}},
        {"k": 3, "scores": {"silhouette": 0.6, "db": 0.7}},
        {"k": 4, "scores": {"silhouette": 0.5, "db": 0.9}},
    ],
}


def test_the_chosen_k_is_marked():
    ax = plots.k_path(PATH)
    path, upright, ring = lines(ax)
    assert path == [[2, 0.4], [3, 0.6], [4, 0.5]]
    assert {x for x, _ in upright} == {3}
    assert ring == [[3, 0.6]]
    assert [text.get_text() for text in ax.texts] == ["k' = 3 (0.6)"]
    undefined = lines(plots.k_path(PATH, index="db"))[0]
    assert undefined == [[3, 0.7], [4, 0.9]]


def test_a_chosen_k_without_the_index_is_marked_all_the_same():
    ax = plots.k_path({**PATH, "n_clusters": 2}, index="db")
    assert [text.get_text() for text in ax.texts] == ["k' = 2"]


def test_one_cluster_has_no_index():
    alone = {"n_clusters": 1, "path": [{"k": 1, "scores": {"silhouette": None}}]}
    ax = plots.k_path(alone)
    assert lines(ax) == []
    assert ax.texts[0].get_text() == "k' = 1: no index is defined"


def test_an_estimator_has_a_path_too(model):
    ax = plots.k_path(model)
    np.testing.assert_allclose(
        lines(ax)[0], np.column_stack([model.path_.k, model.path_.scores["silhouette"]])
    )
    assert lines(ax)[2][0][0] == model.n_clusters_


def test_an_unknown_index_and_no_path_are_refused():
    with pytest.raises(InputError, match="no index 'bci'; choose one of silhouette"):
        plots.k_path(PATH, index="bci")
    with pytest.raises(InputError, match="this run has no path"):
        plots.k_path({"n_clusters": 2, "path": []})


# ------------------------------------------------------------------ participation


def test_participation_draws_the_attendance_of_every_site():
    events = [
        {**START, "clients": ["a", "b"]},
        {"event": "hello", "tick": 0, "client": 0, "rows": 9, "bytes": 9},
        prepare(0),
        {"event": "left", "tick": 2, "client": 1},
    ]
    ax = plots.participation(events)
    drawn: Any = ax.collections[0].get_array()
    hello, gone = Attendance.HELLO, Attendance.GONE
    assert drawn.tolist() == [[hello, 0, 0], [0, 0, gone]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert legend(ax) == ["not asked", "gone", "said hello"]
    with pytest.raises(InputError, match="no site in this trace yet"):
        plots.participation([{**START, "clients": []}])


@pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning")
@given(
    st.integers(2, 6),
    st.floats(0.05, 1.0),
    st.dictionaries(st.integers(0, 1), st.integers(1, 6), max_size=1),
    st.booleans(),
)
def test_every_message_has_its_cell(n, probability, late, by_clock):
    schedule = (EventClock if by_clock else Rounds)(late=late)
    if not by_clock:
        schedule = Rounds(probability=probability, late=late)
    X = np.arange(n * 40, dtype=float).reshape(-1, 1) % 7
    model = AFCL(random_state=0, participation=schedule, max_rounds=12)
    trace = model.fit(X, clients=np.arange(len(X)) % n).trace_
    table = np.stack(list(attendance(history_of(trace)).values()))
    hellos = [event["client"] for event in trace.of("hello")]
    assert sorted(hellos) == np.nonzero(table == Attendance.HELLO)[0].tolist()
    answers = {event["client"] for event in trace.of("update")}
    later = np.isin(table, [Attendance.ANSWERED, Attendance.LATE])
    assert {int(site) for site in np.nonzero(later)[0]} <= answers


def test_many_sites_are_one_image_with_some_names():
    events = [{**START, "clients": [f"s{i}" for i in range(200)]}, prepare(30)]
    ax = plots.participation(events)
    assert ax.collections[0].get_rasterized()
    assert len(ax.get_yticks()) <= 30


# ------------------------------------------------------------------ tables


def test_ranks_are_drawn_in_the_size_that_is_asked_for():
    found = CriticalDifference(("a", "b"), (1.2, 1.8), 0.5, "a", 0.05)
    ax = new_axes()
    assert plots.critical_difference(found, ax, fontsize=5) is ax
    assert {text.get_fontsize() for text in ax.texts} == {5}
    assert "a 1.20 " in [text.get_text() for text in ax.texts]


@given(st.floats(0.2, 3), st.floats(1e-6, 10))
def test_the_exponent_of_a_power_is_its_exponent(power, factor):
    sizes = np.array([1e2, 1e3, 5e3, 1e4])
    assert plots.exponent(sizes, factor * sizes**power) == pytest.approx(power)


def test_growth_by_hand():
    rows = [
        {"method": "square", "size": size, "seconds": seconds}
        for size, seconds in [(10, 1.0), (100, 99.0), (100, 100.0), (100, 9e9)]
    ]
    rows += [{"method": "once", "size": 10, "seconds": 2.0}]
    rows += [{"method": "never", "size": 10, "seconds": s} for s in (None, math.nan)]
    ax = plots.time_growth(rows, label="rows (d = 2)")
    assert lines(ax) == [[[10, 1], [100, 100]], [[10, 2]]]
    assert legend(ax) == ["square (e = 2.00)", "once"]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    ax = plots.time_growth(rows, methods=["once", "other"])
    assert lines(ax) == [[[10, 2]]]
    assert plots.time_growth([]).get_legend() is None


def test_quality_against_epsilon_by_hand():
    rows: list[dict[str, Any]] = [
        {"dataset": "IR", "epsilon": 4, "score": 0.5, "k_share": 1.0},
        {"dataset": "IR", "epsilon": 1, "score": 0.2, "k_share": 0.5},
        {"dataset": "IR", "epsilon": 1, "score": 0.4, "k_share": 0.0},
        {"dataset": "IR", "epsilon": None, "score": 0.6, "k_share": 1.0},
        {"dataset": "SE", "epsilon": math.inf, "score": 0.7, "k_share": 1.0},
    ]
    ax = plots.quality_epsilon(rows)
    np.testing.assert_allclose(lines(ax)[0], [[1, 0.3], [4, 0.5], [8, 0.6]])
    assert lines(ax)[1] == [[8, 0.7]]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "4", "∞"]
    shares: Any = lines(plots.quality_epsilon(rows, value="k_share"))[0]
    np.testing.assert_allclose(shares, [[1.0, 0.25], [4.0, 1.0], [8.0, 1.0]])
    assert plots.quality_epsilon(rows, label="SC").get_ylabel() == "SC"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no rows to draw"),
        ([{"dataset": "IR", "epsilon": 0, "score": 1}], "must be above 0, not 0"),
        ([{"dataset": "IR", "epsilon": 1}], "have no 'score'"),
    ],
)
def test_rows_without_quality_are_refused(rows, message):
    with pytest.raises(InputError, match=message):
        plots.quality_epsilon(rows)


# ------------------------------------------------------------------ files


def test_new_figures_have_sizes_for_print(model):
    for draw in (plots.objective, plots.participation, plots.trajectories):
        ax: Any = draw(model.trace_)
        assert ax.figure.get_size_inches()[0] == 3.5
        assert ax.xaxis.label.get_size() == PAPER["axes.labelsize"]
        assert ax.get_xticklabels()[0].get_size() == PAPER["xtick.labelsize"]


def test_pictures_are_written_the_same_twice_and_text_stays_text(model, tmp_path):
    written = []
    for folder in ("one", "two"):
        for kind in plots.FORMATS:
            ax = plots.k_path(model)
            path = plots.save(ax, tmp_path / folder / f"path.{kind}")
            written.append(path.read_bytes())
    assert written[:3] == written[3:]
    png, svg, pdf = written[:3]
    assert png.startswith(b"\x89PNG")
    assert pdf.startswith(b"%PDF")
    assert b">number of clusters k</text>" in svg


def test_what_cannot_be_written_is_said_in_a_line(tmp_path):
    ax = new_axes()
    with pytest.raises(InputError, match=r"end it in \.png, \.svg or \.pdf"):
        plots.save(ax, tmp_path / "picture.gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*choose another place"):
        plots.save(ax, tmp_path / "file" / "picture.png")


def loaded_by(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_loads_neither_matplotlib_nor_the_algorithm():
    absent = {"matplotlib", "afcl.core", "afcl.runtime", "afcl.methods", "sklearn"}
    assert not absent & loaded_by("import afcl_bench.plots")


def test_drawing_opens_no_window():
    trace = [START, prepare(0)]
    loaded = loaded_by(f"from afcl_bench.plots import objective; objective({trace})")
    assert "matplotlib.figure" in loaded
    assert "matplotlib.pyplot" not in loaded


def test_all_is_sorted_and_there():
    assert plots.__all__ == sorted(plots.__all__)
    assert all(hasattr(plots, name) for name in plots.__all__)
