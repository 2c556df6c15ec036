# SPDX-License-Identifier: Apache-2.0
"""At the door of a run: names belong to keys, refusals reach both sides by name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.keys import make_key
from tests.runtime import test_federation as live
from tests.runtime.test_federation import Crash, ListEngine, events, plan

from afcl.privacy.identity import identity_of, private_key
from afcl.runtime.agreement import MAX_ROWS
from afcl.runtime.live.door import ADDRESSES, addresses, forget_address, note_address
from afcl.runtime.live.enrolment import ENROLLED, read_key
from afcl.runtime.live.federation import Federation
from afcl.runtime.live.membership import (
    DONE,
    REFUSED,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.server import serve_run
from afcl.runtime.results import read_result

no_waiting = live.no_waiting  # a fixture

# ------------------------------------------------------------------ helpers


def keyed_sites(tmp_path, n_sites=4):
    """Write sites that have keys, called like them."""
    _, folders = live.write_sites(tmp_path, n_sites)
    for folder in folders.values():
        key = make_key(tmp_path / "keys", open_membership(folder).name)
        keep_membership(folder, replace(open_membership(folder), key=str(key)))
    return folders


def public(tmp_path, name, folder="keys"):
    return read_key(tmp_path / folder / f"{name}.pub")


def enrol(tmp_path, where, n_sites=4):
    """Return the federation in a folder, with the sites enrolled."""
    federation = Federation(where)
    federation.enrol([public(tmp_path, f"site-{site}") for site in range(n_sites)])
    return federation


def another(tmp_path, of, name, key):
    """Return the folder of somebody else, with the rows of a site."""
    folder = tmp_path / f"other-{name}"
    folder.mkdir()
    (folder / "rows.csv").write_bytes((of / "rows.csv").read_bytes())
    data = str(folder / "rows.csv")
    keep_membership(folder, Membership(data, name, key=str(key), runs=2))
    return folder


def signed(folder, **changes):
    return plan(folder, signed=True, min_clients=3, **changes)


class Eventful(ListEngine):
    """Something happens at a look."""

    def __init__(self, folders, at, happens, **facts):
        super().__init__(folders, **facts)
        self.at, self.happens = at, happens

    def nodes(self):
        if self.looks == self.at:
            self.happens()
        return super().nodes()


# ------------------------------------------------------------------ names and keys


@pytest.mark.parametrize("came_before", [True, False])
def test_nobody_comes_under_an_enrolled_name(tmp_path, came_before):
    """While site-3 is away, or has never come: site-4 has a key of its own."""
    folders = keyed_sites(tmp_path, 5)
    run = signed(tmp_path / "run", linger=60.0)
    enrol(tmp_path, run, 5)
    thief = another(tmp_path, folders[103], "site-3", tmp_path / "keys" / "site-4")
    mine = {a: f for a, f in folders.items() if a < (104 if came_before else 103)}
    post = ListEngine({**mine, 204: thief}, arrives={204: 12}, leaves={103: 6})
    serve_run(post, run)
    member = open_membership(thief)
    assert member.state == REFUSED
    assert member.reason == (
        "the name site-3 belongs to another key: join with --name site-4"
    )


def test_a_name_is_bound_in_later_runs_too(tmp_path):
    """And after restarts: by the federation's folder, not by the run's."""
    folders = keyed_sites(tmp_path)
    fed = tmp_path / "fed"
    enrol(tmp_path, fed)
    first = signed(fed / "run1", federation="..")
    serve_run(ListEngine(folders), first)
    before = Federation(fed).members()
    assert {m.name: m.clients for m in before} == {
        event["name"]: {"run": event["client"]} for event in events(first, "ranges")
    }
    second = signed(fed / "run2", run="again", federation="..")
    renamed = another(tmp_path, folders[100], "north", tmp_path / "keys" / "site-0")
    rest = {}
    for site in (1, 2, 3):
        key = tmp_path / "keys" / f"site-{site}"
        rest[100 + site] = another(tmp_path, folders[100 + site], f"site-{site}", key)
    serve_run(ListEngine({**rest, 300: renamed}), second)
    assert open_membership(renamed).reason == (
        "the key of north belongs to site-0: join with --name site-0"
    )
    numbers = {m.name: m.clients for m in Federation(fed).members()}
    assert numbers["site-0"] == {"run": before[0].clients["run"]}
    assert set(numbers["site-1"]) == {"run", "again"}


def test_a_site_may_choose_a_name_that_is_nobodys_once(tmp_path):
    folders = keyed_sites(tmp_path)
    home = folders[103]
    keep_membership(home, replace(open_membership(home), name="north"))
    run = signed(tmp_path / "run")
    federation = enrol(tmp_path, run)
    serve_run(ListEngine(folders), run)
    assert open_membership(home).state == DONE
    assert federation.owner("north") == federation.owner("site-3")
    assert federation.owner("north").called == "north"


def test_a_damaged_file_hinders_nobody(tmp_path):
    folders = keyed_sites(tmp_path)
    run = signed(tmp_path / "run")
    enrol(tmp_path, run)
    damaged = run / ENROLLED / "site-3.pub"
    damaged.write_text(damaged.read_text()[:60])
    serve_run(ListEngine(folders), run)
    assert "is enrolled here" in open_membership(folders[103]).reason
    assert len(read_result(run)["sites"]) == 3


# ------------------------------------------------------------------ revocation


@pytest.mark.parametrize("at", [2, 6, 10])
def test_a_revoked_site_is_put_out_and_both_sides_know(tmp_path, at):
    folders = keyed_sites(tmp_path)
    run = signed(tmp_path / "run")
    federation = enrol(tmp_path, run)
    slow = {100: 20}  # so that the run goes on for a while
    post = Eventful(folders, at, lambda: federation.revoke("site-3"), slow=slow)
    serve_run(post, run)
    member = open_membership(folders[103])
    assert member.state == REFUSED
    assert member.reason.startswith("the key of site-3 was revoked on 2")
    (refused,) = events(run, "refused")
    assert (refused["name"], refused["reason"]) == ("site-3", member.reason)
    assert not (folders[103] / "labels.csv").exists()
    sites = [site["name"] for site in read_result(run)["sites"]]
    said = {e["client"] for e in events(run, "hello")}
    assert ("site-3" in sites) is (len(said) == 4)  # what it said stays
    assert len(events(run, "left")) == (len(events(run, "ranges")) == 4)


def test_who_was_revoked_while_away_is_refused_when_back(tmp_path):
    folders = keyed_sites(tmp_path)
    run = signed(tmp_path / "run", linger=60.0)
    federation = enrol(tmp_path, run)

    class Away(Eventful):
        def _here(self, address):
            away = address == 103 and 6 <= self.looks < 20
            return super()._here(address) and not away

    serve_run(Away(folders, 10, lambda: federation.revoke("site-3")), run)
    assert "was revoked" in open_membership(folders[103]).reason
    assert [event["name"] for event in events(run, "refused")] == ["site-3"]
    assert len(events(run, "left")) == 1


def test_a_revoked_site_stays_out_of_a_resumed_run(tmp_path):
    folders = keyed_sites(tmp_path)
    run = signed(tmp_path / "run")
    federation = enrol(tmp_path, run)
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=12), run)
    federation.revoke("site-3")
    serve_run(ListEngine(folders), run)
    assert "was revoked" in open_membership(folders[103]).reason
    assert not (folders[103] / "labels.csv").exists()


@pytest.mark.parametrize("stays", [True, False])
def test_a_site_comes_back_with_its_new_key(tmp_path, stays):
    """Under its name and number, also if the old one is still connected."""
    folders = keyed_sites(tmp_path)
    run = signed(tmp_path / "run", linger=60.0)
    federation = enrol(tmp_path, run)
    key = make_key(tmp_path / "new", "site-3")
    renewed = another(tmp_path, folders[103], "site-3", key)

    def replace_key():
        federation.enrol([public(tmp_path, "site-3", "new")], replacing=True)

    post = Eventful({**folders, 203: renewed}, 10, replace_key)
    post.arrives = {203: 14}
    post.leaves = {} if stays else {103: 8}
    serve_run(post, run)
    assert open_membership(renewed).state == DONE
    *_, first, last = events(run, "ranges")
    assert last["name"] == "site-3"
    assert last["client"] in [e["client"] for e in events(run, "ranges")][:4]
    assert first != last
    assert federation.owner("site-3").identity == identity_of(private_key(key))
    assert federation.owner("site-3").clients == {"run": last["client"]}


# ------------------------------------------------------------------ who is refused


@pytest.mark.parametrize("known", [True, False])
def test_who_cannot_announce_itself_is_called_by_its_key(tmp_path, known):
    """It insists on dp, and tells no extremes: both sides hear it, and it ends."""
    folders = keyed_sites(tmp_path)
    home = folders[103]
    keep_membership(home, replace(open_membership(home), privacy="dp(1)"))
    run = signed(tmp_path / "run")
    enrol(tmp_path, run)
    if known:
        note_address(run, public(tmp_path, "site-3").identity, 103)
    serve_run(ListEngine(folders), run)
    (refused,) = events(run, "refused")
    assert refused["name"] == ("site-3" if known else "node 103")
    assert "tells no extremes" in refused["reason"]
    member = open_membership(home)
    assert member.state == REFUSED
    assert member.reason == refused["reason"]


def test_without_keys_nothing_is_bound(tmp_path):
    _, folders = live.write_sites(tmp_path)
    run = plan(tmp_path / "run", min_clients=3)
    serve_run(ListEngine(folders), run)
    assert not (run / "federation.json").exists()


def test_addresses_are_kept_and_forgotten(tmp_path):
    assert addresses(tmp_path) == {}
    for number, key in enumerate(("one", "two")):
        note_address(tmp_path, key, 1 << 63 | number)
    assert addresses(tmp_path) == {"one": 1 << 63, "two": 1 << 63 | 1}
    forget_address(tmp_path, "one")
    forget_address(tmp_path, "never")
    assert addresses(tmp_path) == {"two": 1 << 63 | 1}
    for damaged in ("", "[]", json.dumps({"two": "x"})):
        (tmp_path / ADDRESSES).write_text(damaged)
        assert addresses(tmp_path) == {}


# ------------------------------------------------------------------ how many rows


def test_a_site_of_more_rows_than_were_agreed_is_left_out(tmp_path, no_waiting):
    """By its key, whatever it is called, and whatever the run lets the others have."""
    folders = keyed_sites(tmp_path)
    federation = enrol(tmp_path, tmp_path / "run")
    sizes = [
        len(f.joinpath("rows.csv").read_text().split()) - 1 for f in folders.values()
    ]
    federation.enrol([public(tmp_path, "site-1")], max_rows=sizes[1] - 1)
    federation.enrol([public(tmp_path, "site-2")], max_rows=sizes[2])
    folder = plan(tmp_path / "run", min_clients=3, signed=True)
    for client, address in enumerate(folders):
        note_address(folder, public(tmp_path, f"site-{client}").identity, address)
    serve_run(ListEngine(folders), folder)
    (refused,) = events(folder, "refused")
    assert refused["name"] == "site-1"
    assert refused["reason"] == (
        f"site-1 has {sizes[1]} rows, and {sizes[1] - 1} at most were agreed when it "
        "was enrolled: if that is true, enrol its key again with --max-rows"
    )
    assert len(read_result(folder)["sites"]) == 3
    told = [open_membership(each).max_rows for each in folders.values()]
    assert told == [MAX_ROWS, sizes[1] - 1, sizes[2], MAX_ROWS]


def test_the_run_may_allow_less_than_was_agreed(tmp_path, no_waiting):
    folders = keyed_sites(tmp_path)
    federation = enrol(tmp_path, tmp_path / "run")
    federation.enrol([public(tmp_path, "site-1")], max_rows=10**9)
    folder = plan(tmp_path / "run", signed=True, max_rows=10**6)
    note_address(folder, public(tmp_path, "site-1").identity, list(folders)[1])
    serve_run(ListEngine(folders), folder)
    assert events(folder, "refused") == []
    assert {open_membership(each).max_rows for each in folders.values()} == {10**6}
