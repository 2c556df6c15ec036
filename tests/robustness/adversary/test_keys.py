# SPDX-License-Identifier: Apache-2.0
"""A coordinator that exchanges keys, and somebody who takes over a site's name.

Members of a cohort hide their numbers from everybody by keys that the coordinator hands
on. Here it hands on others: its own in place of another site's, one site's in place of
another's, those of puppets and of former runs. And another address comes under the name
of a site that is away, through the real admission.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.keys import make_key
from tests.runtime import test_federation as live
from tests.runtime.test_federation import (
    Crash,
    ListEngine,
    Spoiling,
    events,
    plan,
)

from afcl._typing import Floats
from afcl.core.messages import Addressed, Hello
from afcl.core.refine import coarse
from afcl.core.tasks import COUNT, Proof, Question, Task
from afcl.core.terms import AskHello, AskStep, Terms
from afcl.exceptions import RejectedMessage
from afcl.privacy.identity import identity_of, mask_key, private_key, sign
from afcl.privacy.masks import digest, mask, public_key
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.announcement import Announcement
from afcl.runtime.live.enrolment import ENROLLED
from afcl.runtime.live.member import answer
from afcl.runtime.live.membership import (
    DONE,
    REFUSED,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.server import serve_run
from afcl.runtime.results import read_result
from afcl.scale import Box

no_waiting = live.no_waiting

SEEDS = np.array([[0.1, 0.1], [0.5, 0.5], [0.9, 0.9]])
QUESTION = Question(COUNT, (coarse(SEEDS),))
BOX = Box(np.zeros(2), np.ones(2))
OPTIONS = json.dumps({"privacy": "secure+summary"})
#: What the coordinator masks with, where it plays a site.
FALSE = [bytes([i]) * 32 for i in range(1, 4)]


@dataclass
class Cohort:
    """Three sites, and what a coordinator has heard of them."""

    folders: list[Path]
    rows: list[Floats]
    keys: list[Path]
    run: str = "run"

    def terms(self, site):
        return Terms(self.run, "afcl", OPTIONS, 0, site, BOX, 120, ("u", "v"))

    def hello(self, site):
        return decode(answer(self.folders[site], encode(AskHello(self.terms(site)))))

    def task(self):
        """Return what an honest coordinator asks the first site."""
        said = [self.hello(site).payload for site in range(3)]
        keys = tuple(each.key for each in said)
        proofs = tuple(each.proof for each in said)
        proven = proofs if None not in proofs else None
        return Task(0, COUNT, (0, 1, 2), keys, 0, QUESTION, proofs=proven)

    def ask(self, task, site=0):
        request = AskStep(self.terms(site), 1, 1, Addressed(None, task))
        return decode(answer(self.folders[site], encode(request)))

    def proof(self, site, client, name, key):
        """Sign something as a site, of its own will."""
        private = private_key(self.keys[site])
        return sign(private, mask_key(self.run, client, name, key))


@pytest.fixture
def join(tmp_path):
    """Return what lets three sites join a run, with the same keys in every one."""
    rng = np.random.default_rng(0)
    rows = [rng.random((40, 2)) for _ in range(3)]
    keys = [make_key(tmp_path / "keys", f"site-{site}") for site in range(3)]

    def joined(run="run", signed=True, **asked):
        folders = []
        for site in range(3):
            folder = tmp_path / run / str(site)
            folder.mkdir(parents=True)
            path = tmp_path / f"{site}.csv"
            pl.DataFrame(rows[site], schema=["u", "v"]).write_csv(path)
            own = str(keys[site]) if signed else ""
            member = Membership(str(path), f"site-{site}", key=own, runs=9, **asked)
            keep_membership(folder, member)
            folders.append(folder)
        return Cohort(folders, rows, keys, run)

    return joined


def counts(rows):
    nearest = ((rows[:, None] - SEEDS[None]) ** 2).sum(axis=2).argmin(axis=1)
    return np.bincount(nearest, minlength=3)


def between(task):
    """Put the coordinator's own keys in the place of all others'."""
    own = task.keys[task.place]
    keys = [public_key(FALSE[i]) for i in range(3)]
    keys[task.place] = own
    return replace(task, keys=tuple(keys))


def read(task, part):
    """Take off the masks, which are the coordinator's own but for the site's half.

    Those of its two puppets towards each other cancel.
    """
    total = part.values.view(np.uint64)
    for place in {0, 1, 2} - {task.place}:
        hidden = mask(FALSE[place], place, task.keys, digest(task), 3)
        total = total + hidden.view(np.uint64)
    return total.view(np.int64).tolist()


# ------------------------------------------------------------------ keys exchanged


def test_with_keys_of_its_own_a_coordinator_reads_unsigned_members(join):
    """What signatures are for: it is in the middle between every two of them."""
    cohort = join(signed=False)
    honest, task = cohort.task(), between(cohort.task())
    assert read(task, cohort.ask(task).payload) == counts(cohort.rows[0]).tolist()
    assert read(honest, cohort.ask(honest).payload) != counts(cohort.rows[0]).tolist()


def test_an_exchanged_mask_key_is_refused(join):
    cohort = join()
    task = cohort.task()
    with pytest.raises(RejectedMessage, match="site-1 is not signed by its key"):
        cohort.ask(between(task))
    one = (*task.keys[:2], public_key(FALSE[2]))
    with pytest.raises(RejectedMessage, match="site-2 is not signed by its key"):
        cohort.ask(replace(task, keys=one))
    cohort.ask(task)


def test_two_members_cannot_be_swapped(join):
    cohort = join()
    task = cohort.task()
    a, b, c = task.proofs
    for change in (
        {"proofs": (a, c, b)},
        {"members": (0, 2, 1)},
        {"keys": (task.keys[0], task.keys[2], task.keys[1])},
        {"proofs": (a, c, b), "keys": (task.keys[0], task.keys[2], task.keys[1])},
        {"proofs": (a, replace(b, name=c.name), replace(c, name=b.name))},
        {"proofs": (a, replace(b, identity=c.identity), c)},
    ):
        with pytest.raises(RejectedMessage, match="is not signed by its key"):
            cohort.ask(replace(task, **change))
    with pytest.raises(RejectedMessage, match="as somebody else"):
        cohort.ask(replace(task, place=1))
    with pytest.raises(RejectedMessage, match="as somebody else"):
        cohort.ask(replace(task, proofs=(replace(a, name="site-1"), b, c)))
    with pytest.raises(RejectedMessage, match="as somebody else"):
        cohort.ask(replace(task, members=(3, 1, 2)))


def test_a_member_counts_once(join):
    """A site that helps the coordinator signs as often as it likes."""
    cohort = join()
    task = cohort.task()
    a, b, _ = task.proofs
    key = public_key(FALSE[2])
    for client, name, text in (
        (2, "site-1", "same name or the same key"),
        (2, "site-2", "same name or the same key"),
        (1, "site-2", "one number, one key"),
    ):
        double = Proof(name, b.identity, cohort.proof(1, client, name, key))
        with pytest.raises(RejectedMessage, match=text):
            cohort.ask(
                replace(
                    task,
                    members=(0, 1, client),
                    keys=(*task.keys[:2], key),
                    proofs=(a, b, double),
                )
            )
    for change in ({"proofs": (a, b)}, {"keys": task.keys[:2]}, {"place": 3}):
        with pytest.raises(RejectedMessage, match="one number, one key"):
            cohort.ask(replace(task, **change))


def test_a_site_with_a_key_is_summed_with_nobody_without(join):
    cohort = join()
    with pytest.raises(RejectedMessage, match="summed with nobody without"):
        cohort.ask(replace(cohort.task(), proofs=None))
    cohort.ask(cohort.task())


def test_a_signature_of_another_run_or_number_does_not_do(join):
    cohort, before = join(), join("before")
    task = cohort.task()
    a, b, c = task.proofs
    key = before.hello(1).payload.key
    for number, run in ((1, "before"), (2, "run"), (0, "run")):
        about = mask_key(run, number, "site-1", key)
        old = replace(b, signature=sign(private_key(cohort.keys[1]), about))
        keys = (task.keys[0], key, task.keys[2])
        with pytest.raises(RejectedMessage, match="site-1 is not signed by its key"):
            cohort.ask(replace(task, proofs=(a, old, c), keys=keys))
    about = mask_key("run", 1, "site-1", key)
    new = replace(b, signature=sign(private_key(cohort.keys[1]), about))
    cohort.ask(replace(task, proofs=(a, new, c), keys=keys))


@pytest.mark.parametrize("bad", ["", "\x1b[2Jsite", "a/b", "x" * 300])
def test_a_name_that_is_none_is_not_repeated(join, bad):
    cohort = join()
    task = cohort.task()
    a, b, c = task.proofs
    with pytest.raises(RejectedMessage, match="name") as error:
        cohort.ask(replace(task, proofs=(a, replace(b, name=bad), c)))
    assert not bad or bad not in str(error.value)


# ------------------------------------------------------------------ puppets


def with_puppet(cohort, task, folder, name):
    """Put a site of the coordinator's own, with its own key, in the third place."""
    private = private_key(make_key(folder, name))
    key = public_key(FALSE[2])
    signature = sign(private, mask_key(cohort.run, 2, name, key))
    proof = Proof(name, identity_of(private), signature)
    keys, proofs = (*task.keys[:2], key), (*task.proofs[:2], proof)
    return replace(task, keys=keys, proofs=proofs)


@pytest.mark.parametrize("name", ["site-2", "puppet"])
def test_a_puppet_is_not_in_the_list_of_members(join, tmp_path, name):
    listed = tmp_path / "members"
    pubs = [tmp_path / "keys" / f"site-{site}.pub" for site in (1, 2)]
    listed.write_text("".join(path.read_text() for path in pubs))
    cohort = join(members=str(listed))
    task = cohort.task()
    with pytest.raises(RejectedMessage, match=f"{name} is not in the list"):
        cohort.ask(with_puppet(cohort, task, tmp_path / "false", name))
    cohort.ask(task)


def test_a_puppet_under_a_known_name_is_refused_from_the_second_run_on(join, tmp_path):
    first = join("first")
    first.ask(first.task())
    second = join("second")
    task = with_puppet(second, second.task(), tmp_path / "false", "site-2")
    with pytest.raises(RejectedMessage, match="site-2 has another key than before"):
        second.ask(task)
    second.ask(second.task())


def test_a_puppet_is_seen_where_fingerprints_are_compared(join, tmp_path):
    cohort = join()
    task = cohort.task()
    puppet = with_puppet(cohort, task, tmp_path / "false", "puppet")
    cohort.ask(puppet)
    cohort.ask(replace(task, place=1), site=1)
    cohort.ask(replace(task, place=2), site=2)
    met = [open_membership(folder).met for folder in cohort.folders]
    assert len(met[1]) == 1
    assert met[0] != met[1] == met[2]
    # Nor does it help to show the right members later.
    cohort.ask(task)
    assert open_membership(cohort.folders[0]).met == (*met[0], *met[1])


# ------------------------------------------------------------------ names taken over


def sign_sites(tmp_path, folders):
    """Give every site a key of its own."""
    for folder in folders.values():
        member = open_membership(folder)
        key = make_key(tmp_path / "keys", member.name)
        keep_membership(folder, replace(member, key=str(key)))


def enrol(tmp_path, run, *names):
    to = run / ENROLLED
    to.mkdir(parents=True, exist_ok=True)
    for name in names:
        (to / f"{name}.pub").write_bytes(
            (tmp_path / "keys" / f"{name}.pub").read_bytes()
        )


def namesake(tmp_path, of, key):
    """Return the folder of somebody else who calls itself like a site."""
    folder = tmp_path / "namesake"
    folder.mkdir()
    rows = folder / "rows.csv"
    rows.write_bytes((of / "rows.csv").read_bytes())
    keep_membership(folder, Membership(str(rows), open_membership(of).name, key=key))
    return folder


SECURE = {"options": {"privacy": "secure+summary"}}


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("level", [{}, SECURE])
def test_a_name_is_not_taken_over_while_its_site_is_away(tmp_path, signed, level):
    _, folders = live.write_sites(tmp_path)
    sign_sites(tmp_path, folders)
    key = str(make_key(tmp_path / "false", "site-1")) if signed else ""
    other = namesake(tmp_path, folders[101], key)
    folder = plan(tmp_path / "run", linger=60.0, **level)
    post = ListEngine({**folders, 201: other}, arrives={201: 12}, leaves={101: 6})
    serve_run(post, folder)
    assert [event["tick"] for event in events(folder, "ranges")] == [0] * 4
    assert events(folder, "left")
    refused = open_membership(other)
    assert refused.state == REFUSED
    assert refused.reason == (
        "the name site-1 belongs to another key: choose another with --name"
    )


def test_a_site_comes_back_with_its_own_key(tmp_path):
    _, folders = live.write_sites(tmp_path)
    sign_sites(tmp_path, folders)
    folder = plan(tmp_path / "run", linger=60.0)
    back = {**folders, 201: folders[101]}
    serve_run(ListEngine(back, arrives={201: 12}, leaves={101: 6}), folder)
    assert [event["name"] for event in events(folder, "ranges")][4:] == ["site-1"]
    assert open_membership(folders[101]).state == DONE
    assert not events(folder, "refused")


def test_nor_after_the_server_was_killed(tmp_path):
    _, folders = live.write_sites(tmp_path)
    sign_sites(tmp_path, folders)
    other = namesake(
        tmp_path, folders[101], str(make_key(tmp_path / "false", "site-1"))
    )
    folder = plan(tmp_path / "run")
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=14), folder)
    rest = {address: at for address, at in folders.items() if address != 101}
    serve_run(ListEngine({**rest, 201: other}, slow={100: 20}), folder)
    assert "belongs to another key" in open_membership(other).reason


def test_who_is_not_enrolled_is_refused_by_its_key(tmp_path):
    """The engine lets in who proves an enrolled key; the name must be signed by one."""
    _, folders = live.write_sites(tmp_path, n_sites=5)
    sign_sites(tmp_path, folders)
    unsigned = open_membership(folders[104])
    keep_membership(folders[104], replace(unsigned, key=""))
    folder = plan(tmp_path / "run", min_clients=3, signed=True)
    enrol(tmp_path, folder, "site-0", "site-1", "site-2", "site-4")
    serve_run(ListEngine(folders), folder)
    for address in (103, 104):
        refused = open_membership(folders[address])
        assert "does not sign with a key that is enrolled" in refused.reason
    assert len(read_result(folder)["sites"]) == 3


def test_an_announcement_cannot_be_played_again(tmp_path):
    """Somebody who heard one repeats it from another address."""
    _, folders = live.write_sites(tmp_path)
    sign_sites(tmp_path, folders)
    heard: list[bytes] = []

    class Parrot(Spoiling):
        def poll(self):
            said = super().poll()
            heard.extend(a.data for a in said if a.client == 101)
            return said

    def repeat(data):
        return heard[0] if isinstance(decode(data), Announcement) else data

    folder = plan(tmp_path / "run", linger=60.0)
    others = {**folders, 201: folders[101]}
    serve_run(Parrot(others, 201, repeat, arrives={201: 12}, leaves={101: 6}), folder)
    (refused,) = events(folder, "refused")
    assert refused["reason"] == (
        "site-1: the announcement is not signed by its own key"
    )


# ------------------------------------------------------------------ one bad site


def spoilt(change):
    """Return what changes the proof of a hello."""

    def spoil(data):
        said = decode(data)
        if not isinstance(said, Hello):
            return data
        proof = change(said.payload.proof)
        return encode(replace(said, payload=replace(said.payload, proof=proof)))

    return spoil


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: None,
        lambda proof: replace(proof, signature="00" * 100),
        lambda proof: replace(proof, signature="0" * 10**6),
        lambda proof: replace(proof, identity="A" * 10**6),
        lambda proof: replace(proof, name="site-0"),
    ],
)
def test_a_site_cannot_spoil_a_cohort_by_a_bad_signature(tmp_path, change):
    """Its key is refused by the coordinator; the others would refuse all of it."""
    _, folders = live.write_sites(tmp_path)
    sign_sites(tmp_path, folders)
    folder = plan(tmp_path / "run", **SECURE)
    serve_run(Spoiling(folders, 101, spoilt(change)), folder)
    reasons = {event["reason"] for event in events(folder, "rejected")}
    assert reasons == {"the mask key of site-1 is not signed by its key"}
    names = [site["name"] for site in read_result(folder)["sites"]]
    assert names == ["site-0", "site-2", "site-3"]
    assert not events(folder, "failure")


def test_nor_a_site_without_a_key_by_any(tmp_path):
    _, folders = live.write_sites(tmp_path)
    folder = plan(tmp_path / "run", **SECURE)
    made = spoilt(lambda proof: Proof("site-1", "", ""))
    serve_run(Spoiling(folders, 101, made), folder)
    assert len(events(folder, "rejected")) == 3
    assert len(read_result(folder)["sites"]) == 3


# ------------------------------------------------------------------ honest runs


def test_signed_sites_find_the_same_and_know_each_other(tmp_path):
    tables, folders = live.write_sites(tmp_path, n_sites=5)
    plain = plan(tmp_path / "plain", min_clients=5, **SECURE)
    serve_run(ListEngine(folders), plain)
    (tmp_path / "again").mkdir()
    _, folders = live.write_sites(tmp_path / "again", n_sites=5)
    for each in folders.values():
        keep_membership(each, replace(open_membership(each), runs=2))
    sign_sites(tmp_path, folders)
    folder = plan(tmp_path / "run", min_clients=5, signed=True, **SECURE)
    enrol(tmp_path, folder, *(f"site-{site}" for site in range(5)))
    with pytest.raises(Crash):
        serve_run(ListEngine(folders, crash_at=24), folder)
    serve_run(ListEngine(folders, slow={102: 3}), folder)
    assert read_result(folder)["centers"] == read_result(plain)["centers"]
    live.assert_same(folder, tables)
    told = [read_result(home)["site"]["members"] for home in folders.values()]
    assert len(told[0]) == 1
    assert told == [told[0]] * 5


def test_who_is_left_of_a_cohort_is_another_list(tmp_path):
    _, folders = live.write_sites(tmp_path, n_sites=5)
    sign_sites(tmp_path, folders)
    folder = plan(tmp_path / "run", min_clients=5, **SECURE)
    serve_run(ListEngine(folders, leaves={101: 9}), folder)
    assert events(folder, "left")
    met = [open_membership(home).met for home in folders.values()]
    assert len({each[-1] for each in (met[0], *met[2:])}) == 1
