# SPDX-License-Identifier: Apache-2.0
"""Live runs without an engine: real folders and messages, an engine made of lists."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from afcl import Replay
from afcl.core.messages import Hello
from afcl.core.protocol import Trust
from afcl.data.split import kmeans_split
from afcl.data.synthetic import make_sd1
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.methods.afcl import Afcl
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.admission import Admission
from afcl.runtime.live.membership import (
    DONE,
    REFUSED,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.server import RunPlan, serve_run
from afcl.runtime.live.trouble import answer_or_reason
from afcl.runtime.results import read_result
from afcl.runtime.simulate import simulate
from afcl.runtime.spec import Spec
from afcl.runtime.transport import Failure, Reply
from afcl.trace import read_trace

COLUMNS = ("height", "weight")


class Crash(BaseException):
    """The server is killed."""


class ListEngine:
    """Sites as folders; a request is answered `slow` looks after it was sent.

    `arrives` and `leaves` say at which look a site can first, and no more, be reached.
    """

    def __init__(
        self,
        folders,
        arrives=None,
        leaves=None,
        slow=None,
        crash_at=None,
        last_look=2000,
    ):
        self.last_look = last_look
        self.folders = folders
        self.arrives = arrives or {}
        self.leaves = leaves or {}
        self.slow = slow or {}
        self.crash_at = crash_at
        self.looks = 0
        self.sent = 0
        self.flying = {}
        self.requests = []

    def nodes(self):
        self.looks += 1
        if self.looks > self.last_look:
            raise Crash("the server is killed, or the run does not end")
        return [a for a in self.folders if self._here(a)]

    def _here(self, address):
        first, last = self.arrives.get(address, 0), self.leaves.get(address, 10**9)
        return first <= self.looks < last

    def send(self, address, data):
        self.sent += 1
        if self.sent == self.crash_at:
            raise Crash
        due = self.looks + 1 + self.slow.get(address, 0)
        self.flying[self.sent] = (due, address, data)
        self.requests.append((address, data))
        return self.sent

    def poll(self):
        arrived: list[Reply | Failure] = []
        for ticket, (due, address, data) in list(self.flying.items()):
            if due <= self.looks and self._here(address):
                del self.flying[ticket]
                said, why = answer_or_reason(self.folders[address], data)
                if why:
                    arrived.append(Failure(ticket, address, why))
                else:
                    arrived.append(Reply(ticket, address, said))
        return arrived

    def close(self):
        pass


class FakeClock:
    """A clock that moves by a second with every pause, and by nothing else."""

    def __init__(self):
        self.now = 0.0

    def look(self):
        return self.now

    def pause(self, seconds):
        self.now += 1.0


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """The server has one clock, and nobody really waits."""
    clock, init = FakeClock(), Admission.__init__

    def patched(self, *args, **kwargs):
        init(self, *args, **{**kwargs, "clock": clock.look, "sleep": clock.pause})

    monkeypatch.setattr(Admission, "__init__", patched)
    for module in ("server", "farewell"):
        clocks = SimpleNamespace(time=clock.look, monotonic=clock.look)
        monkeypatch.setattr(f"afcl.runtime.live.{module}.time", clocks)
    return clock


def write_sites(tmp_path, n_sites=4, seed=0):
    X, _ = make_sd1(seed)
    owner = kmeans_split(X, n_sites, random_state=seed)
    tables, folders = [], {}
    for site in range(n_sites):
        rows = X[owner == site]
        tables.append(rows)
        folder = tmp_path / f"site-{site}"
        folder.mkdir()
        path = folder / "rows.csv"
        pl.DataFrame(rows, schema=list(COLUMNS)).write_csv(path)
        keep_membership(folder, Membership(str(path), f"site-{site}"))
        folders[100 + site] = folder
    return tables, folders


def plan(folder, **changes):
    made = RunPlan("run", "afcl", {}, 0, 100, 4, patience=500.0, parameters={})
    made = replace(made, **changes)
    folder.mkdir(exist_ok=True)
    made.write(folder)
    return folder


def events(folder, *kinds):
    return [e for e in read_trace(folder / "trace.jsonl") if e["event"] in kinds]


def absorbed(folder):
    said = events(folder, "hello", "update")
    return [(e["event"], e["client"], e["contact"]) for e in said]


def replayed(folder, tables):
    """Run the trace again in the simulator."""
    trace = read_trace(folder / "trace.jsonl")
    spec = Spec(get_method("afcl"), RunPlan.read(folder).options, 0, run="run")
    return simulate(spec, tables, Replay.of(trace))


def in_order(tables, folder):
    """Return the tables by client number, which is the order of admission."""
    names = {e["client"]: e["name"] for e in events(folder, "ranges")}
    return [tables[int(names[c].split("-")[1])] for c in sorted(names)]


def assert_same(folder, tables):
    result = read_result(folder)
    outcome = replayed(folder, in_order(tables, folder))
    box = outcome.finished.terms.box
    centers = box.unscale(outcome.finished.clustering.centers)
    assert result["n_clusters"] == outcome.clustering.k
    assert np.array_equal(np.array(result["centers"]), centers)


def test_four_sites_find_four_clusters(tmp_path, seed):
    tables, folders = write_sites(tmp_path, seed=seed)
    folder = plan(tmp_path / "run")
    serve_run(ListEngine(folders), folder)
    result = read_result(folder)
    assert result["n_clusters"] == 4
    assert result["columns"] == list(COLUMNS)
    assert [site["messages"] for site in result["sites"]] == [3] * 4
    assert not (folder / "labels").exists()
    for address, home in folders.items():
        own = read_result(home)
        assert open_membership(home).state == DONE
        assert own["centers"] == result["centers"]
        assert "sites" not in own
        labels = pl.read_csv(home / "labels.csv")["cluster"].to_numpy()
        assert labels.shape[0] == tables[address - 100].shape[0]
        assert np.bincount(labels, minlength=4).tolist() == own["site"]["sizes"]
    assert_same(folder, tables)


@pytest.mark.parametrize("stream", [True, False])
def test_names_of_rows_stay_at_their_site(tmp_path, monkeypatch, stream):
    """With names of rows, German text and all, the run asks as it does without."""
    _, plain = write_sites(tmp_path)
    first = ListEngine(plain)
    serve_run(first, plan(tmp_path / "run"))
    (tmp_path / "again").mkdir()
    monkeypatch.setenv("AFCL_HOME", str(tmp_path / "home"))
    _, named = write_sites(tmp_path / "again")
    for folder in named.values():
        path = folder / "rows.csv"
        rows = pl.read_csv(path)
        ids = [f"P{i:04}" for i in range(rows.height)]
        rows = rows.with_columns(Patient=pl.Series(ids), city=pl.lit("Bonn"))
        path.write_text(rows.write_csv(separator=";", decimal_comma=True))
        member = open_membership(folder)
        told = {"id": "patient", "numeric_only": True, "stream": stream}
        keep_membership(folder, replace(member, **told))
    second = ListEngine(named)
    serve_run(second, plan(tmp_path / "run2"))
    # The challenges of announcements are drawn anew; all else follows from answers.
    assert second.requests[4:] == first.requests[4:]
    for address, folder in named.items():
        header, *lines = (folder / "labels.csv").read_text().splitlines()
        assert header == "patient,cluster"
        assert lines[7].startswith("P0007,")
        labels = [line.split(",")[1] for line in lines]
        assert labels == (plain[address] / "labels.csv").read_text().split()[1:]
    for path in (tmp_path / "run2").rglob("*"):
        assert path.is_dir() or b"P0007" not in path.read_bytes()


def test_every_site_takes_home_how_far_to_believe_it(tmp_path, monkeypatch):
    stabilities = (0.9, 0.8, 0.7, 0.6)
    trust = Trust("clusters", 0.5, 0.8, ((3, 0.2), (4, 0.8)), stabilities, (3, 4))
    own = Afcl.result
    monkeypatch.setattr(
        Afcl, "result", lambda self, state: replace(own(self, state), trust=trust)
    )
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"allow_one": False, "granularity": "fine"})
    serve_run(ListEngine(folders), folder)
    for home in (folder, *folders.values()):
        told = read_result(home)
        assert told["n_clusters"] == 4
        assert told["structure"] == {"verdict": "clusters", "gain": 0.5}
        assert told["levels"] == [3, 4]
        # In the server's order, as are the centres.
        assert told["confidence"] == {
            "k": 0.8,
            "by_k": {"3": 0.2, "4": 0.8},
            "clusters": list(stabilities),
        }


@pytest.mark.parametrize(
    "options", [{"privacy": "grouped(5)"}, {"privacy": "secure", "cohort": 3}]
)
def test_levels_replay_to_the_same_bits(tmp_path, options):
    """Keys are every site's own; masks cancel all the same."""
    tables, folders = write_sites(tmp_path, n_sites=7)
    folder = plan(tmp_path / "run", options=options, min_clients=7)
    serve_run(ListEngine(folders, slow={102: 3}), folder)
    assert read_result(folder)["n_clusters"] == 4
    assert_same(folder, tables)


def test_dp_needs_bounds_and_keeps_a_ledger(tmp_path, home):
    _, folders = write_sites(tmp_path)
    with pytest.raises(InputError, match="public bounds"):
        serve_run(
            ListEngine(folders), plan(tmp_path / "a", options={"privacy": "dp(8)"})
        )
    bounds = dict.fromkeys(COLUMNS, (-1.0, 7.0))
    folder = plan(tmp_path / "b", options={"privacy": "dp(8)"}, ranges=bounds)
    serve_run(ListEngine(folders), folder)
    assert read_result(folder)["n_clusters"] == 4
    accounts = json.loads((home / "ledger.json").read_text())["accounts"]
    assert [len(account["released"]) for account in accounts] == [1] * len(folders)


@pytest.mark.no_cover
@pytest.mark.parametrize("crash_at", range(8, 36, 4))
def test_cohorts_outlive_a_killed_server(tmp_path, crash_at):
    tables, folders = write_sites(tmp_path, n_sites=7)
    options = {"privacy": "secure", "cohort": 3}
    folder = plan(tmp_path / "run", options=options, min_clients=7)
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=crash_at), folder)
    serve_run(ListEngine(folders), folder)
    assert read_result(folder)["n_clusters"] == 4
    assert len(absorbed(folder)) == len(set(absorbed(folder))) == 7 * (1 + 7)
    assert_same(folder, tables)


def test_a_cohort_loses_a_member_and_forms_anew(tmp_path):
    _, folders = write_sites(tmp_path, n_sites=7)
    options = {"privacy": "secure", "cohort": 3}
    folder = plan(tmp_path / "run", options=options, min_clients=6)
    serve_run(ListEngine(folders, leaves={101: 9}), folder)
    assert read_result(folder)["n_clusters"] == 4
    assert events(folder, "left")


class Mute(ListEngine):
    """Sites that answer so many requests and then nothing, though they stay."""

    def __init__(self, folders, mute, **facts):
        super().__init__(folders, **facts)
        self.left_over = dict(mute)

    def send(self, address, data):
        ticket = super().send(address, data)
        if address in self.left_over:
            self.left_over[address] -= 1
            if self.left_over[address] < 0:
                del self.flying[ticket]
        return ticket


SUMS = {"options": {"privacy": "secure+summary"}, "patience": 200.0, "grace": 50.0}


@pytest.mark.no_cover
@pytest.mark.parametrize("answered", [2, 3, 4, 5, 7])
def test_sums_go_on_without_who_is_silent(tmp_path, answered):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", **SUMS)
    serve_run(Mute(folders, {103: answered}), folder)
    (left,) = events(folder, "left")
    assert events(folder, "end")[-1]["reason"] == "done"
    result = read_result(folder)
    assert result["n_clusters"] == 4
    assert ("3 of 4 sites" in result["note"]) is (answered < 5)
    messages = {s["name"]: s["messages"] for s in result["sites"]}
    assert messages["site-3"] == answered - 1
    assert left["client"] == [s["name"] for s in result["sites"]].index("site-3")
    assert_same(folder, tables)


@pytest.mark.no_cover
@pytest.mark.parametrize("crash_at", [15, 17, 18, 22, 26, 29])
def test_a_run_without_somebody_is_resumed(tmp_path, crash_at):
    """The last site was given up: it is not waited for again, nor summed."""
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", **SUMS)
    with pytest.raises(Crash):
        serve_run(Mute(folders, {103: 2}, crash_at=crash_at), folder)
    assert len(events(folder, "left")) == 1
    serve_run(Mute(folders, {103: 0}), folder)
    result = read_result(folder)
    assert result["n_clusters"] == 4
    assert "3 of 4 sites" in result["note"]
    assert len(absorbed(folder)) == len(set(absorbed(folder))) == 4 + 3 * 8
    assert_same(folder, tables)


def test_labels_are_the_nearest_centre(tmp_path):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    serve_run(ListEngine(folders), folder)
    result = read_result(folder)
    low, span = (np.array(result["scale"][name]) for name in ("low", "span"))
    centers = (np.array(result["centers"]) - low) / span
    for address, home in folders.items():
        rows = (tables[address - 100] - low) / span
        nearest = ((rows[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        labels = pl.read_csv(home / "labels.csv")["cluster"].to_numpy()
        assert np.array_equal(labels, nearest)


@pytest.mark.no_cover
@pytest.mark.parametrize("crash_at", range(1, 21))
def test_killed_anywhere_and_resumed(tmp_path, crash_at):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=crash_at), folder)
    serve_run(ListEngine(folders), folder)
    assert read_result(folder)["n_clusters"] == 4
    assert len(absorbed(folder)) == len(set(absorbed(folder))) == 12
    assert_same(folder, tables)


@pytest.mark.no_cover
@pytest.mark.parametrize("last_look", range(3, 60, 3))
def test_killed_while_some_have_answered(tmp_path, last_look):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    slow = {101: 4, 102: 8, 103: 12}
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, slow=slow, last_look=last_look), folder)
    serve_run(ListEngine(folders, slow=slow), folder)
    assert len(absorbed(folder)) == len(set(absorbed(folder))) == 12
    assert_same(folder, tables)


def test_killed_twice(tmp_path):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    for crash_at in (7, 4):
        with pytest.raises(Crash):
            serve_run(ListEngine(folders, crash_at=crash_at), folder)
    serve_run(ListEngine(folders), folder)
    assert len(events(folder, "resumed")) == 2
    assert_same(folder, tables)


def test_a_line_of_the_trace_cut_off_by_the_crash(tmp_path):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=14), folder)
    path = folder / "trace.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if '"event":"update"' in line)
    path.write_text("".join(lines[:last]) + lines[last][:25])
    serve_run(ListEngine(folders), folder)
    assert_same(folder, tables)


def test_a_late_joiner_brings_its_cluster(tmp_path):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", min_clients=3)
    post = ListEngine(folders, arrives={102: 50}, slow={100: 20})
    serve_run(post, folder)
    assert read_result(folder)["n_clusters"] == 4
    joined = {e["name"]: e["tick"] for e in events(folder, "ranges")}
    assert joined["site-2"] > 0
    assert open_membership(folders[102]).state == DONE
    assert_same(folder, tables)


@pytest.mark.no_cover
@pytest.mark.parametrize("arrives", range(4, 16))
def test_whoever_was_let_in_is_in_the_result(tmp_path, arrives):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", min_clients=3)
    serve_run(ListEngine(folders, arrives={102: arrives}, slow={100: 1}), folder)
    joined = {e["name"] for e in events(folder, "ranges")}
    assert {site["name"] for site in read_result(folder)["sites"]} == joined
    assert_same(folder, tables)


def test_a_site_that_dies_while_it_is_greeted(tmp_path):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", min_clients=3)
    post = ListEngine(folders, arrives={102: 6}, leaves={102: 9}, slow={102: 1})
    serve_run(post, folder)
    assert events(folder, "end")[-1]["reason"] == "done"
    assert len(read_result(folder)["sites"]) == 3


def test_lingering_for_a_late_joiner(tmp_path):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", min_clients=3, linger=100.0)
    serve_run(ListEngine(folders, arrives={103: 40}), folder)
    assert len(read_result(folder)["sites"]) == 4


def test_a_site_that_dies_before_its_second_answer(tmp_path):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    serve_run(ListEngine(folders, leaves={101: 6}), folder)
    result = read_result(folder)
    assert result["n_clusters"] == 4
    assert {s["name"]: s["messages"] for s in result["sites"]}["site-1"] < 3
    assert [e["client"] for e in events(folder, "left")]
    assert_same(folder, tables)


def test_a_site_that_comes_back_under_another_address(tmp_path):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    home = folders[101]
    post = ListEngine({**folders, 201: home}, arrives={201: 12}, leaves={101: 6})
    post.slow = {100: 30}
    serve_run(post, folder)
    result = read_result(folder)
    assert result["n_clusters"] == 4
    assert len(result["sites"]) == 4
    assert open_membership(home).state == DONE


def test_a_site_that_never_answers_again_ends_by_patience(tmp_path):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", patience=60.0, grace=30.0)
    serve_run(ListEngine(folders, slow={103: 5}), folder)
    assert events(folder, "end")[-1]["reason"] == "done"


def test_who_does_not_fit_is_told_why(tmp_path):
    tables, folders = write_sites(tmp_path)
    path = folders[103] / "rows.csv"
    pl.DataFrame(tables[3], schema=["height", "mass"]).write_csv(path)
    folder = plan(tmp_path / "run", min_clients=3)
    serve_run(ListEngine(folders), folder)
    refused = open_membership(folders[103])
    assert refused.state == REFUSED
    assert "weight" in refused.reason
    assert [e["name"] for e in events(folder, "refused")] == ["site-3"]
    assert len(read_result(folder)["sites"]) == 3


def test_a_refused_site_mends_its_file_and_comes_back(tmp_path):
    tables, folders = write_sites(tmp_path)
    home = folders[103]
    good = open_membership(home)
    rows = pl.DataFrame(tables[3], schema=list(COLUMNS))
    rows.rename({"weight": "we_ight"}).write_csv(home / "rows.csv")
    folder = plan(tmp_path / "run", min_clients=3)

    class Mended(ListEngine):
        def _here(self, address):
            return super()._here(address) and (
                address != 103 or not 15 <= self.looks < 20
            )

        def nodes(self):
            if self.looks == 16:
                rows.write_csv(home / "rows.csv")
                keep_membership(home, good)
            return super().nodes()

    serve_run(Mended(folders, slow={100: 10}), folder)
    assert [e["name"] for e in events(folder, "refused")] == ["site-3"]
    assert open_membership(home).state == DONE
    assert len(read_result(folder)["sites"]) == 4


def test_a_late_site_that_does_not_fit(tmp_path):
    tables, folders = write_sites(tmp_path)
    path = folders[103] / "rows.csv"
    pl.DataFrame(tables[3][:, :1], schema=["height"]).write_csv(path)
    folder = plan(tmp_path / "run", min_clients=3)
    serve_run(ListEngine(folders, arrives={103: 50}, slow={100: 20}), folder)
    assert open_membership(folders[103]).state == REFUSED
    assert len(read_result(folder)["sites"]) == 3


def test_another_unit_is_refused(tmp_path):
    _, folders = write_sites(tmp_path)
    for address, home in folders.items():
        unit = "cm" if address == 102 else "m"
        member = open_membership(home)
        keep_membership(home, replace(member, units={"height": unit}))
    folder = plan(tmp_path / "run", min_clients=3)
    serve_run(ListEngine(folders), folder)
    assert "cm" in open_membership(folders[102]).reason


def test_a_name_that_is_taken(tmp_path):
    _, folders = write_sites(tmp_path)
    other = open_membership(folders[103])
    keep_membership(folders[103], replace(other, name="site-0"))
    folder = plan(tmp_path / "run", min_clients=3)
    serve_run(ListEngine(folders), folder)
    states = [open_membership(home).state for home in folders.values()]
    assert sorted(states) == [DONE, DONE, DONE, REFUSED]


def test_given_ranges_keep_the_extremes_at_home(tmp_path):
    _, folders = write_sites(tmp_path)
    bounds = {"height": (-1.0, 8.0), "weight": (-1.0, 8.0)}
    folder = plan(tmp_path / "run", ranges=bounds)
    serve_run(ListEngine(folders), folder)
    result = read_result(folder)
    assert result["scale"]["low"] == [-1.0, -1.0]
    assert result["n_clusters"] == 4


@pytest.mark.parametrize("options", [{"min_cell": 5}, {}])
def test_a_site_keeps_to_its_own_smallest_cell(tmp_path, options):
    _, folders = write_sites(tmp_path)
    strict = open_membership(folders[103])
    keep_membership(folders[103], replace(strict, min_cell=10))
    folder = plan(tmp_path / "run", options=options)
    serve_run(ListEngine(folders), folder)
    failures = [e["reason"] for e in events(folder, "failure")]
    assert any("fewer than 10 rows" in reason for reason in failures)
    assert len(read_result(folder)["sites"]) == 3


def test_a_site_takes_part_in_its_own_method_only(tmp_path):
    _, folders = write_sites(tmp_path)
    rival = {"method": "dk++", "options": {"n_clusters": 4}}
    folder = plan(tmp_path / "run", **rival, patience=0.01)
    with pytest.raises(InputError, match="no client said hello"):
        serve_run(ListEngine(folders), folder)


def test_a_rival_with_memory_runs_too(tmp_path):
    _, folders = write_sites(tmp_path)
    for home in folders.values():
        keep_membership(home, replace(open_membership(home), method="fed-sc"))
    folder = plan(tmp_path / "run", method="fed-sc", options={"n_clusters": 4})
    serve_run(ListEngine(folders), folder)
    assert all(open_membership(home).state == DONE for home in folders.values())


def test_rows_that_change_during_the_run_are_noticed(tmp_path):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")

    class Changing(ListEngine):
        def send(self, address, data):
            if self.sent == 9:
                rows = pl.DataFrame(tables[0][1:], schema=list(COLUMNS))
                rows.write_csv(folders[100] / "rows.csv")
            return super().send(address, data)

    serve_run(Changing(folders), folder)
    reasons = [e["reason"] for e in events(folder, "failure")]
    assert any("have changed" in reason for reason in reasons)


def test_a_message_of_another_run_is_refused_by_the_site(tmp_path):
    _, folders = write_sites(tmp_path)
    serve_run(ListEngine(folders), plan(tmp_path / "run"))
    for home in folders.values():
        (home / "result.json").unlink()
    again = plan(tmp_path / "again", run="other", min_clients=1, patience=5.0)

    class Brief(ListEngine):
        def nodes(self):
            if self.looks > 50:
                raise Crash
            return super().nodes()

    with pytest.raises(Crash):
        serve_run(Brief(folders), again)
    reasons = [e["reason"] for e in events(again, "refused")]
    assert len(reasons) == 4
    assert all("another run" in reason for reason in reasons)


def test_no_row_is_in_what_the_server_gets(tmp_path):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    serve_run(ListEngine(folders), folder)
    kept = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    low = np.min([t.min(axis=0) for t in tables], axis=0)
    span = np.max([t.max(axis=0) for t in tables], axis=0) - low
    for table in tables:
        for row in ((table - low) / span)[:50]:
            assert row.tobytes() not in kept


def test_a_folder_without_a_plan(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        serve_run(ListEngine({}), tmp_path)


def test_the_plan_survives_the_disk(tmp_path):
    made = RunPlan("run", "afcl", {"min_cell": 3}, 1, 5, 2, ("a",), {"a": (0.0, 1.0)})
    made.write(tmp_path)
    read = RunPlan.read(tmp_path)
    assert read.columns == made.columns
    assert json.dumps(read.ranges) == json.dumps({"a": [0.0, 1.0]})


# ------------------------------------------------------------------ hostile sites


class Spoiling(ListEngine):
    """What the site at `address` answers to some requests is changed on its way."""

    def __init__(self, folders, address, spoil, **facts):
        super().__init__(folders, **facts)
        self.address, self.spoil = address, spoil

    def poll(self):
        return [self._spoilt(answer) for answer in super().poll()]

    def _spoilt(self, answer):
        if answer.client != self.address or isinstance(answer, Failure):
            return answer
        return replace(answer, data=self.spoil(answer.data))


def claiming(rows):
    """Say hello with another number of rows."""

    def spoil(data):
        said = decode(data)
        return encode(replace(said, n_rows=rows)) if isinstance(said, Hello) else data

    return spoil


def silent_in_words(data):
    return data if b"Announcement" in data else b"rubbish"


def test_a_site_registers_what_it_announced(tmp_path):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    serve_run(Spoiling(folders, 101, claiming(10**6)), folder)
    (client,) = {e["client"] for e in events(folder, "rejected")}
    assert {e["reason"].split(",")[0] for e in events(folder, "rejected")} == {
        "a hello of 1000000 rows"
    }
    (left,) = events(folder, "left")
    assert (left["client"], left["reason"]) == (
        client,
        "3 messages in a row were refused",
    )
    names = [site["name"] for site in read_result(folder)["sites"]]
    assert names == ["site-0", "site-2", "site-3"]


@pytest.mark.parametrize("crash_at", [10, 12, 14, 16])
def test_who_was_shut_out_stays_out_of_a_resumed_run(tmp_path, crash_at):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    with pytest.raises(Crash):
        serve_run(Spoiling(folders, 101, silent_in_words, crash_at=crash_at), folder)
    serve_run(Spoiling(folders, 101, silent_in_words), folder)
    assert len(events(folder, "rejected")) == 3
    assert len(events(folder, "left")) == 1


def test_an_answer_that_comes_twice_is_noted_and_changes_nothing(tmp_path):
    class Stuttering(ListEngine):
        old: tuple[Reply | Failure, ...] = ()

        def poll(self):
            now = super().poll()
            again, self.old = self.old, tuple(now)
            return [*again, *now]

    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run")
    serve_run(Stuttering(folders), folder)
    assert len(events(folder, "duplicate")) == 12
    assert events(folder, "rejected") == []
    assert len(absorbed(folder)) == len(set(absorbed(folder))) == 12
    assert_same(folder, tables)


def test_who_says_too_many_rows_is_told_and_left_out(tmp_path):
    tables, folders = write_sites(tmp_path)
    sizes = [len(table) for table in tables]
    biggest, most = int(np.argmax(sizes)), sorted(sizes)[-2]
    assert most < max(sizes)
    folder = plan(tmp_path / "run", min_clients=3, max_rows=most)
    serve_run(ListEngine(folders), folder)
    (refused,) = events(folder, "refused")
    assert refused["name"] == f"site-{biggest}"
    assert refused["reason"] == (
        f"site-{biggest} has {max(sizes)} rows, a site may have at most {most}: allow "
        "more with --max-rows if that is true"
    )
    assert len(read_result(folder)["sites"]) == 3
