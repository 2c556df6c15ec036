# SPDX-License-Identifier: Apache-2.0
"""Specs: the cells a text stands for, what its words mean, and paths as identities."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import PurePosixPath
from string import ascii_lowercase

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from afcl.exceptions import InputError
from afcl.runtime.schedule import Schedule
from afcl_bench.ablations import find_method
from afcl_bench.datasets import Dataset, dataset_names
from afcl_bench.report import BLOCKS
from afcl_bench.settings import owners, schedule
from afcl_bench.site_tables import SITES
from afcl_bench.spec import (
    DEFAULTS,
    Cell,
    Facts,
    Run,
    find_spec,
    parse_spec,
    spec_names,
)

GRID = '[[grid]]\ndatasets = ["SD1"]\nmethods = ["afcl"]\n'


def refusal(text: str, name: str = "mine") -> str:
    """The error's message, which must be one line."""
    with pytest.raises(InputError) as caught:
        parse_spec(name, text)
    message = str(caught.value)
    assert "\n" not in message
    return message


def cell(**changes) -> Cell:
    base = Cell("", "SD1", "afcl", (), "kmeans:5", "random", 0)
    return replace(base, **changes)


def facts() -> Facts:
    return Facts(n=2300, k=4)


def unasked() -> Facts:
    raise AssertionError("the data are loaded for words only")


# ------------------------------------------------------------------ what ships


def test_the_specs_that_ship():
    assert spec_names() == [
        "ablation",
        "asynchrony",
        "by-split",
        "convergence",
        "cost",
        "k-recovery",
        "learned-k",
        "paper-tables",
        "seeds",
        "settings",
        "significance",
        "sites",
        "time",
        "trajectories",
    ]


@pytest.mark.parametrize("name", spec_names())
def test_a_shipped_spec_can_be_run_and_reported(name):
    spec = find_spec(name)
    assert spec.name == name
    assert spec.title != name
    assert set(spec.blocks) <= set(BLOCKS)
    assert len(set(spec.cells)) == len(spec.cells) > 0
    for method in {cell.method for cell in spec.cells}:
        assert hasattr(find_method(method), "absorb")
    rows = np.random.default_rng(0).normal(size=(200, 2))
    classes = np.arange(200) % 3
    data = Dataset("rows", rows, classes, 3, ("a", "b"), owner=classes)
    for split in {cell.split for cell in spec.cells}:
        assert owners(split, data, 0).shape == (200,)
    for participation in {cell.participation for cell in spec.cells}:
        assert isinstance(schedule(participation, 5, 0), Schedule)


@pytest.mark.parametrize("name", spec_names())
def test_a_shipped_spec_names_data_that_exist(name):
    """A set by a fixed name, generated ones by their form, else one of the suite."""
    suite = {"s1", "s3", "a1", "r15", "hepta", "tetra", "twodiamonds", "x1", "mk1"}
    names = {cell.dataset for cell in find_spec(name).cells}
    fixed = {n for n in names if not n.startswith("gaussians:")}
    real = {f"sites:{n}" for n in SITES}
    mixed = {f"{n}:mixed" for n in real}
    assert fixed <= set(dataset_names()) | suite | real | mixed


@pytest.mark.parametrize("name", spec_names())
def test_a_shipped_spec_gives_every_method_options_it_knows(name):
    """A misspelt option would be 20 failed runs."""
    seen = set()
    for entry in find_spec(name).cells:
        run = entry.resolve(facts, learned=3)
        options = dict(run.options)
        options.pop("max_rounds", None)
        key = (run.method, tuple(sorted(options)))
        if key not in seen:
            seen.add(key)
            find_method(run.method).parameters(**options)


def test_runs_of_every_cell_differ():
    """Cells that are the same run share a path; those that are not do not."""
    for name in spec_names():
        runs = {entry.resolve(facts, learned=3) for entry in find_spec(name).cells}
        assert len({run.path for run in runs}) == len(runs)


def test_significance_is_made_of_the_same_runs_as_the_tables():
    assert find_spec("significance").cells == find_spec("paper-tables").cells


# ------------------------------------------------------------------ from text to cells


def test_a_grid_is_a_product_and_seeds_run_fastest():
    spec = parse_spec(
        "mine",
        'runs = 2\n[[grid]]\ndatasets = ["A", "B"]\nmethods = ["m", "n"]\n'
        'split = ["iid:2", "iid:3"]\nparticipation = "always"\n',
    )
    assert [(c.dataset, c.method, c.split, c.seed) for c in spec.cells] == [
        (dataset, method, split, seed)
        for dataset in "AB"
        for method in "mn"
        for split in ("iid:2", "iid:3")
        for seed in (0, 1)
    ]
    assert {c.participation for c in spec.cells} == {"always"}


def test_what_is_left_out_has_defaults():
    spec = parse_spec("mine", GRID)
    assert (spec.name, spec.title, spec.blocks) == ("mine", "mine", ("scores",))
    assert len(spec.cells) == DEFAULTS["runs"] == 20
    first = spec.cells[0]
    assert (first.split, first.participation) == ("kmeans:5", "random")
    assert (first.cap, first.trace, first.options) == (120.0, False, ())


def test_a_grid_overrules_the_spec_and_the_spec_the_defaults():
    spec = parse_spec(
        "mine",
        'title = "Mine"\nblocks = ["seeds", "capped"]\nruns = 3\ncap = 7\n'
        "trace = true\n"
        + GRID
        + 'group = "one"\n[[grid]]\ndatasets = "SD2"\nmethods = "dk++"\nruns = 1\n'
        "first = 5\ncap = 9.5\ntrace = false\n",
    )
    assert (spec.title, spec.blocks) == ("Mine", ("seeds", "capped"))
    assert [(c.group, c.dataset, c.seed, c.cap, c.trace) for c in spec.cells] == [
        ("one", "SD1", 0, 7.0, True),
        ("one", "SD1", 1, 7.0, True),
        ("one", "SD1", 2, 7.0, True),
        ("", "SD2", 5, 9.5, False),
    ]


def test_one_block_may_be_given_by_its_name():
    assert parse_spec("mine", 'blocks = "seeds"\n' + GRID).blocks == ("seeds",)


def test_lists_of_options_cross_in_the_order_of_their_names():
    spec = parse_spec(
        "mine", "runs = 1\n" + GRID + 'options = { b = [1, 2], a = ["x", "y"], c = 0 }'
    )
    assert [c.options for c in spec.cells] == [
        (("a", a), ("b", b), ("c", 0)) for a in "xy" for b in (1, 2)
    ]


def test_grids_that_overlap_give_every_cell_once():
    spec = parse_spec("mine", "runs = 2\n" + GRID + GRID + "runs = 3\ncap = 5\n")
    assert [c.seed for c in spec.cells] == [0, 1, 2]


def test_included_cells_come_first_with_their_own_settings(tmp_path):
    other = tmp_path / "other.toml"
    other.write_text("runs = 1\ncap = 3\n" + GRID)
    spec = parse_spec("mine", f'include = ["{other}"]\nruns = 2\n' + GRID)
    assert [(c.dataset, c.seed) for c in spec.cells] == [("SD1", 0), ("SD1", 1)]
    alone = parse_spec("mine", f'include = "{other}"\n')
    assert [c.cap for c in alone.cells] == [3.0]
    assert alone.blocks == ("scores",)


def test_a_spec_is_found_by_name_or_file(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(GRID, encoding="utf-8")
    own = find_spec(str(path))
    assert (own.name, own.text) == ("own", GRID)
    shipped = files("afcl_bench").joinpath("specs", "seeds.toml").read_text("utf-8")
    assert find_spec("seeds").text == shipped
    assert find_spec("seeds").title == tomllib.loads(shipped)["title"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("= broken", "mine is not TOML"),
        ("speed = 1\n" + GRID, "unknown keys speed"),
        ("dataset = 1\nb = 2\n" + GRID, "unknown keys b, dataset"),
        (GRID + 'dataset = "SD2"\n', "unknown keys dataset"),
        ("title = 'x'\n", "no [[grid]] and no include"),
        ("grid = []\n", "no [[grid]] and no include"),
        ("grid = 3\n", "no [[grid]] and no include"),
        ('[[grid]]\nmethods = ["afcl"]\n', "has no datasets"),
        ('[[grid]]\ndatasets = ["SD1"]\nmethods = []\n', "has no methods"),
        ('include = "nope"\n', "unknown spec 'nope'"),
        ('include = "nope.toml"\n', "no spec nope.toml"),
        ("grid = [1]\n", "mine"),
        (GRID + 'runs = "many"\n', "mine"),
        (GRID + 'cap = "long"\n', "mine"),
        (GRID + "options = 3\n", "mine"),
        (GRID + "options = { scale = [[0, 1]] }\n", "mine"),
    ],
)
def test_what_a_spec_says_wrong_is_said_in_one_line(text, said):
    assert said in refusal(text)


def test_a_spec_that_includes_itself_is_refused(tmp_path):
    path = tmp_path / "loop.toml"
    path.write_text(f'include = "{path}"\n')
    with pytest.raises(InputError, match="loop") as caught:
        find_spec(str(path))
    assert "\n" not in str(caught.value)


def test_unknown_specs_are_refused_with_what_there_is(tmp_path):
    with pytest.raises(InputError, match="unknown spec 'tables'.*paper-tables"):
        find_spec("tables")
    with pytest.raises(InputError, match="no spec .*none.toml"):
        find_spec(str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes(b'title = "caf\xe9"\n')
    with pytest.raises(InputError, match="latin"):
        find_spec(str(tmp_path / "latin.toml"))


# ------------------------------------------------------------------ choosing cells


@pytest.fixture(scope="module")
def mixed():
    return parse_spec(
        "mixed",
        'runs = 3\n[[grid]]\ndatasets = ["A", "B"]\nmethods = ["m", "n"]\n'
        '[[grid]]\ngroup = "late"\nfirst = 10\ndatasets = ["B"]\nmethods = ["o"]\n',
    )


def names(cells) -> set[tuple[str, str]]:
    return {(cell.dataset, cell.method) for cell in cells}


def test_no_choice_means_everything_first_seeds_first(mixed):
    chosen = mixed.select()
    assert sorted(map(hash, chosen)) == sorted(map(hash, mixed.cells))
    assert [c.seed for c in chosen] == [0] * 4 + [1] * 4 + [2] * 4 + [10, 11, 12]
    # Within a seed, the order of the spec.
    assert [c.dataset + c.method for c in chosen[:4]] == ["Am", "An", "Bm", "Bn"]


def test_data_sets_and_methods_are_chosen_apart(mixed):
    assert names(mixed.select(["B"])) == {("B", "m"), ("B", "n"), ("B", "o")}
    assert names(mixed.select(["m"])) == {("A", "m"), ("B", "m")}
    assert names(mixed.select(["A", "m"])) == {("A", "m")}
    assert names(mixed.select(["A", "m", "n"])) == {("A", "m"), ("A", "n")}
    assert mixed.select(["A", "o"]) == []


def test_so_many_runs_are_counted_from_each_cells_first_seed(mixed):
    assert [c.seed for c in mixed.select(runs=1)] == [0] * 4 + [10]
    assert [c.seed for c in mixed.select(["o"], runs=2)] == [10, 11]
    assert mixed.select(runs=99) == mixed.select()


def test_a_name_that_is_neither_is_refused(mixed):
    with pytest.raises(InputError) as caught:
        mixed.select(["A", "C", "afcl"])
    assert str(caught.value) == (
        "mixed has no C, afcl; it has the data sets A, B and the methods m, n, o"
    )


# ------------------------------------------------------------------ words


def test_true_is_the_number_of_classes():
    run = cell(options=(("n_clusters", "true"),)).resolve(facts)
    assert run.options == (("n_clusters", 4),)


def test_learned_is_what_the_learner_found_on_the_same_rows():
    told = cell(method="dk++", options=(("n_clusters", "learned"),), seed=3)
    assert told.learns == Run("SD1", "afcl", (), "kmeans:5", "random", 3)
    assert told.resolve(unasked, learned=6).options == (("n_clusters", 6),)
    assert cell().learns is None
    assert cell(options=(("n_clusters", "true"),)).learns is None


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_drawn_lies_between_k_and_2k_and_the_seed_alone_decides(seed, k):
    def drawn(**changes) -> int:
        asked = cell(options=(("n_seeds", "drawn"),), seed=seed, **changes)
        ((_, value),) = asked.resolve(lambda: Facts(100, k)).options
        assert type(value) is int
        return value

    value = drawn()
    assert k <= value <= 2 * k
    assert value == drawn(dataset="SE", method="afcl-paper", split="iid:3", group="g")


def test_drawn_takes_every_value():
    asked = [cell(options=(("n_seeds", "drawn"),), seed=seed) for seed in range(200)]
    assert {c.resolve(facts).options[0][1] for c in asked} == {4, 5, 6, 7, 8}


@pytest.mark.parametrize(
    ("word", "value"), [("n/64", 35), ("n/2", 1150), ("n/1000", 2), ("n/5000", 2)]
)
def test_a_share_of_the_rows(word, value):
    run = cell(options=(("n_seeds", word),)).resolve(facts)
    assert run.options == (("n_seeds", value),)


def test_other_values_stay_and_need_no_data():
    options = (("a", 3), ("b", 0.5), ("c", "silhouette"), ("d", True))
    assert cell(options=options).resolve(unasked).options == options


@pytest.mark.parametrize("word", ["n/x", "n/0", "n/"])
def test_a_share_that_cannot_be_read_is_said(word):
    with pytest.raises(InputError, match="n_seeds"):
        cell(options=(("n_seeds", word),)).resolve(facts)


def test_groups_caps_and_traces_are_no_part_of_a_run():
    assert cell(group="a", cap=1.0).resolve(facts) == cell(trace=True).resolve(facts)
    assert cell(cap=1.0) == cell(cap=2.0, trace=True)
    assert cell(group="a") != cell(group="b")


# ------------------------------------------------------------------ paths


def run(**changes) -> Run:
    return replace(Run("SD1", "afcl", (), "kmeans:5", "random", 0), **changes)


def test_a_path_can_be_read():
    assert run().path == PurePosixPath("SD1/afcl/as-is/kmeans~5/random/0.npz")
    told = run(
        dataset="gaussians:40000:2:8",
        method="any-k:dk++",
        options=(("max_clusters", 10), ("scale", 0.5)),
        seed=12,
    )
    assert told.path == PurePosixPath(
        "gaussians~40000~2~8/any-k~dk++/max_clusters=10,scale=0.5/kmeans~5/random/12.npz"
    )


def test_a_path_stays_below_the_folder_whatever_is_asked_for():
    path = run(
        dataset="../../etc", method="a/b", split="..", participation="trace:/x/y.jsonl"
    ).path
    assert len(path.parts) == 6
    assert not {"..", "."} & set(path.parts)
    assert not path.is_absolute()


characters = st.sampled_from(ascii_lowercase[:3] + "A.:~+-_=,/%@ \\é\n*?")
texts = st.text(characters, min_size=1, max_size=6)
values = st.one_of(
    st.integers(-3, 30),
    st.floats(0.1, 0.9),
    texts.map(lambda text: f"w{text}"),
)
options = st.dictionaries(texts, values, max_size=2).map(
    lambda found: tuple(sorted(found.items()))
)
runs = st.builds(Run, texts, texts, options, texts, texts, st.integers(0, 2))


@given(runs, runs)
@example(run(split="a:b"), run(split="a~b"))
@example(run(method="."), run(method=".."))
@example(run(options=(("a", "1,b=2"),)), run(options=(("a", 1), ("b", 2))))
@example(run(dataset="a", method="b/c"), run(dataset="a/b", method="c"))
@example(run(options=(("a", 1),)), run(options=(("a", 12),), seed=1))
@example(run(options=(("as-is", ""),)), run(options=()))
def test_a_path_is_a_runs_identity(one, other):
    assert (one == other) == (one.path == other.path)
    assert replace(one).path == one.path


@given(runs)
def test_a_path_is_made_of_six_plain_names(one):
    parts = one.path.parts
    assert len(parts) == 6
    assert parts[-1] == f"{one.seed}.npz"
    assert all(set(part) <= ALLOWED for part in parts)
    assert not {"", ".", ".."} & set(parts)


ALLOWED = set(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_~+=,@ %"
)


@given(runs)
def test_runs_of_one_kind_lie_in_one_folder(one):
    other = replace(one, seed=one.seed + 1)
    assert one.kind == other.kind
    assert one.path.parent == other.path.parent
    assert one.path != other.path
    assert replace(one, method=one.method + "x").kind != one.kind
