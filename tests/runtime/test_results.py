# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import afcl
from afcl.core.protocol import Clustering, Merge
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.runtime import results
from afcl.runtime.schedule import Schedule
from afcl.runtime.simulate import simulate
from afcl.runtime.spec import Spec

NAMES = ("north", "east", "south", "west", "middle")
COLUMNS = ("height", "weight")
SPOTS = np.array([[0.0, 100.0], [10.0, 100.0], [0.0, 200.0]])


def outcome_of(tables, schedule=None, **options):
    spec = Spec(get_method("afcl"), options, names=NAMES, max_rounds=5)
    return simulate(spec, tables, schedule)


def blobs():
    rng = np.random.default_rng(0)
    return [
        np.concatenate(
            [
                rng.normal(spot, [0.3, 3.0], (size, 2))
                for spot, size in zip(SPOTS, (12, 10, 8), strict=True)
            ]
        )
        for _ in NAMES
    ]


@pytest.fixture(scope="module")
def outcome():
    return outcome_of(blobs(), Schedule(late={4: 50}))


@pytest.fixture
def result(outcome):
    return results.describe_simulated(
        outcome, NAMES, COLUMNS, {"seed": 0, "preset": "default"}
    )


def labels_of(outcome):
    return dict(zip(NAMES, outcome.labels, strict=True))


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def strict(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


# ------------------------------------------------------------------ the content


def test_a_result_has_the_promised_keys(result):
    assert {
        "n_clusters",
        "centers",
        "columns",
        "sizes",
        "scores",
        "path",
        "sites",
        "parameters",
        "versions",
    } <= set(result)
    assert all(set(level) == {"k", "scores"} for level in result["path"])
    told = {"name", "rows", "messages", "bytes", "rejected", "sizes"}
    assert all(set(site) == told for site in result["sites"])


def test_a_result_says_what_was_found(result, outcome):
    assert result["n_clusters"] == 3
    assert result["columns"] == ["height", "weight"]
    assert result["sizes"] == [60, 50, 40]
    assert all(type(size) is int for size in result["sizes"])
    assert result["parameters"] == {"seed": 0, "preset": "default"}
    assert result["scores"] == outcome.clustering.scores
    assert {"silhouette", "simplified", "ch", "db", "bic", "free_bic"} == set(
        result["scores"]
    )
    assert [level["k"] for level in result["path"]][:2] == [2, 3]
    assert result["rounds"] == outcome.finished.rounds


def test_centres_are_in_the_units_of_the_data(result):
    assert np.allclose(result["centers"], SPOTS, atol=[0.5, 5.0])


def test_sites_are_told_with_rows_messages_and_bytes(result, outcome):
    tallies = outcome.finished.tallies

    assert [site["name"] for site in result["sites"]] == list(NAMES)
    assert [site["rows"] for site in result["sites"]] == [30] * 5
    for client in range(4):
        site = result["sites"][client]
        assert site["messages"] == tallies[client].messages > 0
        assert site["bytes"] == tallies[client].bytes > 0
    # the last one never came
    assert (result["sites"][4]["messages"], result["sites"][4]["bytes"]) == (0, 0)


def test_sites_are_told_with_their_rows_in_every_cluster(result, outcome):
    for client, site in enumerate(result["sites"]):
        sizes = [int((outcome.labels[client] == c).sum()) for c in range(3)]
        assert site["sizes"] == sizes
        assert sum(sizes) == site["rows"]
    assert np.sum([s["sizes"] for s in result["sites"]], axis=0).tolist() == [
        60,
        50,
        40,
    ]


def test_the_tree_tells_sizes_where_it_knows_them():
    # Leaves 0 to 3: 0 and 1 join (their sizes stay unknown), then 2 joins them,
    # 3 joins all: 3 has 40 - 30 = 10 rows, 2 has 30 - 20 = 10.
    merges = (Merge(0, 1, 1 / 3, 20.0), Merge(4, 2, 4.0, 30.0), Merge(3, 5, 9.0, 40.0))
    clustering = Clustering(None, np.array([40.0]), {}, merges=merges)

    assert results.tree_of(clustering) == {
        "sizes": [None, None, 10, 10],
        "merges": [[0, 1, 0.333333, 20], [4, 2, 4.0, 30], [3, 5, 9.0, 40]],
    }
    assert results.tree_of(Clustering(None, np.array([40.0]), {})) is None


def test_the_tree_of_a_run_joins_all_rows(result):
    tree = result["tree"]
    leaves = len(tree["sizes"])

    assert len(tree["merges"]) == leaves - 1
    # The one that never came is in no merge.
    assert tree["merges"][-1][3] == 120
    joined = sorted(node for merge in tree["merges"] for node in merge[:2])
    assert joined == list(range(2 * leaves - 2))


def test_versions_name_what_computed(result):
    versions = result["versions"]

    assert versions["afcl"] == afcl.__version__
    assert versions["numpy"] == np.__version__
    assert {"python", "numba", "scikit-learn", "polars"} <= set(versions)


def test_the_scale_survives(result, outcome):
    box = results.box_of(json.loads(json.dumps(result)))
    agreed = outcome.finished.terms.box

    assert np.array_equal(box.low, agreed.low)
    assert np.array_equal(box.span, agreed.span)
    assert np.array_equal(box.scale(SPOTS), agreed.scale(SPOTS))


@pytest.mark.parametrize(
    "tables",
    [
        blobs(),
        [np.full((6, 2), 3.0) for _ in NAMES],
        [np.repeat(SPOTS, 5, axis=0) for _ in NAMES],
        [np.repeat(SPOTS[:2], 5, axis=0) for _ in NAMES],
        [np.column_stack([table[:, 0], np.ones(30)]) for table in blobs()],
    ],
    ids=["blobs", "one point", "three points", "two points", "constant column"],
)
def test_results_are_strict_json(tables, tmp_path):
    found = outcome_of(tables)
    result = results.describe_simulated(found, NAMES, COLUMNS, {"seed": None})

    results.write_result(tmp_path, result, labels_of(found))

    assert strict((tmp_path / "result.json").read_text()) == result
    assert results.read_result(tmp_path) == result
    assert len(rows(tmp_path / "path.csv")) == 1 + len(result["path"])


def test_no_score_is_null_and_blank(tmp_path):
    found = outcome_of([np.full((6, 2), 3.0) for _ in NAMES])
    result = results.describe_simulated(found, NAMES, COLUMNS, {})
    results.write_result(tmp_path, result, labels_of(found))

    assert result["n_clusters"] == 1
    assert set(result["scores"].values()) == {None}
    assert rows(tmp_path / "path.csv") == [
        ["k", "silhouette", "simplified", "ch", "db", "bic", "free_bic"],
        ["1", "", "", "", "", "", ""],
    ]


# ------------------------------------------------------------------ the files


def test_every_file_is_written(tmp_path, result, outcome):
    folder = tmp_path / "new" / "folder"

    results.write_result(folder, result, labels_of(outcome))

    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert names == {
        "result.json",
        "centers.csv",
        "path.csv",
        "labels",
        *(f"labels/{name}.csv" for name in NAMES),
    }
    assert results.read_result(folder) == result


def test_labels_are_written_in_order(tmp_path, result, outcome):
    results.write_result(tmp_path, result, labels_of(outcome))

    for name, labels in labels_of(outcome).items():
        written = rows(tmp_path / "labels" / f"{name}.csv")
        assert written[0] == ["cluster"]
        assert [int(row[0]) for row in written[1:]] == labels.tolist()


def test_centres_are_written_with_their_sizes(tmp_path, result, outcome):
    results.write_result(tmp_path, result, labels_of(outcome))
    written = rows(tmp_path / "centers.csv")

    assert written[0] == ["cluster", "rows", "height", "weight"]
    assert [[int(row[0]), int(row[1])] for row in written[1:]] == [
        [0, 60],
        [1, 50],
        [2, 40],
    ]
    assert [[float(x) for x in row[2:]] for row in written[1:]] == result["centers"]


def test_the_path_is_written_with_its_scores(tmp_path, result, outcome):
    results.write_result(tmp_path, result, labels_of(outcome))
    head, *written = rows(tmp_path / "path.csv")

    assert head[0] == "k"
    for row, level in zip(written, result["path"], strict=True):
        assert int(row[0]) == level["k"]
        scores = dict(zip(head[1:], map(float, row[1:]), strict=True))
        assert scores == level["scores"]


def test_no_centres_and_no_path_are_no_trouble(tmp_path, result):
    results.write_result(tmp_path, {**result, "centers": None, "path": []}, {})

    assert not (tmp_path / "centers.csv").exists()
    assert rows(tmp_path / "path.csv") == [["k"]]


def test_columns_may_have_any_name(tmp_path, result):
    columns = ["Größe, cm", 'a "quoted"\nname']

    results.write_result(tmp_path, {**result, "columns": columns}, {})

    assert rows(tmp_path / "centers.csv")[0][2:] == columns
    assert results.read_result(tmp_path)["columns"] == columns


def test_the_journal_goes_when_the_result_is_there(tmp_path, result):
    (tmp_path / "journal.bin").write_bytes(b"journal")

    results.write_result(tmp_path, result, {})

    assert not (tmp_path / "journal.bin").exists()


def test_the_result_comes_last(tmp_path, result, outcome, monkeypatch):
    order = []
    write = results.write_text

    def noting(path, text, *how):
        order.append(path.name)
        write(path, text, *how)

    monkeypatch.setattr(results, "write_text", noting)
    results.write_result(tmp_path, result, labels_of(outcome))

    assert order[-1] == "result.json"


def test_a_number_that_is_none_leaves_no_result(tmp_path, result):
    (tmp_path / "journal.bin").write_bytes(b"journal")

    with pytest.raises(ValueError, match="JSON compliant"):
        results.write_result(tmp_path, {**result, "rounds": float("nan")}, {})

    assert not (tmp_path / "result.json").exists()
    assert (tmp_path / "journal.bin").exists()


# ------------------------------------------------------------------ whole or not at all


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "deep" / "file.txt"

    results.write_text(path, "first\n")
    results.write_text(path, "zweite Größe\n")

    assert path.read_bytes() == "zweite Größe\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_a_crash_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "labels.csv"
    results.write_labels(path, np.array([1, 2]))

    def breaking():
        yield np.array([3])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        results.write_labels(path, breaking())

    assert path.read_text() == "cluster\n1\n2\n"
    assert list(tmp_path.iterdir()) == [path]


def test_half_written_parts_are_harmless(tmp_path, result, outcome):
    results.open_folder(tmp_path, "a", force=False)
    parts = ["result.json.part", "run.json.part", "path.csv.part", "labels/x.csv.part"]
    (tmp_path / "labels").mkdir()
    for part in parts:
        (tmp_path / part).write_text('{"n_clus')

    with pytest.raises(InputError, match="holds no finished run"):
        results.read_result(tmp_path)
    assert results.open_folder(tmp_path, "a", force=False) is None
    results.write_result(tmp_path, result, labels_of(outcome))

    assert results.read_result(tmp_path) == result
    assert results.open_folder(tmp_path, "a", force=False) == result


# ------------------------------------------------------------------ claiming a folder


@pytest.fixture
def finished(tmp_path, result, outcome):
    """A folder with a finished run called `a`, and a file of somebody else's."""
    folder = tmp_path / "out"
    assert results.open_folder(folder, "a", force=False) is None
    (folder / "trace.jsonl").write_text("{}\n")
    (folder / "report.html").write_text("<html>")
    results.write_result(folder, result, labels_of(outcome))
    (folder / "notes.txt").write_text("mine")
    return folder


def test_a_new_folder_is_made_and_claimed(tmp_path):
    folder = tmp_path / "a" / "b"

    assert results.open_folder(folder, "id", force=False) is None
    assert json.loads((folder / "run.json").read_text()) == {"identity": "id"}


def test_a_folder_of_other_things_can_be_used(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")

    assert results.open_folder(tmp_path, "id", force=False) is None
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_unfinished_run_goes_on(tmp_path):
    results.open_folder(tmp_path, "a", force=False)
    (tmp_path / "journal.bin").write_bytes(b"journal")

    assert results.open_folder(tmp_path, "a", force=False) is None
    assert (tmp_path / "journal.bin").read_bytes() == b"journal"


def test_a_finished_run_is_returned(finished, result):
    assert results.open_folder(finished, "a", force=False) == result


def test_another_run_is_refused_and_nothing_touched(finished):
    before = {p: p.read_bytes() for p in finished.rglob("*") if p.is_file()}

    text = r"holds another run .*choose another folder with --out, or .* --force"
    with pytest.raises(InputError, match=text):
        results.open_folder(finished, "b", force=False)

    assert {p: p.read_bytes() for p in finished.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("identity", ["a", "b"])
def test_force_removes_the_run_and_nothing_else(finished, identity):
    (finished / "labels" / "notes.txt").write_text("mine too")
    (finished / "other").mkdir()
    (finished / "other" / "result.json").write_text("{}")

    assert results.open_folder(finished, identity, force=True) is None

    names = {str(p.relative_to(finished)) for p in finished.rglob("*") if p.is_file()}
    assert names == {"run.json", "notes.txt", "labels/notes.txt", "other/result.json"}
    assert json.loads((finished / "run.json").read_text()) == {"identity": identity}


def test_force_removes_labels_that_are_all_its_own(finished):
    results.open_folder(finished, "b", force=True)

    assert not (finished / "labels").exists()


def test_force_on_a_new_folder_does_no_harm(tmp_path):
    assert results.open_folder(tmp_path / "new", "a", force=True) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "null", '"a"', '{"identity": 3}', "\udcff"]
)
def test_a_damaged_claim_is_another_run(finished, text):
    (finished / "run.json").write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(InputError, match="holds another run"):
        results.open_folder(finished, "a", force=False)


def test_results_without_a_claim_are_another_run(finished):
    (finished / "run.json").unlink()

    with pytest.raises(InputError, match="holds another run"):
        results.open_folder(finished, "a", force=False)


def test_a_file_is_no_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")

    for force in (False, True):
        with pytest.raises(InputError, match="is a file: choose a folder with --out"):
            results.open_folder(file, "a", force=force)
        with pytest.raises(InputError, match="a file is in its way"):
            results.open_folder(file / "below", "a", force=force)
    assert file.read_text() == "mine"


# ------------------------------------------------------------------ reading


def test_reading_what_no_run_wrote(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="give the folder that 'afcl run --out'"):
            results.read_result(folder)


def test_reading_an_unfinished_run(tmp_path):
    results.open_folder(tmp_path, "a", force=False)

    with pytest.raises(InputError, match="finish it with the same 'afcl run' command"):
        results.read_result(tmp_path)


@pytest.mark.parametrize("damage", [b"{", b"", b"\xff\xfe\xfd"])
def test_a_damaged_result_is_said_in_one_line(finished, damage):
    (finished / "result.json").write_bytes(damage)

    for reading in (
        lambda: results.read_result(finished),
        lambda: results.open_folder(finished, "a", force=False),
    ):
        with pytest.raises(
            InputError, match="is damaged .* again with --force"
        ) as caught:
            reading()
        assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ identity


def test_the_identity_follows_inputs_and_parameters():
    first = results.fingerprint(["a 1", "b 2"], {"seed": 0, "columns": ("x", "y")})

    assert first == results.fingerprint(
        ("a 1", "b 2"), {"columns": ["x", "y"], "seed": 0}
    )
    others = [
        results.fingerprint(["b 2", "a 1"], {"seed": 0, "columns": ("x", "y")}),
        results.fingerprint(["a 1", "b 3"], {"seed": 0, "columns": ("x", "y")}),
        results.fingerprint(["a 1", "b 2"], {"seed": 1, "columns": ("x", "y")}),
        results.fingerprint(["a 1", "b 2"], {"seed": 0, "columns": ("x",)}),
        results.fingerprint(["a 1", "b 2"], {"seed": 0}),
    ]
    assert len({first, *others}) == 6
    assert len(first) == 64


def test_the_identity_takes_parameters_of_any_kind():
    assert results.fingerprint([], {"path": Path("x")}) != results.fingerprint(
        [], {"path": Path("y")}
    )


def test_walls_and_notes_are_in_the_result_and_labels_come_again():
    """One of four sites has a column in another unit, for a tenth of its rows."""
    rng = np.random.default_rng(0)
    tables = [rng.normal(rng.integers(0, 2, (60, 1)) * 9, 1, (60, 2)) for _ in range(4)]
    tables[2][:6, 0] *= 1000
    spec = Spec(get_method("afcl"), {}, names=("a", "b", "c", "d"), columns=("x", "y"))
    outcome = simulate(spec, tables)
    told = results.describe_simulated(outcome, ["a", "b", "c", "d"], ["x", "y"], {})

    (note,) = told["notes"]
    assert note.startswith("c alone stretches column 'x' ")
    box = results.box_of(json.loads(json.dumps(told)))
    assert box.walls
    scaled = outcome.finished.terms.box.scale(tables[2])
    assert np.array_equal(box.scale(tables[2]), scaled)
