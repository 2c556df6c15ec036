# SPDX-License-Identifier: Apache-2.0
"""The live page's server, without a browser."""

from __future__ import annotations

import json
import socket
import sys

import pytest

from afcl import dashboard
from afcl.dashboard.app import make_app
from afcl.dashboard.watch import Watcher
from afcl.exceptions import InputError

from .folders import events_of, result_of, to_lines, trust_of, write_run

testclient = pytest.importorskip("fastapi.testclient")


def client(folder, host="127.0.0.1", closing=lambda: False):
    app = make_app(folder, host, closing)
    return testclient.TestClient(app, base_url=f"http://{host}:8050")


def test_the_page_and_its_body(tmp_path):
    folder = write_run(tmp_path / "run", result_of(), events_of())
    here = client(folder)

    whole = here.get("/")
    assert whole.status_code == 200
    assert "3 clusters" in whole.text
    assert 'new EventSource("events")' in whole.text
    assert whole.headers["cache-control"] == "no-store"
    part = here.get("/page").json()
    assert part["word"] == "done"
    assert part["html"].startswith("<header>")
    assert part["html"] in whole.text
    assert here.get("/docs").status_code == 404


def test_the_live_page_is_no_louder_than_the_report(tmp_path):
    said = trust_of("none", -0.01, 0.97, {1: 0.97, 2: 0.03}, (1.0,), (1,))
    here = client(write_run(tmp_path / "run", result_of(1, **said), events_of()))

    part = here.get("/page").json()
    assert (part["word"], part["text"]) == ("doubtful", "done")
    assert "<h1>No clusters found</h1>" in part["html"]
    assert 'id="trust"' in part["html"]


def test_a_folder_to_come_is_waited_for(tmp_path):
    here = client(tmp_path / "not" / "yet")
    assert here.get("/page").json()["text"] == "waiting for the run to begin"
    assert not (tmp_path / "not").exists()


@pytest.mark.parametrize(
    ("host", "name", "code"),
    [
        ("127.0.0.1", "127.0.0.1:8050", 200),
        ("127.0.0.1", "localhost:8050", 200),
        ("127.0.0.1", "[::1]:8050", 200),
        ("127.0.0.1", "evil.example:8050", 421),
        ("127.0.0.1", "127.0.0.1.evil.example", 421),
        ("board.example", "board.example:8050", 200),
        ("0.0.0.0", "192.0.2.7:8050", 200),
        ("0.0.0.0", socket.gethostname(), 200),
        ("0.0.0.0", "evil.example", 421),
    ],
)
def test_foreign_names_are_refused(tmp_path, host, name, code):
    here = client(write_run(tmp_path, result_of()), host)
    for place in ("/", "/page"):
        assert here.get(place, headers={"Host": name}).status_code == code


def test_the_stream_tells_at_once_and_ends_with_the_server(tmp_path, monkeypatch):
    monkeypatch.setattr("afcl.dashboard.app.PAUSE", 0.0)
    monkeypatch.setattr("afcl.dashboard.app.SIGN", 2)
    folder = write_run(tmp_path, None, events_of(end=False))
    looks = iter(range(100))

    def closing():
        # Something new after three looks; the end after six.
        look = next(looks)
        if look == 3:
            write_run(tmp_path, result_of())
        return look == 6

    lines = client(folder, closing=closing).get("/events").text.split("\n\n")
    news = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]

    assert lines[0] == "retry: 1000"
    assert [said["word"] for said in news] == ["stalled", "done"]
    assert news[0]["version"] != news[1]["version"]
    assert ": still here" in lines


# ------------------------------------------------------------------ watching


def test_versions_are_those_of_the_files(tmp_path):
    folder = write_run(tmp_path, None, events_of(end=False))
    first, again = Watcher(folder), Watcher(folder)
    before = first.version()

    assert before == again.version()
    (folder / "something-else.txt").write_text("x")
    assert first.version() == before
    with open(folder / "trace.jsonl", "a") as lines:
        lines.write("\n")
    assert first.version() != before


def test_a_folder_is_read_only_when_it_changed(tmp_path, monkeypatch):
    folder = write_run(tmp_path, None, events_of(end=False, at=1000.0))
    now = [1040.0]
    watcher = Watcher(folder, lambda: now[0])
    news, run = watcher.look()
    assert news.state.word == "running"
    # Time alone turns running into stalled, without reading anything again.
    now[0] += 1000
    later, same = watcher.look()
    assert same is run
    assert (later.version, later.state.word) == (news.version, "stalled")
    write_run(folder, result_of())
    assert watcher.look()[0].state.word == "done"


def test_a_damaged_file_is_told_and_the_last_page_stays(tmp_path):
    folder = write_run(tmp_path, None, events_of(end=False))
    watcher = Watcher(folder)
    _, run = watcher.look()
    (folder / "result.json").write_text("{")
    news, same = watcher.look()
    assert news.state.word == "failed"
    assert "result.json cannot be read" in news.state.text
    assert same is run
    write_run(folder, result_of())
    assert watcher.look()[0].state.word == "done"
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "result.json").write_text("{")
    assert client(tmp_path / "new").get("/").status_code == 200


def test_no_row_of_any_site_is_shown(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("x0,x1\n" + "".join(f"12.{i}77,13.{i}99\n" for i in range(20)))
    result = result_of(k=2, n_features=2, n_sites=2)
    result["site"] = {"name": "s", "rows": 20, "sizes": [12, 8]}
    del result["sites"]
    folder = write_run(
        tmp_path / "site",
        result,
        None,
        site={"name": "s", "state": "done", "data": str(rows), "fingerprint": ""},
    )
    (folder / "labels.csv").write_text("cluster\n" + "0\n" * 12 + "1\n" * 8)
    page = client(folder).get("/").text

    assert 'class="rows"' not in page
    assert not any(f"12.{i}77" in page for i in range(20))
    # The page does not know the rows: without them and their labels it is the same.
    rows.unlink()
    (folder / "labels.csv").unlink()
    assert client(folder).get("/").text == page


# ------------------------------------------------------------------ starting


def test_what_can_go_wrong_at_the_start(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="is a file"):
        dashboard.serve(file, "127.0.0.1", 0, print)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="choose another port"):
            dashboard.serve(tmp_path, "127.0.0.1", taken.getsockname()[1], print)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(InputError, match=r"pip install 'afcl\[dashboard\]'"):
        dashboard.serve(tmp_path, "127.0.0.1", 0, print)


def test_it_serves_until_it_is_told_to_end(tmp_path, monkeypatch):
    import uvicorn

    heard = []

    def run(self, sockets):
        host, port = sockets[0].getsockname()
        heard.append(f"http://{host}:{port}/")
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", run)
    said: list[str] = []
    dashboard.serve(tmp_path, "127.0.0.1", 0, said.append)
    assert said == heard


def test_lines_are_read_as_they_come(tmp_path):
    events = events_of(end=False)
    folder = write_run(tmp_path, None, events[:10])
    watcher = Watcher(folder)
    assert watcher.look()[1].n_clusters is None
    with open(folder / "trace.jsonl", "a") as lines:
        lines.write(to_lines(events[10:])[:-20])  # the last line is not whole yet
    assert watcher.look()[1].rounds == 4
