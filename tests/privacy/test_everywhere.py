# SPDX-License-Identifier: Apache-2.0
"""`privacy=` everywhere: estimator, simulator, command line, live sites."""

from __future__ import annotations

import json
import os
import stat
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from afcl import AFCL, make_method
from afcl.cli import main
from afcl.core.tasks import Part, SecureHello
from afcl.core.terms import AskAnnouncement, AskHello, Terms
from afcl.data import iid_split, kmeans_split, make_sd1
from afcl.exceptions import InputError, RejectedMessage, SmallClientsWarning
from afcl.methods import get_method
from afcl.privacy.files import kept_secret
from afcl.runtime.codec import decode, encode
from afcl.runtime.inprocess import InProcess
from afcl.runtime.live.member import LEDGER, SECRET, answer, check_terms
from afcl.runtime.live.membership import Membership, keep_membership
from afcl.runtime.schedule import EventClock, Schedule
from afcl.runtime.simulate import simulate
from afcl.runtime.spec import Spec
from afcl.runtime.transport import Reply
from afcl.scale import Box

LOW, HIGH = np.full(2, -1.0), np.full(2, 7.0)


@pytest.fixture(scope="module")
def sd1():
    X, _ = make_sd1(0)
    return X, kmeans_split(X, 5, random_state=0)


@pytest.mark.parametrize(
    "level",
    [
        None,
        "grouped(5)",
        "grouped(8)",
        "secure",
        "secure+summary",
        "secure(plain)+summary",
        "dp(8)",
        "secure+dp(8)",
    ],
)
def test_every_level_finds_the_clusters(sd1, level):
    X, owner = sd1
    scale: Any = (LOW, HIGH) if level and "dp" in level else "minmax"
    model = AFCL(privacy=level, scale=scale, cohort=3, random_state=0)
    model.fit(X, clients=owner)
    assert model.n_clusters_ == 4
    assert model.predict(X[:5]).tolist() == model.labels_[:5].tolist()


def test_rivals_estimator_takes_the_level_too(sd1):
    X, owner = sd1
    model = make_method("afcl", privacy="grouped(5)", random_state=0)
    assert model.fit(X, clients=owner).n_clusters_ == 4


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"privacy": "dp(8)"}, "needs public bounds"),
        ({"privacy": "dp(8)", "scale": None}, "needs public bounds"),
        ({"privacy": "secure", "cohort": 3, "scale": None}, "needs a common scale"),
        ({"privacy": "secure", "cohort": 6}, "cohorts of 6 clients, there are 5"),
        ({"privacy": "secure+exact"}, "goes with summary"),
        ({"privacy": "secure", "cohort": 2}, "at least 3"),
        ({"privacy": "magic"}, "is unknown"),
        ({"privacy": "affine"}, "not available with preset 'default'"),
    ],
)
def test_what_a_level_lacks_is_said_in_one_line(sd1, arguments, text):
    X, owner = sd1
    with pytest.raises(InputError, match=text) as error:
        AFCL(random_state=0, **arguments).fit(X, clients=owner)
    assert "\n" not in str(error.value)


class OneAtATime(Schedule):
    """Client r mod p alone takes part in round r."""

    def takes_part(self, client, round, bound):
        return round % 5 == client


@pytest.mark.parametrize("seed", range(3))
def test_affine_gives_the_papers_seeds(sd1, seed):
    X, owner = sd1
    seeds = []
    for level in ("exact", "affine"):
        model = AFCL(
            preset="paper",
            privacy=level,
            n_seeds=8,
            learning_rate=0.01,
            max_rounds=30,
            participation=OneAtATime(),
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[::10], clients=owner[::10])
        found = model._clustering.seeds
        assert found is not None
        seeds.append(found)
    assert np.abs(seeds[0] - seeds[1]).max() < 1e-12


def test_affine_with_many_uploads_a_round_runs_and_counts_all_rows(sd1):
    X, owner = sd1
    model = AFCL(preset="paper", privacy="affine", max_rounds=3, random_state=0)
    model.fit(X[::10], clients=owner[::10])
    assert model.cluster_sizes_.sum() == 230
    with pytest.raises(InputError, match="anchor"):
        make_method("afcl-paper", privacy="affine", anchor="current")


@pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning")
def test_small_mixed_clients_are_warned_of(sd1):
    X, _ = sd1
    tables = np.array_split(X[:600], 30)
    with pytest.warns(SmallClientsWarning, match="privacy=None"):
        AFCL(random_state=0, privacy="summary").fit_clients(tables)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SmallClientsWarning)
        for level in (None, "secure"):
            AFCL(random_state=0, privacy=level).fit_clients(tables)


class Tapped(InProcess):
    """Remembers every byte that goes up."""

    heard: list[tuple[int, bytes]] = []

    def _ask(self, ticket, client, contact, data):
        reply = super()._ask(ticket, client, contact, data)
        assert isinstance(reply, Reply)
        self.heard.append((contact, reply.data))
        return reply


def test_under_secure_the_server_sees_masked_numbers_only(sd1, monkeypatch):
    X, _ = sd1
    owner = iid_split(X.shape[0], 12, random_state=0)
    tables = [X[owner == g] for g in range(12)]
    Tapped.heard = []
    monkeypatch.setattr("afcl.runtime.simulate.InProcess", Tapped)
    spec = Spec(get_method("afcl"), {"privacy": "secure", "cohort": 4}, 0)
    outcome = simulate(spec, tables)
    assert outcome.clustering.k == 4
    after = [data for contact, data in Tapped.heard if contact > 0]
    # Two counts, who holds them, two sums and the scores of everybody.
    assert len(after) == 84
    bits = []
    for contact, data in Tapped.heard:
        if contact < 0:
            continue
        said = decode(data).payload
        if contact == 0:
            assert isinstance(said, SecureHello)
        else:
            assert isinstance(said, Part)
            # Plain counts and sums of a few hundred rows would leave high bits empty.
            assert np.abs(said.values).max() > 2**60
            bits.append(np.unpackbits(said.values.view(np.uint8)))
    share = np.concatenate(bits)
    assert abs(share.mean() - 0.5) < 5 * 0.5 / share.size**0.5


@pytest.mark.parametrize("seed", range(4))
def test_cohorts_form_from_asynchronous_arrivals_and_outlive_drop_outs(sd1, seed):
    X, _ = sd1
    owner = iid_split(X.shape[0], 16, random_state=seed)
    tables = [X[owner == g] for g in range(16)]
    clock = EventClock(leaves={0: 3, 5: 4}, late={9: 5}, latency_mean=2.0, loss=0.2)
    spec = Spec(get_method("afcl"), {"privacy": "secure", "cohort": 4}, seed)
    outcome = simulate(spec, tables, clock)
    assert outcome.clustering.k == 4
    state = outcome.finished.state
    answered = sum(int(cells.counts.sum()) for cells in state.answered.values())
    assert answered == sum(state.rows[client] for client in state.spoken)


def test_clients_that_only_say_hello_do_not_stop_the_cohorts(sd1):
    X, _ = sd1
    owner = iid_split(X.shape[0], 16, random_state=0)
    tables = [X[owner == g] for g in range(16)]
    spec = Spec(get_method("afcl"), {"privacy": "secure", "cohort": 4}, 0)
    outcome = simulate(spec, tables, Schedule(silent=(1, 6, 11)))
    assert outcome.clustering.k == 4
    assert outcome.finished.rounds < 100
    assert outcome.finished.state.spoken == set(range(16)) - {1, 6, 11}


# ------------------------------------------------------------------ command line


@pytest.fixture(scope="module")
def files(sd1, tmp_path_factory):
    X, owner = sd1
    folder = tmp_path_factory.mktemp("files")
    for g in range(5):
        frame = pl.DataFrame(X[owner == g], schema=["u", "v"])
        frame.write_csv(folder / f"site{g}.csv")
    return sorted(folder.glob("*.csv"))


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


BOUNDS = ("--ranges", "u=-1:7", "--ranges", "v=-1:7")


@pytest.mark.parametrize(
    ("level", "more", "words"),
    [
        ("grouped(5)", (), "groups of rows did"),
        ("secure", ("--cohort", "3"), "only sums over cohorts"),
        ("dp(8)", BOUNDS, "noise hides every single row"),
    ],
)
def test_afcl_run_takes_the_level(files, tmp_path, capsys, level, more, words):
    code, out, err = call(
        capsys, "run", *files, "--out", tmp_path / "o", "--privacy", level, *more
    )
    assert code == 0, err
    assert words in out
    result = json.loads((tmp_path / "o" / "result.json").read_text())
    assert result["n_clusters"] == 4
    assert result["parameters"]["privacy"].startswith(level.split("(")[0])


def test_seeded_noise_is_not_said_to_hide_anything(files, tmp_path, capsys):
    words = ("--out", tmp_path / "o", "--privacy", "dp(8)", "--seeded-noise", *BOUNDS)
    code, out, err = call(capsys, "run", *files, *words)
    assert code == 0, err
    assert "hides every single row" not in out
    assert "whoever knows the seed can take the noise off again." in out
    assert "simulated, not a guarantee." in out


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--privacy", "dp(8)"), "needs public bounds"),
        (("--privacy", "secure", "--cohort", "6"), "there are 5"),
        (("--privacy", "secure+affine"), "goes with summary"),
        (("--ranges", "u=0:1"), "give bounds for v too"),
        ((*BOUNDS, "--ranges", "w=0:1"), "--ranges names 'w'"),
        (("--ranges", "u"), "COLUMN=LOW:HIGH"),
    ],
)
def test_afcl_run_says_what_is_missing(files, tmp_path, capsys, more, text):
    code, _, err = call(capsys, "run", *files, "--out", tmp_path / "o", *more)
    assert code == 2
    assert text in err
    assert not (tmp_path / "o" / "result.json").exists()


# ------------------------------------------------------------------ live sites


@pytest.fixture
def member(files, tmp_path):
    folder = tmp_path / "member"
    folder.mkdir()
    return folder, Membership(str(files[0]), "site-0")


def terms(level, run="run"):
    options = json.dumps({"privacy": level})
    return Terms(run, "afcl", options, 0, 0, Box(LOW, HIGH - LOW), 2300, ("u", "v"))


def test_a_secret_is_drawn_once_and_nobody_else_may_read_it(tmp_path):
    secret = kept_secret(tmp_path / SECRET)
    assert len(secret) == 32
    assert kept_secret(tmp_path / SECRET) == secret
    assert stat.S_IMODE(os.stat(tmp_path / SECRET).st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [SECRET]
    (tmp_path / "other").mkdir()
    assert kept_secret(tmp_path / "other" / SECRET) != secret


@pytest.mark.parametrize(
    ("insists", "level", "allowed"),
    [
        ("summary", "summary", True),
        ("summary", "dp(8)", True),
        ("grouped(5)", "summary", False),
        ("grouped(5)", "secure", True),
        ("dp(4)", "dp(8)", False),
        ("summary", "secure+summary", True),
        ("secure+summary", "summary", False),
        ("grouped(5)", "secure+summary", False),
    ],
)
def test_a_site_insists_on_its_level(member, insists, level, allowed):
    _, membership = member
    membership = replace(membership, privacy=insists)
    if allowed:
        check_terms(membership, terms(level))
    else:
        with pytest.raises(RejectedMessage, match="insists on privacy"):
            check_terms(membership, terms(level))


@pytest.mark.parametrize("insists", ["summary", "secure+summary", "exact"])
def test_a_live_site_adds_nothing_up_unmasked(member, insists):
    folder, membership = member
    membership = replace(membership, privacy=insists)
    asked = terms("secure(plain)+summary")
    with pytest.raises(RejectedMessage, match="is for simulations"):
        check_terms(membership, asked)
    keep_membership(folder, membership)
    with pytest.raises(RejectedMessage, match="is for simulations"):
        answer(folder, encode(AskHello(asked)))


def test_a_site_tells_extremes_of_groups_if_it_insists_on_groups(member):
    folder, membership = member
    keep_membership(folder, replace(membership, privacy="grouped(5)"))
    grouped = decode(answer(folder, encode(AskAnnouncement("run", True))))
    rows = np.loadtxt(membership.data, delimiter=",", skiprows=1)
    assert np.all(grouped.low > rows.min(axis=0))
    assert np.all(grouped.high < rows.max(axis=0))
    # Both together would tell more than either.
    keep_membership(folder, membership)
    with pytest.raises(RejectedMessage, match="groups of 5 rows were told before"):
        answer(folder, encode(AskAnnouncement("run", True)))


def test_a_site_pays_once_and_stops_at_its_budget(member, home):
    folder, membership = member
    membership = replace(membership, budget=6.0)
    keep_membership(folder, membership)
    said = answer(folder, encode(AskHello(terms("dp(4)"))))
    before = (home / LEDGER).read_bytes()
    assert answer(folder, encode(AskHello(terms("dp(4)")))) == said
    assert (home / LEDGER).read_bytes() == before
    keep_membership(folder, membership)
    with pytest.raises(RejectedMessage, match="site-0: "):
        answer(folder, encode(AskHello(terms("dp(5.9)", "another run"))))
    assert (home / LEDGER).read_bytes() == before
