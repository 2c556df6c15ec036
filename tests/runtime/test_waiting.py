# SPDX-License-Identifier: Apache-2.0
"""Ordinary outages of live runs: who is waited for, how long, and what is asked again.

The clock of `no_waiting` moves by a second with every pause, and nobody really waits.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.runtime.test_federation import (
    COLUMNS,
    Crash,
    ListEngine,
    assert_same,
    events,
    no_waiting,
    plan,
    write_sites,
)

from afcl.cli.status import RunLog
from afcl.core.terms import AskHello, AskStep, Finish, Terms
from afcl.report import write_report
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.farewell import is_served, may_go_on, read_end
from afcl.runtime.live.membership import (
    DONE,
    JOINED,
    REFUSED,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.requests import AGAIN, SELDOM, SOON, Requests
from afcl.runtime.live.server import serve_run
from afcl.runtime.live.trouble import answer_or_reason
from afcl.runtime.results import read_result
from afcl.runtime.transport import Failure, Reply
from afcl.scale import no_box

assert no_waiting  # a fixture for every test here


class Outage(ListEngine):
    """From a look on some sites, or all, cannot be reached for so many seconds."""

    def __init__(self, folders, clock, look, seconds, who=None, **facts):
        super().__init__(folders, last_look=20_000, **facts)
        self.clock, self.look, self.seconds = clock, look, seconds
        self.who = set(folders) if who is None else set(who)
        self.began = None

    def nodes(self):
        if self.looks + 1 >= self.look and self.began is None:
            self.began = self.clock.now
        return super().nodes()

    def _here(self, address):
        away = self.began is not None and address in self.who
        over = not away or self.clock.now >= self.began + self.seconds
        return super()._here(address) and over


def notes(folder):
    return [event["text"] for event in events(folder, "note")]


def end_of(folder):
    end = read_end(folder)
    assert end is not None
    return end


def reason(folder):
    return events(folder, "end")[-1]["reason"]


# ------------------------------------------------------------------ nobody is there


@pytest.mark.parametrize("level", ["summary", "secure+summary"])
def test_a_resumed_run_waits_for_its_sites(tmp_path, no_waiting, level):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": level})
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=14), folder)
    begin = no_waiting.now
    serve_run(Outage(folders, no_waiting, 1, 450.0), folder)
    assert no_waiting.now >= begin + 450.0
    assert reason(folder) == "done"
    assert read_result(folder)["n_clusters"] == 4
    assert_same(folder, tables)


@pytest.mark.parametrize("level", ["summary", "secure+summary"])
def test_a_resumed_run_to_which_nobody_comes_ends_when_patience_does(
    tmp_path, no_waiting, level
):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": level}, patience=300.0)
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=14), folder)
    begin = no_waiting.now
    serve_run(Outage(folders, no_waiting, 1, 1e9), folder)
    assert 300.0 <= no_waiting.now - begin <= 650.0
    assert reason(folder) == "patience"
    text = "the run goes on with 0 of the 4 sites it wants (--min-clients)"
    (told,) = [note for note in notes(folder) if text in note]
    assert told.startswith("nothing came of site-0, site-1, site-2, site-3 for 300 s")


@pytest.mark.no_cover
@pytest.mark.parametrize("level", ["summary", "secure+summary"])
@pytest.mark.parametrize("look", [3, 4, 5, 6])
def test_all_sites_offline_for_a_while_end_nothing(tmp_path, no_waiting, level, look):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": level}, patience=600.0)
    serve_run(Outage(folders, no_waiting, look, 45.0, slow={101: 1}), folder)
    assert no_waiting.now >= 45.0
    assert reason(folder) == "done"
    assert not events(folder, "left")
    result = read_result(folder)
    assert result["n_clusters"] == 4
    assert len({site["messages"] for site in result["sites"]}) == 1
    assert not [note for note in notes(folder) if "min-clients" in note]
    assert_same(folder, tables)


def test_fewer_than_wanted_are_told_everywhere(tmp_path, no_waiting):
    """Terminal, result and report say that the run went on with too few."""
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "summary"}, patience=300.0)
    log = RunLog(folder)
    serve_run(Outage(folders, no_waiting, 6, 1e9, who=[101]), folder)
    assert no_waiting.now >= 300.0
    text = (
        "nothing came of site-1 for 300 s: the run goes on with 3 of the 4 sites it "
        "wants (--min-clients)"
    )
    assert f"note: {text}" in log.new_lines()
    assert text in read_result(folder)["notes"]
    assert text in write_report(folder).read_text()


def test_who_is_gone_is_not_waited_for_while_enough_are_there(tmp_path, no_waiting):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", min_clients=3, patience=600.0)
    serve_run(Outage(folders, no_waiting, 6, 1e9, who=[101]), folder)
    assert len(events(folder, "left")) == 1
    assert reason(folder) == "done"
    assert no_waiting.now < 100.0


def test_a_newcomer_makes_up_for_who_is_lost(tmp_path, no_waiting):
    _, folders = write_sites(tmp_path, n_sites=5)
    folder = plan(tmp_path / "run", options={"privacy": "summary"}, patience=600.0)
    arrives = {104: 40}
    engine = Outage(folders, no_waiting, 6, 1e9, who=[101], arrives=arrives)
    serve_run(engine, folder)
    assert no_waiting.now < 200.0
    assert reason(folder) == "done"
    assert len(read_result(folder)["sites"]) == 5
    assert not [note for note in notes(folder) if "min-clients" in note]


# ------------------------------------------------------------------ rounds


@pytest.mark.parametrize("level", ["summary", "secure+summary"])
def test_rounds_are_answers_of_every_site(tmp_path, level):
    """Sites that answer one by one are as many ticks, but one round."""
    _, folders = write_sites(tmp_path)
    most = 3 if level == "summary" else 8
    slow = {address: 3 * place for place, address in enumerate(folders)}
    folder = plan(tmp_path / "run", options={"privacy": level}, max_rounds=most)
    serve_run(ListEngine(folders, slow=slow), folder)
    assert reason(folder) == "done"
    result = read_result(folder)
    assert result["rounds"] == most - 1
    assert [site["messages"] for site in result["sites"]] == [most] * 4


def test_a_run_ends_at_its_limit_of_rounds(tmp_path):
    _, folders = write_sites(tmp_path)
    options = {"privacy": "summary"}
    folder = plan(tmp_path / "run", options=options, max_rounds=1)
    serve_run(ListEngine(folders), folder)
    assert reason(folder) == "max_rounds"
    sites = read_result(folder)["sites"]
    assert [site["messages"] for site in sites] == [2] * 4  # a hello and one answer


def test_a_resumed_run_goes_on_counting_rounds(tmp_path):
    _, folders = write_sites(tmp_path)
    options = {"privacy": "summary"}
    folder = plan(tmp_path / "run", options=options, max_rounds=1)
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=12), folder)
    serve_run(ListEngine(folders), folder)
    sites = read_result(folder)["sites"]
    assert [site["messages"] for site in sites] == [2] * 4


# ------------------------------------------------------------------ asked again


class Losing(ListEngine):
    """The n-th request to a site is lost, though the site stays where it is."""

    def __init__(self, folders, address, nth, **facts):
        super().__init__(folders, **facts)
        self.address, self.nth, self.seen = address, nth, 0

    def send(self, address, data):
        ticket = super().send(address, data)
        if address == self.address:
            self.seen += 1
            if self.seen == self.nth:
                self.lose(ticket, address)
        return ticket

    def lose(self, ticket, address):
        answer_or_reason(self.folders[address], self.flying[ticket][2])
        del self.flying[ticket]  # it was answered, and the answer never came


class Confessing(Losing):
    """The same with an engine that knows what it has lost."""

    confessed: tuple[Failure, ...] = ()

    def lose(self, ticket, address):
        super().lose(ticket, address)
        failure = Failure(ticket, address, "the site was started anew", lost=True)
        self.confessed = (failure,)

    def poll(self):
        told, self.confessed = self.confessed, ()
        return [*told, *super().poll()]


@pytest.mark.no_cover
@pytest.mark.parametrize("level", ["summary", "secure+summary"])
@pytest.mark.parametrize("nth", [2, 3, 4])
@pytest.mark.parametrize("engine", [Losing, Confessing])
def test_a_lost_request_is_asked_again(tmp_path, no_waiting, engine, nth, level):
    if level == "summary" and nth == 4:
        nth = 3  # the fourth is the end
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": level}, patience=600.0)
    serve_run(engine(folders, 101, nth), folder)
    assert reason(folder) == "done"
    assert not events(folder, "left", "failure", "rejected")
    result = read_result(folder)
    assert len(result["sites"]) == 4
    assert len({site["messages"] for site in result["sites"]}) == 1
    assert no_waiting.now < (60.0 if engine is Confessing else 150.0)
    assert_same(folder, tables)


@pytest.mark.parametrize("engine", [Losing, Confessing])
def test_the_end_is_told_again_too(tmp_path, engine):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "summary"}, serve_end=1000.0)
    serve_run(engine(folders, 101, 5), folder)
    assert all(open_membership(home).state == DONE for home in folders.values())


def test_a_lost_question_who_a_site_is(tmp_path):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "summary"})
    serve_run(Confessing(folders, 101, 1), folder)
    assert len(read_result(folder)["sites"]) == 4
    assert not events(folder, "refused")


class Posts(ListEngine):
    """An engine that only keeps what it is given."""

    def __init__(self):
        super().__init__({})
        self.given = []

    def send(self, address, data):
        self.given.append((address, data))
        return len(self.given)


def test_requests_are_sent_again_ever_more_seldom(no_waiting):
    posts = Posts()
    requests = Requests(posts, no_waiting.look)
    ticket = requests.send(0, 3, b"what?", 100)
    at, times = no_waiting.now, []
    while no_waiting.now - at < 4000:
        no_waiting.pause(1)
        before = len(posts.given)
        requests.send_again({0: 100}, {100})
        times += [no_waiting.now - at] * (len(posts.given) - before)
    assert times == [60, 180, 420, 900, 1500, 2100, 2700, 3300, 3900]
    assert (AGAIN, SELDOM) == (60.0, 600.0)
    assert set(posts.given) == {(100, b"what?")}
    # Any of them may bring the answer, which has the first one's ticket.
    heard = requests.hear(Reply(5, 100, b"that"))
    assert heard == (Reply(ticket, 0, b"that"), 3)
    assert not requests.clients
    # The others bring nothing new, and the same one twice is a duplicate.
    assert requests.hear(Reply(4, 100, b"that")) is None
    assert (requests.twice(4), requests.twice(5)) == (None, 0)


def test_what_the_engine_has_lost_is_sent_again_soon(no_waiting):
    posts = Posts()
    requests = Requests(posts, no_waiting.look)
    ticket = requests.send(0, 1, b"what?", 100)
    assert requests.hear(Failure(ticket, 100, "lost", lost=True)) is None
    requests.send_again({0: 100}, {100})
    assert len(posts.given) == 1
    no_waiting.now += SOON
    requests.send_again({0: 100}, set())  # it is not here
    assert len(posts.given) == 1
    requests.send_again({0: 100}, {100})
    assert len(posts.given) == 2
    heard = requests.hear(Failure(2, 100, "cannot"))
    assert heard == (Failure(ticket, 0, "cannot"), 1)


def test_who_is_back_is_asked_at_once_and_who_is_dropped_never(no_waiting):
    posts = Posts()
    requests = Requests(posts, no_waiting.look)
    requests.send(0, 1, b"what?", 100)
    ticket = requests.send(1, 1, b"and?", 101)
    requests.hurry(0)
    requests.drop(1)
    requests.drop(2)
    requests.hurry(2)
    no_waiting.now += 1000
    requests.send_again({0: 200, 1: 101}, {200, 101})
    assert posts.given[2:] == [(200, b"what?")]
    assert requests.hear(Reply(ticket, 101, b"late")) is None


@pytest.mark.parametrize("method", ["afcl", "fed-sc"])
def test_the_same_request_gets_the_same_answer(tmp_path, method):
    """Also after the site has moved on."""
    options = {} if method == "afcl" else {"n_clusters": 4}
    _, folders = write_sites(tmp_path)
    for home in folders.values():
        keep_membership(home, replace(open_membership(home), method=method))
    folder = plan(tmp_path / "run", method=method, options=options, max_rounds=6)

    seen = {}

    def tell(home, data):
        said, why = answer_or_reason(home, data)
        if home == folders[100] and isinstance(decode(data), AskHello | AskStep):
            assert why == ""
            seen[data] = said
            for old, before in seen.items():
                assert answer_or_reason(home, old) == (before, "")
        return said, why

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.runtime.test_federation.answer_or_reason", tell)
        serve_run(ListEngine(folders), folder)
    assert len(seen) >= 2
    assert read_result(folder)["n_clusters"] == 4


def test_an_answer_is_remembered_for_its_rows_alone(tmp_path):
    path = tmp_path / "rows.csv"
    rows = np.random.default_rng(0).normal(size=(30, 2))
    pl.DataFrame(rows, schema=list(COLUMNS)).write_csv(path)
    keep_membership(tmp_path, Membership(str(path), "a", run="run", state=JOINED))
    terms = Terms("run", "afcl", "{}", 0, 0, no_box(2), 30, COLUMNS)
    ask = encode(AskHello(terms))
    first = answer_or_reason(tmp_path, ask)
    assert first[1] == ""
    pl.DataFrame(rows[1:], schema=list(COLUMNS)).write_csv(path)
    assert answer_or_reason(tmp_path, ask) == first
    other = encode(AskHello(replace(terms, client=1)))
    assert "terms" in answer_or_reason(tmp_path, other)[1]


# ------------------------------------------------------------------ a site that fails


def test_three_failures_and_a_site_is_left_out(tmp_path, no_waiting):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "summary"}, min_clients=3)

    class Changing(ListEngine):
        def send(self, address, data):
            if self.sent == 9:
                rows = pl.DataFrame(tables[0][1:], schema=list(COLUMNS))
                rows.write_csv(folders[100] / "rows.csv")
            return super().send(address, data)

    log = RunLog(folder)
    serve_run(Changing(folders), folder)
    failures = events(folder, "failure")
    assert len(failures) == 3
    why = "could not answer 3 times in a row: the rows of site-0 have changed"
    assert any(line.startswith(f"refused site-0: {why}") for line in log.new_lines())
    left_out = open_membership(folders[100])
    assert left_out.state == REFUSED
    assert left_out.reason.startswith(why)
    assert reason(folder) == "done"
    states = [open_membership(folders[101 + i]).state for i in range(3)]
    assert states == [DONE] * 3
    end = end_of(folder)
    assert (len(end.told), end.missing) == (3, ())  # nobody waits for site-0


def test_a_site_that_was_left_out_comes_back_mended(tmp_path, no_waiting):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "summary"}, min_clients=3)
    home = folders[103]
    whole = (home / "rows.csv").read_bytes()
    joined = open_membership(home)

    class Mended(ListEngine):
        def _here(self, address):
            away = address == 103 and 140 <= self.looks < 150
            return super()._here(address) and not away

        def nodes(self):
            if self.looks == 100:
                (home / "rows.csv").unlink()
            if self.looks == 145:
                (home / "rows.csv").write_bytes(whole)
                keep_membership(home, joined)
            return super().nodes()

    serve_run(Mended(folders, slow={100: 60}), folder)
    assert len(events(folder, "failure")) == 3
    assert open_membership(home).state == DONE
    messages = {s["name"]: s["messages"] for s in read_result(folder)["sites"]}
    assert messages["site-3"] >= 3


def test_failures_in_a_row_are_counted_anew_after_an_answer(tmp_path):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "secure+summary"})

    class Stumbling(ListEngine):
        """Every answer of one site comes at the third try."""

        tries: dict[bytes, int]

        def poll(self):
            return [self.stumble(answer) for answer in super().poll()]

        def send(self, address, data):
            ticket = super().send(address, data)
            self.asked = {**getattr(self, "asked", {}), ticket: data}
            return ticket

        def stumble(self, answer):
            asked = decode(self.asked[answer.ticket])
            if answer.client != 101 or not hasattr(asked, "contact"):
                return answer
            self.tries = getattr(self, "tries", {})
            count = self.tries[asked.version] = self.tries.get(asked.version, 0) + 1
            if count % 3:
                return Failure(answer.ticket, 101, "the disk is full")
            return answer

    serve_run(Stumbling(folders), folder)
    assert len(events(folder, "failure")) >= 6
    assert not events(folder, "left", "refused")
    assert reason(folder) == "done"


# ------------------------------------------------------------------ the end


def away_at_the_end(folders, clock, back, **facts):
    """Return an engine whose third site goes before it is told the end."""

    class Away(ListEngine):
        told_from = None

        def _here(self, address):
            if not super()._here(address):
                return False
            return address != 102 or self.told_from is None or clock.now >= back

        def send(self, address, data):
            ended = isinstance(decode(data), Finish)
            if ended and address == 102 and self.told_from is None:
                self.told_from = self.looks
            return super().send(address, data)

    return Away(folders, last_look=20_000, **facts)


def test_who_is_away_at_the_end_gets_its_labels_when_it_is_back(tmp_path, no_waiting):
    _, folders = write_sites(tmp_path)
    options = {"options": {"privacy": "summary"}, "min_clients": 3}
    folder = plan(tmp_path / "run", **options, serve_end=86_400.0)
    engine = away_at_the_end(folders, no_waiting, 5000.0)
    serve_run(engine, folder)
    assert no_waiting.now >= 5000.0
    assert open_membership(folders[102]).state == DONE
    assert (folders[102] / "labels.csv").is_file()
    told = [note for note in notes(folder) if note.startswith("told the end")]
    assert told == ["told the end to site-0, site-1, site-3", "told the end to site-2"]
    end = end_of(folder)
    assert (end.state, end.missing) == ("over", ())
    assert is_served(folder)


def test_without_serving_the_end_nobody_is_waited_for(tmp_path, no_waiting):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "summary"}, grace=20.0)
    serve_run(away_at_the_end(folders, no_waiting, 1e9), folder)
    assert no_waiting.now < 100.0
    end = end_of(folder)
    assert (end.state, end.missing) == ("over", ("site-2",))
    assert not may_go_on(folder)


def test_the_end_is_served_no_longer_than_said(tmp_path, no_waiting):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "summary"}, serve_end=3000.0)
    serve_run(away_at_the_end(folders, no_waiting, 1e9), folder)
    assert 3000.0 <= no_waiting.now < 3100.0
    assert is_served(folder)


def test_the_result_is_final_before_anybody_is_told(tmp_path):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "summary"})
    found = []

    class Watching(ListEngine):
        def send(self, address, data):
            if isinstance(decode(data), Finish):
                found.append((folder / "result.json").read_bytes())
            return super().send(address, data)

    serve_run(Watching(folders), folder)
    assert found == [(folder / "result.json").read_bytes()] * 4


@pytest.mark.parametrize("address", [102, 202])
def test_a_killed_server_goes_on_serving_the_end(tmp_path, no_waiting, address):
    """Under the same address or another one: the site is known by its name."""
    _, folders = write_sites(tmp_path)
    options = {"privacy": "summary"}
    folder = plan(tmp_path / "run", options=options, serve_end=86_400.0)
    engine = away_at_the_end(folders, no_waiting, 1e9)
    engine.last_look = 200
    with pytest.raises(Crash):
        serve_run(engine, folder)
    before = (folder / "result.json").read_bytes()
    assert may_go_on(folder)
    assert not is_served(folder)
    serve_run(ListEngine({address: folders[102]}), folder)
    assert open_membership(folders[102]).state == DONE
    assert is_served(folder)
    assert (folder / "result.json").read_bytes() == before


def test_who_took_no_part_is_told_that_the_run_is_over(tmp_path, no_waiting):
    _, folders = write_sites(tmp_path, n_sites=5)
    options = {"privacy": "summary"}
    folder = plan(tmp_path / "run", options=options, serve_end=2000.0)
    stranger = folders.pop(104)
    engine = away_at_the_end(folders, no_waiting, 1000.0, arrives={900: 300})
    engine.folders = {**folders, 900: stranger}
    serve_run(engine, folder)
    told = open_membership(stranger)
    assert told.state == REFUSED
    assert told.reason.startswith("the run is over and this site took no part in it")
    assert open_membership(folders[102]).state == DONE


def test_a_site_that_cannot_label_is_not_asked_without_end(tmp_path, no_waiting):
    tables, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "summary"}, serve_end=500.0)

    class Changed(ListEngine):
        ends = 0

        def send(self, address, data):
            if isinstance(decode(data), Finish) and address == 100:
                self.ends += 1
                rows = pl.DataFrame(tables[0][1:], schema=list(COLUMNS))
                rows.write_csv(folders[100] / "rows.csv")
            return super().send(address, data)

    engine = Changed(folders, last_look=20_000)
    serve_run(engine, folder)
    assert engine.ends == 3
    assert end_of(folder).missing == ("site-0",)


def test_nothing_of_other_sites_is_kept_where_all_can_read_it(tmp_path):
    _, folders = write_sites(tmp_path)
    folder = plan(tmp_path / "run", options={"privacy": "summary"})
    serve_run(ListEngine(folders), folder)
    for name in ("end.json", "end.bin"):
        assert (folder / name).stat().st_mode & 0o077 == 0
    assert json.loads((folder / "end.json").read_text())["state"] == "over"
