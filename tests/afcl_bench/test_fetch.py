# SPDX-License-Identifier: Apache-2.0
"""Fetching from a server of our own: what is taken, refused, kept and fetched again."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from afcl import __version__
from afcl.exceptions import InputError
from afcl_bench import fetch
from afcl_bench.datasets import load
from afcl_bench.fetch import HOME, cache_folder, checksum, class_codes, fetched
from afcl_bench.sources import SOURCES

IRIS = "5.1,3.5,1.4,0.2,Iris-setosa\n6,3,4.8,1.8,Iris-virginica\n\n"
IRIS_X = np.array([[5.1, 3.5, 1.4, 0.2], [6.0, 3.0, 4.8, 1.8]])

#: Per set: made-up lines in the layout of the public file, then rows and classes.
LAYOUTS: dict[str, tuple[str, Any, Sequence[str]]] = {
    "IR": (IRIS, IRIS_X, "13"),
    "SE": ("1\t2\t3\t\t4\t5\t6\t7\t\t2\n", [[1, 2, 3, 4, 5, 6, 7]], "2"),
    "AL": (
        "1,2,3,4,5,6,7,8,9,10,A\n0,0,0,0,0,0,0,0,0,0,W\n",
        [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [0] * 10],
        ["1", "10"],
    ),
    "AB": ("M,1,2,3,4,5,6,7,15\n", [[1, 2, 3, 4, 5, 6, 7]], ["15"]),
    "CC": (f"77,M,{','.join('5' * 30)}\n", [[77, *[5] * 30]], "1"),
    "AC": (
        f"language,X1\nUK,-12.48402055999,0.0118469028342{',1' * 10}\n",
        [[-12.48402056, 0.011846903, *[1] * 10]],
        "5",
    ),
    "SG": (
        f"REGION{',COL' * 18}\n\nGRASS{',1.0' * 19}\nBRICKFACE{',2' * 19}\n",
        [[1] * 19, [2] * 19],
        "71",
    ),
    "LI": (
        "status_id,status_type,status_published,num_reactions\n"
        f'1,video,"4/22/2018 6:00"{",3" * 9},,,,\n2,link,4/1/2018{",4" * 9},,,,\n',
        [[3] * 9, [4] * 9],
        ["1", "link"],
    ),
    "PA": (
        f"name{',f' * 16},status{',f' * 6}\nS1{',2' * 16},1{',3' * 6}\n",
        [[*[2] * 16, *[3] * 6]],
        "2",
    ),
    "AU": (
        f"Sector{',f' * 25},Risk\n"
        f"1,LOHARU{',2' * 16},99,4,4,4,4,4,98,5,1\n"
        f"1,{',2' * 16},99,4,4,4,4,4,98,5,0\n",
        [[1, 8, *[2] * 16, 4, 4, 4, 4, 4, 5]],
        "2",
    ),
    "TF": (
        'Recency,"F (times)",M,T,"whether"\n2,50,12500,98,1\n',
        [[2, 50, 12500, 98]],
        "2",
    ),
}


class Library:
    """A server's files, and what was asked of it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.agents: list[str | None] = []
        self.missing_bytes = 0


@contextmanager
def serving(library):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            library.asked.append(self.path)
            library.agents.append(self.headers["User-Agent"])
            if self.path not in library.files:
                self.send_error(404)
                return
            body = library.files[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) + library.missing_bytes))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def library(monkeypatch, tmp_path):
    monkeypatch.setenv("AFCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    library = Library()
    with serving(library) as address:
        monkeypatch.setenv("AFCL_DATA_MIRROR", f"{address}/")
        yield library


def packed(name, text, member=None):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Index", "what is here")
        archive.writestr(f"folder/{member or SOURCES[name].member}", text)
    return file.getvalue()


def path_of(name):
    return f"/{SOURCES[name].number}/{SOURCES[name].slug}.zip"


def expect(monkeypatch, name, X, labels):
    """Let the made-up rows be the paper's."""
    mark = checksum(np.array(X, dtype=np.float64), class_codes(labels))
    monkeypatch.setitem(SOURCES, name, replace(SOURCES[name], checksum=mark))


@pytest.fixture
def iris(library, monkeypatch):
    """Serve an archive with two made-up rows that count as the paper's."""
    library.files[path_of("IR")] = packed("IR", IRIS)
    expect(monkeypatch, "IR", IRIS_X, "13")
    return library


def refusal(name="IR", **options):
    """The error's message, which must be one line; and nothing may be in the cache."""
    with pytest.raises(InputError) as caught:
        fetched(name, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert "--data DIR" in message
    assert not cache_folder().exists()
    return message


# ------------------------------------------------------------------ the table


@pytest.mark.parametrize("name", SOURCES)
def test_every_set_is_cleaned_from_its_public_layout(name, library, monkeypatch):
    text, X, labels = LAYOUTS[name]
    expect(monkeypatch, name, X, labels)
    library.files[path_of(name)] = packed(name, text)
    data = load(f"{name}:paper" if name == "CC" else name)
    assert np.array_equal(data.X, X)
    assert data.y.tolist() == class_codes(labels).tolist()
    assert data.columns == tuple(f"A{i}" for i in range(1, data.X.shape[1] + 1))
    assert library.agents == [f"afcl/{__version__}"]


def test_every_set_has_its_own_checksum_and_place():
    assert len({source.checksum for source in SOURCES.values()}) == len(SOURCES)
    assert len({source.number for source in SOURCES.values()}) == len(SOURCES)
    assert all(len(source.checksum) == 64 for source in SOURCES.values())


def test_the_checksum_ignores_the_order_and_sees_values_and_classes():
    X, y = np.array([[1.0, -0.0], [2.0, 3.5]]), np.array([0, 1])
    mark = checksum(X, y)
    assert mark == checksum(X[::-1] + 0.0, y[::-1])
    assert mark != checksum(X, y[::-1])
    assert mark != checksum(np.nextafter(X, 9), y)


# ------------------------------------------------------------------ the cache


def test_a_set_is_fetched_once_and_then_read_from_the_cache(iris, tmp_path):
    first = load("IR")
    assert first.k == 2
    assert load("IR").X.tolist() == first.X.tolist()
    assert load("IR", fetch=False).X.tolist() == first.X.tolist()
    assert iris.asked == [path_of("IR")]
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["IR.csv"]


@pytest.mark.parametrize(
    "damage",
    ["", "A1\n", "A1,A2,A3,A4,class\n5.1,3.5,1.4,0.2,1\n", "A1\nx,1\n", "a\n1,1\n2\n"],
)
def test_a_damaged_cache_is_fetched_again(iris, damage):
    path = fetched("IR")
    whole = path.read_text()
    path.write_text(damage)
    assert fetched("IR").read_text() == whole
    assert len(iris.asked) == 2


def test_bytes_that_are_no_text_are_a_damaged_cache(iris):
    fetched("IR").write_bytes(b"\xff\xfe\x00")
    assert load("IR").X.shape == (2, 4)


def test_a_file_in_the_folder_comes_before_the_cache(iris, tmp_path):
    (tmp_path / "IR.csv").write_text("x,class\n1,1\n")
    assert load("IR", folder=tmp_path).X.tolist() == [[1]]
    assert iris.asked == []


def test_the_address_can_be_given(iris, monkeypatch):
    home = fetch._address(SOURCES["IR"], None).removesuffix(path_of("IR"))
    monkeypatch.setenv("AFCL_DATA_MIRROR", "http://127.0.0.1:9")
    assert fetched("IR", base=home).exists()
    monkeypatch.delenv("AFCL_DATA_MIRROR")
    assert fetch._address(SOURCES["IR"], None) == f"{HOME}/53/iris.zip"


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.delenv("AFCL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "afcl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "afcl"
    monkeypatch.setenv("AFCL_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_a_cache_that_cannot_be_written_is_named(iris, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("AFCL_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match="set AFCL_CACHE"):
        fetched("IR")


def test_a_write_that_fails_leaves_nothing_behind(iris, monkeypatch, tmp_path):
    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InputError, match="No space left"):
        fetched("IR")
    assert list((tmp_path / "cache").iterdir()) == []


# ------------------------------------------------------------------ refusals


def test_another_content_is_refused_and_not_kept(library):
    library.files[path_of("IR")] = packed("IR", IRIS)
    message = refusal()
    assert "refused" in message
    assert "2 rows" in message


def test_an_empty_content_is_refused(library, monkeypatch):
    expect(monkeypatch, "IR", [], [])
    library.files[path_of("IR")] = packed("IR", "nothing,of,the,usual,kind\n")
    assert "0 rows" in refusal()


@pytest.mark.parametrize("text", ["a,2,3,4,Iris-setosa\n", "1,2,3,4,Iris-setosa\0\n"])
def test_another_layout_is_refused(library, text):
    library.files[path_of("IR")] = packed("IR", text)
    assert "refused" in refusal()


def test_an_infinite_number_is_refused_where_numbers_are_rounded(library):
    library.files[path_of("AC")] = packed("AC", f"ES{',inf' * 12}\n")
    assert "refused" in refusal("AC")


def test_a_set_that_is_not_there_is_reported(library, tmp_path):
    message = refusal(folder=tmp_path)
    assert message.startswith(f"IR is not below {tmp_path} and could not be fetched")
    assert "HTTP 404" in message
    assert path_of("IR") in message


@pytest.mark.parametrize("lost", [1, 40, 10_000])
def test_a_truncated_archive_is_refused(iris, lost):
    whole = iris.files[path_of("IR")]
    iris.files[path_of("IR")] = whole[:-lost]
    iris.missing_bytes = min(lost, len(whole))
    assert "zip" in refusal()


def test_a_damaged_or_other_file_is_refused(iris):
    whole = bytearray(iris.files[path_of("IR")])
    start = whole.find(b"iris.data") + len(b"iris.data")
    whole[start : start + 8] = b"\xff" * 8
    iris.files[path_of("IR")] = bytes(whole)
    assert "not a whole zip" in refusal()
    iris.files[path_of("IR")] = b"<html>Please log in</html>"
    assert "not a whole zip" in refusal()


def test_an_archive_without_the_file_is_refused(library):
    library.files[path_of("IR")] = packed("IR", IRIS, member="bezdekIris.data")
    assert "no iris.data" in refusal()


def test_a_member_is_read_and_never_unpacked(iris, tmp_path):
    iris.files[path_of("IR")] = packed("IR", IRIS, member="../../../iris.data")
    before = set(tmp_path.rglob("*"))
    path = fetched("IR")
    assert set(tmp_path.rglob("*")) - before == {path, path.parent}


def test_what_is_too_large_is_refused_packed_or_unpacked(iris, monkeypatch):
    monkeypatch.setattr(fetch, "LIMIT", 100)
    assert "more than 100 bytes" in refusal()
    small = packed("IR", IRIS * 1000)
    monkeypatch.setattr(fetch, "LIMIT", len(small) + 1)
    iris.files[path_of("IR")] = small
    assert "more than" in refusal()


def test_no_network_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("AFCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(Library()) as address:
        pass
    message = refusal(base=address, folder=tmp_path)
    assert "refused" in message
    assert "put IR.csv" in message


@pytest.mark.parametrize("base", ["not an address", "http://127.0.0.1:port"])
def test_a_mirror_that_is_no_address_is_one_line(base, monkeypatch, tmp_path):
    monkeypatch.setenv("AFCL_CACHE", str(tmp_path / "cache"))
    assert base in refusal(base=base)


def test_nothing_is_asked_when_fetching_is_off(iris):
    assert "switched off" in refusal(online=False)
    assert iris.asked == []
