"""The command line as a user meets it: files in, files out, one line when it fails."""

import csv
import html
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from afcl import __version__
from afcl.cli import main
from afcl.cli.words import in_words
from afcl.core.protocol import Trust
from afcl.data.split import kmeans_split
from afcl.data.synthetic import make_sd1
from afcl.methods.afcl import Afcl
from afcl.registry import LEVELS
from afcl.trace import read_trace


def call(capsys, *arguments):
    """Run the command in this process; return (exit code, stdout, stderr)."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Five files of SD1, one of them Parquet, split without overlap."""
    folder = tmp_path_factory.mktemp("sites")
    X, _ = make_sd1(0)
    owner = kmeans_split(X, 5, random_state=0)
    paths = []
    for g in range(5):
        frame = pl.DataFrame({"u": X[owner == g, 0], "v": 100 * X[owner == g, 1]})
        path = folder / f"site{g}.{'parquet' if g == 4 else 'csv'}"
        frame.write_parquet(path) if g == 4 else frame.write_csv(path)
        paths.append(path)
    return paths


@pytest.fixture
def done(sites, tmp_path, capsys):
    """A finished run's folder."""
    code, _, _ = call(capsys, "run", *sites, "--out", tmp_path / "out")
    assert code == 0
    return tmp_path / "out"


def tree(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


class TestRun:
    def test_writes_what_it_promises(self, done, sites):
        names = sorted(p.name for p in done.iterdir())
        assert names == [
            "centers.csv",
            "labels",
            "path.csv",
            "report.html",
            "result.json",
            "run.json",
            "trace.jsonl",
        ]
        result = json.loads((done / "result.json").read_text())
        assert result["n_clusters"] == 4
        assert result["columns"] == ["u", "v"]
        assert np.array(result["centers"]).shape == (4, 2)
        assert sum(result["sizes"]) == 2300
        assert set(result["scores"]) == {
            "silhouette",
            "simplified",
            "ch",
            "db",
            "bic",
            "free_bic",
        }
        assert result["path"][0]["k"] == 2
        assert [s["name"] for s in result["sites"]] == [f"site{g}" for g in range(5)]
        assert all(s["messages"] == 8 and s["bytes"] > 0 for s in result["sites"])
        assert result["note"] == ""
        assert result["versions"]["afcl"] == __version__

    def test_labels_follow_the_rows_of_the_file(self, done, sites):
        result = json.loads((done / "result.json").read_text())
        low, span = (np.array(result["scale"][key]) for key in ("low", "span"))
        centers = (np.array(result["centers"]) - low) / span
        rows = (pl.read_csv(sites[0]).to_numpy() - low) / span
        nearest = ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        labels = pl.read_csv(done / "labels" / "site0.csv")["cluster"].to_numpy()
        assert np.array_equal(labels, nearest)

    def test_csv_files_agree_with_the_json(self, done):
        result = json.loads((done / "result.json").read_text())
        with open(done / "centers.csv") as file:
            rows = list(csv.DictReader(file))
        assert [int(row["rows"]) for row in rows] == result["sizes"]
        assert [float(row["v"]) for row in rows] == [c[1] for c in result["centers"]]
        with open(done / "path.csv") as file:
            path = list(csv.DictReader(file))
        assert [int(row["k"]) for row in path] == [p["k"] for p in result["path"]]

    def test_trace_can_be_read(self, done):
        trace = read_trace(done / "trace.jsonl")
        assert trace.events[0]["event"] == "run"
        assert trace.events[-1]["k"] == 4
        assert all("at" in event for event in trace)

    def test_says_it_in_words(self, sites, tmp_path, capsys):
        code, out, err = call(capsys, "run", *sites, "--out", tmp_path / "out")
        assert code == 0
        assert "4 clusters in 2,300 rows at 5 sites: 1,500, 500, 200, 100 rows." in out
        assert LEVELS["secure"].sent in out
        assert err == ""

    @pytest.mark.parametrize(
        ("n", "level", "reason"),
        [
            (3, "secure(plain)+summary", "sums over sites, of which there are 3"),
            (2, "summary", "sums over sites take 3 of them, there are 2"),
            (1, "summary", "sums over sites take 3 of them, there is 1"),
        ],
    )
    def test_the_level_and_its_reason(self, sites, tmp_path, capsys, n, level, reason):
        code, _, _ = call(capsys, "run", *sites[:n], "--out", tmp_path)
        assert code == 0
        result = json.loads((tmp_path / "result.json").read_text())
        assert result["parameters"]["privacy"] == level
        assert result["parameters"]["privacy_reason"] == reason
        page = (tmp_path / "report.html").read_text()
        assert f"Privacy: {level}. " in page
        assert f"it was chosen: {reason}." in page
        again, out, _ = call(capsys, "run", *sites[:n], "--out", tmp_path)
        assert again == 0
        assert "holds this run already" in out

    def test_a_level_that_was_named_has_no_reason(self, sites, tmp_path, capsys):
        level = ("--privacy", "summary")
        code, out, _ = call(capsys, "run", *sites, "--out", tmp_path, *level)
        assert code == 0
        assert "no row left its site" in out
        result = json.loads((tmp_path / "result.json").read_text())
        assert result["parameters"]["privacy"] == "summary"
        assert "privacy_reason" not in result["parameters"]
        assert all(site["messages"] == 3 for site in result["sites"])
        assert "it was chosen" not in (tmp_path / "report.html").read_text()

    def test_json_prints_the_result_and_nothing_else(self, sites, tmp_path, capsys):
        code, out, _ = call(capsys, "run", *sites, "--out", tmp_path / "o", "--json")
        assert code == 0
        assert json.loads(out) == json.loads((tmp_path / "o/result.json").read_text())

    def test_the_same_command_again_computes_nothing(self, done, sites, capsys):
        before = tree(done)
        code, out, _ = call(capsys, "run", *sites, "--out", done)
        assert code == 0
        assert "holds this run already" in out
        assert tree(done) == before

    def test_another_run_is_refused_unless_forced(self, done, sites, capsys):
        (done / "mine.txt").write_text("keep me")
        before = tree(done)
        code, _, err = call(capsys, "run", *sites, "--out", done, "--seed", 1)
        assert code == 2
        assert "holds another run" in err
        assert err.count("\n") == 1
        assert tree(done) == before
        code, _, _ = call(capsys, "run", *sites, "--out", done, "--seed", 1, "--force")
        assert code == 0
        assert (done / "mine.txt").read_text() == "keep me"
        assert json.loads((done / "result.json").read_text())["parameters"]["seed"] == 1

    def test_options_reach_the_run(self, sites, tmp_path, capsys):
        config = tmp_path / "run.toml"
        config.write_text(
            'participation = "random"\nmin-cell = 8\ndrop = ["v"]\nseed = 7\n'
            'n_seeds = 40\ncriterion = "ch"\nallow_one = false\n'
            'granularity = "coarse"\n'
        )
        code, out, _ = call(
            capsys, "run", *sites, "--out", tmp_path / "o", "--json",
            "--config", config, "--seed", 9, "--max-clusters", 12,
            "--granularity", "fine",
        )  # fmt: skip
        assert code == 0
        result = json.loads(out)
        chosen = result["parameters"]
        assert chosen["seed"] == 9
        assert (chosen["min_cell"], chosen["criterion"]) == (8, "ch")
        assert (chosen["n_seeds"], chosen["max_clusters"]) == (40, 12)
        assert (chosen["allow_one"], chosen["granularity"]) == (False, "fine")
        assert result["columns"] == ["u"]
        assert max(level["k"] for level in result["path"]) <= 12

    @pytest.mark.parametrize(
        ("flags", "one"), [([], True), (["--at-least-two"], False)]
    )
    def test_one_cluster_may_be_ruled_out(self, sites, tmp_path, capsys, flags, one):
        command = ("run", *sites, "--out", tmp_path / "o", "--json")
        code, out, _ = call(capsys, *command, *flags)
        assert code == 0
        assert json.loads(out)["parameters"]["allow_one"] is one

    def test_participation_as_numbers(self, sites, tmp_path, capsys):
        code, out, _ = call(
            capsys, "run", *sites, "--out", tmp_path / "o", "--json",
            "--participation", ".9,.2,1,0,1",
        )  # fmt: skip
        assert code == 0
        result = json.loads(out)
        messages = [site["messages"] for site in result["sites"]]
        assert messages[3] == 1
        assert min(messages[:3] + messages[4:]) >= 6
        assert "4 of 5 sites" in result["note"]
        assert in_words(result)[-1] == result["note"]

    def test_missing_rows_can_be_dropped(self, sites, tmp_path, capsys):
        holed = tmp_path / "holed.csv"
        lines = sites[0].read_text().splitlines()
        lines[3] = "," + lines[3].split(",")[1]
        holed.write_text("\n".join(lines) + "\n")
        command = ["run", holed, *sites[1:], "--out", tmp_path / "o"]
        code, _, err = call(capsys, *command)
        assert code == 2
        assert "--missing impute" in err
        code, _, err = call(capsys, *command, "--missing", "drop")
        assert code == 0
        assert "1 row" in err
        labels = (tmp_path / "o/labels/holed.csv").read_text().split()
        assert labels[3] == "-1"
        assert len(labels) == len(lines)

    def test_paper_preset_warns(self, sites, tmp_path, capsys):
        code, out, err = call(
            capsys, "run", *sites, "--out", tmp_path / "o", "--preset", "paper",
            "--n-seeds", 5, "--max-rounds", 3,
        )  # fmt: skip
        assert code == 0
        assert "every row" in err
        assert "this preset sends every row" in out


class TestTrust:
    """How far the answer can be believed; answers with a trust made up by hand."""

    SURE = Trust(
        "clusters",
        0.5,
        0.93,
        ((3, 0.02), (4, 0.93), (5, 0.05)),
        (0.99, 0.98, 0.97, 0.96),
        (2, 4, 9),
    )

    @pytest.fixture
    def told(self, sites, tmp_path, capsys, monkeypatch):
        own = Afcl.result

        def tell(trust, *options, **changes):
            def result(self, state):
                return replace(own(self, state), trust=trust, **changes)

            monkeypatch.setattr(Afcl, "result", result)
            code, out, err = call(capsys, "run", *sites, "--out", tmp_path, *options)
            assert code == 0
            return (
                out.splitlines(),
                err,
                json.loads((tmp_path / "result.json").read_text()),
            )

        return tell

    def test_stands_between_silhouette_and_cost(self, told):
        lines, err, result = told(self.SURE)
        assert lines[0].startswith("4 clusters in 2,300 rows at 5 sites: 1,500, ")
        assert lines[1].startswith("Silhouette")
        assert lines[2:4] == [
            "k = 4 came out of 93% of the resamples (can be relied on); "
            "also 5 (5%), 3 (2%).",
            "Also worth a look: k = 2, 9 (granularity coarse / fine).",
        ]
        assert lines[4].startswith("7 rounds, at most 8 messages a site")
        assert err == ""
        assert result["structure"] == {"verdict": "clusters", "gain": 0.5}
        assert result["levels"] == [2, 4, 9]
        assert sorted(result["confidence"]["clusters"]) == [0.96, 0.97, 0.98, 0.99]

    def test_no_clusters(self, told, tmp_path):
        lines, _, result = told(
            Trust("none", 0.0, 1.0, ((1, 1.0),), (1.0,), (1,)),
            sizes=np.array([2300.0]),
            centers=np.array([[0.5, 0.5]]),
            scores={"silhouette": None},
        )
        assert lines[:3] == [
            "No clusters found in 2,300 rows at 5 sites.",
            "Nothing parts the rows: they are one cloud as far as the sites' messages "
            "show.",
            "k = 1 came out of 100% of the resamples (can be relied on).",
        ]
        assert result["n_clusters"] == 1
        assert result["sizes"] == [2300]
        assert (tmp_path / "labels" / "site0.csv").read_text().split()[1:3] == ["0"] * 2
        assert len((tmp_path / "centers.csv").read_text().splitlines()) == 2
        assert result["path"][0]["k"] == 2

    def test_unclear(self, told):
        lines, _, _ = told(
            replace(
                self.SURE,
                verdict="unclear",
                confidence=0.4,
                shares=((4, 0.4), (5, 0.6)),
            )
        )
        assert lines[0].startswith("4 clusters in 2,300 rows")
        assert lines[2].startswith("Cannot tell whether there are clusters: ")
        assert lines[3] == "k = 4 came out of 40% of the resamples; also 5 (60%)."

    def test_one_cluster_that_was_asked_for(self, told):
        lines, _, _ = told(None, "--max-clusters", 1)
        assert lines[0] == "1 cluster in 2,300 rows at 5 sites: 2,300 rows."
        assert " rounds, at most " in lines[1]

    def test_an_older_result_is_told_as_before(self, told):
        _, _, result = told(self.SURE)
        plain = in_words({**result, "structure": None, "confidence": None})
        for key in ("structure", "confidence", "levels"):
            del result[key]
        assert len(in_words(result)) == 3
        assert in_words(result) == plain[:2] + plain[3:]

    def test_more_clusters_than_cells_can_show(self, sites, tmp_path, capsys):
        few = []
        for path in sites[:3]:
            few.append(tmp_path / path.name)
            few[-1].write_text("".join(path.read_text().splitlines(True)[:41]))
        command = ("run", *few, "--out", tmp_path / "o")
        code, _, err = call(capsys, *command, "--privacy", "summary")
        assert code == 0
        assert err.startswith("warning: sites hold about 40 rows for ")
        assert err.count("\n") == 1
        (kept,) = json.loads((tmp_path / "o" / "result.json").read_text())["warnings"]
        assert err.startswith(f"warning: {kept}")
        page = (tmp_path / "o" / "report.html").read_text()
        assert f"S{kept[1:]}." in html.unescape(page)
        assert call(capsys, *command, "--privacy", "summary")[2] == ""
        assert call(capsys, *command, "--force")[2] == ""


class TestRivals:
    def test_run_like_afcl_itself(self, sites, tmp_path, capsys):
        code, out, _ = call(
            capsys, "run", *sites, "--out", tmp_path / "o", "--method", "afcl-w"
        )
        assert code == 0
        assert "docs/methods.md says what this method uploads" in out
        result = json.loads((tmp_path / "o/result.json").read_text())
        assert result["parameters"]["method"] == "afcl-w"
        assert call(capsys, "predict", tmp_path / "o", sites[0])[0] == 0

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            (["--n-clusters", 3], "finds the number of clusters by itself"),
            (["--method", "afcl-w", "--preset", "paper"], "belong to AFCL"),
            (["--method", "afcl-x"], "unknown method 'afcl-x'"),
            (["--method", "afcl-w", "--n-clusters", 3], "has no option 'n_clusters'"),
        ],
    )
    def test_one_line_when_it_does_not_fit(
        self, sites, tmp_path, capsys, options, text
    ):
        code, _, err = call(capsys, "run", *sites, "--out", tmp_path / "o", *options)
        assert code == 2
        assert text in err
        assert err.count("\n") == 1


class TestKilled:
    def test_continues_to_the_same_result(self, tmp_path):
        """kill -9 in the middle, the same command again: same bytes in every file."""
        rng = np.random.default_rng(0)
        sites = []
        for g in range(30):
            rows = rng.normal(rng.integers(0, 6, (400, 1)) * 4, 0.5, (400, 6))
            path = tmp_path / f"s{g:02}.csv"
            header = ",".join("abcdef")
            np.savetxt(path, rows, delimiter=",", header=header, comments="")
            sites.append(str(path))
        program = [sys.executable, "-c", "from afcl.cli import main; main()", "run"]

        def start(out):
            return subprocess.Popen(
                [*program, *sites, "--out", str(out), "--participation", ".3"],
                stdout=subprocess.DEVNULL,
                env={**os.environ, "AFCL_KERNELS": "reference"},
            )

        whole, cut = tmp_path / "whole", tmp_path / "cut"
        assert start(whole).wait(timeout=300) == 0
        kills = 0
        for size in (10_000, 100_000):
            process = start(cut)
            journal = cut / "journal.bin"
            while process.poll() is None:
                if journal.exists() and journal.stat().st_size > size:
                    process.send_signal(signal.SIGKILL)
                    process.wait(timeout=30)
                    kills += 1
                    break
                time.sleep(0.005)
        assert kills >= 1
        assert not (cut / "result.json").exists()
        kept = (cut / "journal.bin").stat().st_size
        assert kept > 0
        assert start(cut).wait(timeout=300) == 0
        first, second = tree(whole), tree(cut)
        assert first.keys() == second.keys()
        # The page tells folder and duration; run.json the command, with its folder.
        for name in first.keys() - {"trace.jsonl", "report.html", "run.json"}:
            assert first[name] == second[name], name
        ours, theirs = (
            [{k: v for k, v in e.items() if k != "at"} for e in read_trace(f)]
            for f in (whole / "trace.jsonl", cut / "trace.jsonl")
        )
        assert ours == theirs


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "none.csv", "--out", "o"], "none.csv: no such file"),
        (["run", "--out", "o"], "no files given; name a file per site"),
        (["run", "{0}", "--out", "o", "--separator", ";;"], "is not one character"),
        (["run", "{0}", "--out", "o", "--decimal", "-"], "use '.' or ','"),
        (["run", "{0}", "--out", "o", "--encoding", "x"], "--encoding 'x' is unknown"),
        (["run", "{0}", "--out", "o", "--id", "w"], "--id names 'w'"),
        (["run", "{0}", "--out", "o", "--drop", 'u,"v'], "cannot be read as a list"),
        (["run", "--site", "none", "--out", "o"], "none: no such file"),
        (["run", "{0}"], "Missing option '--out'"),
        (["run", "{0}", "--out", "o", "--speed"], "No such option: --speed"),
        (["run", "{0}", "--out", "o", "--seed", "x"], "Invalid value for '--seed'"),
        (["run", "{0}", "--out", "{0}"], "is a file: choose a folder"),
        (["run", "{0}", "--out", "o", "--preset", "fast"], "preset 'fast' is unknown"),
        (["run", "{0}", "--out", "o", "--privacy", "dp"], "as in dp(8)"),
        (
            ["run", "{0}", "--out", "o", "--min-cell", "0"],
            "min_cell must be a whole number, at least 1",
        ),
        (["run", "{0}", "--out", "o", "--drop", "w"], "--drop names 'w'"),
        (["run", "{0}", "--out", "o", "--columns", "w"], "--columns names 'w'"),
        (["run", "{0}", "--out", "o", "--missing", "fill"], "missing is 'fill'"),
        (["run", "{0}", "--out", "o", "--participation", "rarely"], "is unknown"),
        (["run", "{0}", "--out", "o", "--participation", "2"], "must lie in [0, 1]"),
        (["run", "{0}", "--out", "o", "--participation", "1,1"], "for 1 clients"),
        (["run", "{0}", "--out", "o", "--criterion", "gap"], "unknown criterion"),
        (
            ["run", "{0}", "--out", "o", "--granularity", "mid"],
            "granularity must be one of coarse, auto, fine, not 'mid'",
        ),
        (["run", "{0}", "--out", "o", "--config", "no.toml"], "cannot read no.toml"),
        (["predict", "nowhere", "{0}"], "holds no finished run"),
        (["walk"], "No such command 'walk'"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(
    arguments, text, sites, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *(a.format(*sites) for a in arguments))
    assert code == 2
    assert text in err
    assert err.startswith("afcl: ")
    assert err.count("\n") == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("speed = 1\n", "unknown key 'speed'"),
        ("seed = 'x'\n", "seed must be a whole number"),
        ("drop = 'v'\n", "drop must be a list of texts"),
        ("n-seeds = 1.5\n", 'n-seeds must be "auto" or a whole number'),
        ("preset = 3\n", "preset must be a text"),
        ("allow_one = 1\n", "allow_one must be true or false, not 1"),
        ("granularity = 2\n", "granularity must be a text"),
        ("granularity = 'mid'\n", "granularity must be one of coarse, auto, fine"),
        ("participation = {a = 1}\n", "participation must be"),
        ("= broken", "is not TOML"),
    ],
)
def test_bad_configuration_gets_one_line(content, text, sites, tmp_path, capsys):
    config = tmp_path / "run.toml"
    config.write_text(content)
    code, _, err = call(
        capsys, "run", *sites, "--out", tmp_path / "o", "--config", config
    )
    assert code == 2
    assert text in err
    assert err.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_bad_files_get_one_line(sites, tmp_path, capsys):
    def refused(text, content, *options):
        bad = tmp_path / "bad.csv"
        bad.write_text(content)
        code, _, err = call(
            capsys, "run", sites[0], bad, "--out", tmp_path / "o", *options
        )
        assert code == 2
        assert text in err
        assert err.count("\n") == 1
        assert not (tmp_path / "o").exists()

    refused("no column is in every file", "a,b\n1,2\n")
    refused("'blue', not a number", "u,v\n1,2\n3,blue\n")
    refused("has no value", "u,v\n" + "1,2\n" * 6 + "3,\n")


@pytest.mark.parametrize("content", ["u,v\n", "u,v\n1,2\n", "u,v\n1,\n"])
def test_a_site_that_is_too_small_takes_no_part(sites, tmp_path, capsys, content):
    small = tmp_path / "small.csv"
    small.write_text(content)
    out = tmp_path / "o"
    words = ("run", *sites[:3], small, "--out", out, "--missing", "drop")
    code, told, _ = call(capsys, *words)
    assert code == 0
    rows = content.count("2")
    assert f"Note: small has {rows} row{'' if rows == 1 else 's'}, fewer than 5" in told
    labels = (out / "labels" / "small.csv").read_text().split()
    assert len(labels) == content.count("\n")
    result = json.loads((out / "result.json").read_text())
    assert result["parameters"]["privacy"].startswith("secure")
    assert [site["messages"] for site in result["sites"]][3] == 0
    # Two others are too few to be summed.
    code, told, _ = call(capsys, *words[:3], small, *words[5:], "--force")
    assert code == 0
    result = json.loads((out / "result.json").read_text())
    assert result["parameters"]["privacy"] == "summary"
    code, _, err = call(capsys, "run", small, "--out", tmp_path / "p")
    assert code == 2
    assert err.count("\n") == 1


class TestPredict:
    def test_repeats_the_training_labels(self, done, sites, tmp_path, capsys):
        code, out, _ = call(capsys, "predict", done, sites[1])
        assert code == 0
        assert out == (done / "labels/site1.csv").read_text()
        code, out, _ = call(
            capsys, "predict", done, sites[1], "--out", tmp_path / "new.csv"
        )
        assert code == 0
        assert "labels are in" in out
        assert (tmp_path / "new.csv").read_text() == (
            done / "labels/site1.csv"
        ).read_text()

    def test_matches_columns_by_name(self, done, sites, tmp_path, capsys):
        swapped = tmp_path / "swapped.csv"
        pl.read_csv(sites[1]).select("v", "u").write_csv(swapped)
        _, out, _ = call(capsys, "predict", done, swapped)
        assert out == (done / "labels/site1.csv").read_text()

    def test_needs_the_columns(self, done, tmp_path, capsys):
        (tmp_path / "x.csv").write_text("u\n1\n")
        code, _, err = call(capsys, "predict", done, tmp_path / "x.csv")
        assert code == 2
        assert "there is no column 'v', which the run had" in err

    def test_unfinished_and_damaged_runs(self, done, sites, capsys):
        (done / "result.json").write_text("{")
        code, _, err = call(capsys, "predict", done, sites[0])
        assert (code, "is damaged" in err) == (2, True)
        (done / "result.json").unlink()
        code, _, err = call(capsys, "predict", done, sites[0])
        assert (code, "finish it with the same" in err) == (2, True)

    def test_methods_without_centres_cannot(self, done, sites, capsys):
        result = json.loads((done / "result.json").read_text())
        (done / "result.json").write_text(json.dumps({**result, "centers": None}))
        code, _, err = call(capsys, "predict", done, sites[0])
        assert (code, "has no centres" in err) == (2, True)


class TestDemo:
    def test_five_sites_find_the_true_number(self, tmp_path, capsys, seed):
        code, out, _ = call(capsys, "demo", "--out", tmp_path / "d", "--seed", seed)
        assert code == 0
        assert "6 clusters in 860 rows at 5 sites" in out
        assert len(list((tmp_path / "d/sites").glob("*.csv"))) == 5
        agreement = float(out.split("(ARI): ")[1].split(".\n")[0])
        assert agreement > 0.9

    def test_does_not_replace_another_demo(self, tmp_path, capsys):
        assert call(capsys, "demo", "--out", tmp_path)[0] == 0
        before = tree(tmp_path)
        code, _, err = call(capsys, "demo", "--out", tmp_path, "--seed", "1")
        assert (code, "from another demo" in err) == (2, True)
        assert tree(tmp_path) == before
        code, _, _ = call(capsys, "demo", "--out", tmp_path, "--seed", "1", "--force")
        assert code == 0


def test_version_and_help(capsys):
    assert call(capsys, "--version")[:2] == (0, f"{__version__}\n")
    code, out, _ = call(capsys)
    assert code == 0
    assert "Usage: afcl" in out


def test_interrupt_says_how_to_go_on(sites, tmp_path, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("afcl.cli.execute.simulate", stop)
    code, _, err = call(capsys, "run", *sites, "--out", tmp_path / "o")
    assert code == 130
    assert "the same command continues" in err


def test_words_for_odd_results():
    site = {"name": "a", "rows": 3, "messages": 1, "bytes": 10}
    result = {
        "n_clusters": 1,
        "sizes": [3],
        "scores": {"silhouette": None},
        "path": [{"k": 1, "scores": {"silhouette": None}}],
        "sites": [site],
        "rounds": 0,
        "parameters": {"privacy": "summary"},
    }
    assert in_words(result)[0] == "1 cluster in 3 rows at 1 site: 3 rows."
    many = {**result, "n_clusters": 20, "sizes": [1] * 20}
    assert "1, …" in in_words(many)[0]


def test_a_progress_bar_on_a_terminal_only(sites, tmp_path):
    """Under a pseudo-terminal the bar appears on stderr; in a pipe nothing does."""
    script = shutil.which("script")
    if script is None:
        pytest.skip("needs the `script` program to make a pseudo-terminal")
    command = (
        f"{sys.executable} -c 'from afcl.cli import main; main()' run "
        + " ".join(str(s) for s in sites)
        + f" --out {tmp_path / 'o'} --participation .05"
    )
    done = subprocess.run(
        [script, "-qec", command, "/dev/null"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TERM": "xterm"},
        check=True,
    )
    assert "of at most 100" in done.stdout
