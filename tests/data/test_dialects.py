# SPDX-License-Identifier: Apache-2.0
"""Text as people have it: what is found out, what is said of it, what is refused."""

import codecs
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from afcl.data import Dialect, read_sites, sniff, texts
from afcl.data.sites import open_sites
from afcl.data.stream import StreamedTable
from afcl.exceptions import InputError

from .written import ROWS, write


def refused(*args, **kwargs):
    """Return the one line with which files are refused."""
    with pytest.raises(InputError) as caught:
        read_sites(*args, **kwargs)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def read(content, name="a.csv", **options):
    """Return columns, rows and notes of a file with this content."""
    sites = read_sites([write(name, content)], **options)
    return sites.columns, sites.tables[0].values.tolist(), sites.notes


def table(rows, separator, decimal, ends="\n"):
    """Write rows of numbers as text."""
    lines = [
        separator.join(repr(float(cell)).replace(".", decimal) for cell in row)
        for row in rows
    ]
    names = separator.join(f"c{i}" for i in range(len(rows[0])))
    return ends.join([names, *lines]) + ends


# ------------------------------------------------------------------ what is found out


@pytest.mark.parametrize(
    ("name", "content", "note"),
    [
        ("a.csv", "x;y\n1;2\n3;4\n", "read with ';' between cells"),
        ("a.csv", "x\ty\n1\t2\n3\t4\n", "read with tabs between cells"),
        ("a.csv", "x|y\n1|2\n3|4\n", "read with '|' between cells"),
        ("a.tsv", ROWS, "read with ',' between cells"),
        ("a.txt", "x;y\n1;2\n3;4\n", "read with ';' between cells"),
        ("a.dat.gz", "x\ty\n1\t2\n3\t4\n", "read with tabs between cells"),
        (
            "a.csv",
            "# made by hand\n#, twice\nx,y\n1,2\n3,4\n",
            "read without 2 lines of comments on top",
        ),
        ("a.csv", "\n# by hand\n\nx,y\n1,2\n3,4\n", "read without 1 line of comments"),
        ("a.csv", ROWS.encode("utf-16"), "read as utf-16 text"),
        ("a.csv", ROWS.encode("utf-16-be"), "read as utf-16-be text"),
        ("a.csv", ROWS.encode("utf-16-le"), "read as utf-16-le text"),
        ("a.csv", "x;y;é\n1;2;\n3;4;\n".encode("cp1252"), "as cp1252 text"),
        (
            "a.csv",
            "# é\nx;y;z\n1;2;,5\n3;4;,5\n".encode("utf-16"),
            "read with ';' between cells and ',' in numbers, as utf-16 text, without 1 "
            "line of comments on top",
        ),
    ],
)
def test_what_is_not_plain_is_found_out_and_said(folder, name, content, note):
    columns, rows, notes = read(content, name, columns=["x", "y"])
    assert (columns, rows) == (("x", "y"), [[1, 2], [3, 4]])
    (only,) = notes
    assert only.startswith(f"{name}: ")
    assert note in only


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", ROWS),
        ("a.tsv", ROWS.replace(",", "\t")),
        ("a.txt", ROWS),
        ("a.data", ROWS),
        ("a.csv", codecs.BOM_UTF8 + ROWS.encode()),
        ("a.csv", '"x","y"\n"1","2"\n"3","4"\n'),
        ("a.csv", "# x,y\n1,2\n3,4\n"),
        ("a.csv", "#x,y\n1,2\n3,4\n"),
    ],
)
def test_what_is_plain_needs_no_note(folder, name, content):
    assert read(content, name) == (("x", "y"), [[1, 2], [3, 4]], ())


def test_the_decimal_comma(folder):
    columns, rows, notes = read("age;weight\n51;153,6\n52;-7\n")
    assert (columns, rows) == (("age", "weight"), [[51, 153.6], [52, -7]])
    assert notes == ("a.csv: read with ';' between cells and ',' in numbers",)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize(
    ("cell", "value"),
    [("1,5", 1.5), (",5", 0.5), ("-0,125", -0.125), ("1,5e3", 1500), ("+2,50", 2.5)],
)
def test_forms_of_decimal_commas(folder, separator, cell, value):
    text = f"x{separator}y\n1{separator}{cell}\n"
    assert read(text)[1] == [[1, value]]


def test_decimal_commas_in_quotation_marks_between_commas(folder):
    _, rows, notes = read('x,y\n1,"2,5"\n3,"14,25"\n')
    assert rows == [[1, 2.5], [3, 14.25]]
    assert notes == ("a.csv: read with ',' in numbers",)


def test_lists_of_names_may_hold_other_separators(folder):
    columns, _, notes = read("x;y,a|b\n1,2\n3,4\n")
    assert columns == ("x;y", "a|b")
    assert notes == ()


def test_a_single_column_needs_no_separator(folder):
    assert read("x\n1\n2\n", "a.txt") == (("x",), [[1], [2]], ())


def test_every_file_is_looked_at_by_itself(folder):
    sites = read_sites(
        [
            write("n.csv", "x;y\n1;2,5\n"),
            write("s.tsv", "x\ty\n1\t2.5\n"),
            write("e.csv"),
        ]
    )
    assert [t.values[0].tolist() for t in sites.tables] == [[1, 2.5], [1, 2.5], [1, 2]]
    assert sites.notes == ("n.csv: read with ';' between cells and ',' in numbers",)


def test_short_rows_do_not_hide_the_separator(folder):
    text = "x;y\n1;2\n3\n\n7;8\n"
    assert read(text, missing="drop")[1] == [[1, 2], [7, 8]]


numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 4))


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=1, max_size=6),
    separator=st.sampled_from(",;\t|"),
    decimal=st.sampled_from(".,"),
    encoding=st.sampled_from(
        ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"]
    ),
    comments=st.lists(st.sampled_from(["# é", "#", "# a;b,c", "#1,2"]), max_size=3),
    ends=st.sampled_from(["\n", "\r\n", "\r"]),
    block=st.integers(20, 60),
)
@example([[1.5, 2.5]], ";", ",", "utf-16", ["# é"], "\r\n", 21)
def test_numbers_survive_every_way_of_writing(
    folder, rows, separator, decimal, encoding, comments, ends, block
):
    if separator == decimal:
        decimal = "."
    body = table([*rows, [0.5, -0.25]], separator, decimal, ends)
    path = write("a.csv", ends.join([*comments, body]).encode(encoding))
    whole = read_sites([path])
    assert whole.tables[0].values.tolist() == [*rows, [0.5, -0.25]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "BLOCK_BYTES", block)
        (source,) = open_sites([path], stream=True).tables
        assert isinstance(source, StreamedTable)
        parts = np.concatenate([part.copy() for part in source.parts(2)])
        patch.setattr(texts, "_numbers", lambda *block: None)
        assert read_sites([path]).tables[0].fingerprint() == source.fingerprint()
    assert parts.tolist() == whole.tables[0].values.tolist()


WORDS = ["1,5", "1.5", " 2,5 ", "1.234,5", "1,2,3", "NA", "", "true", "Ann", "1e400"]
WORDS += ["-999", "-999,0", " -999", "5,", "+,5", '"7,5"', "k.A.", "inf"]


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("cell", WORDS)
def test_a_cell_is_read_quickly_as_it_is_read_with_care(
    folder, monkeypatch, cell, decimal
):
    path = write("a.csv", f"x;y\n1;2\n3;{cell}\n4;5\n")
    said = Dialect(";", decimal, null=("-999", "k.A."))

    def outcome():
        try:
            sites = read_sites([path], missing="drop", dialect=said)
        except InputError as error:
            return str(error)
        return sites.tables[0].values.tolist()

    quickly = outcome()
    monkeypatch.setattr(texts, "_numbers", lambda *block: None)
    assert outcome() == quickly


# ------------------------------------------------------------------- what one may say


@pytest.mark.parametrize(
    ("said", "content", "rows"),
    [
        (Dialect(separator=":"), "x:y\n1:2\n", [[1, 2]]),
        (Dialect(separator="tab"), "x\ty;z\n1\t2\n", [[1, 2]]),
        (Dialect(separator="space"), "x y\n1 2\n", [[1, 2]]),
        (Dialect(";", ","), "x;y\n1;1,234\n", [[1, 1.234]]),
        (Dialect(";", "."), "x;y\n1;1.234\n", [[1, 1.234]]),
        (Dialect(decimal=","), 'x,y\n1,"1,234"\n', [[1, 1.234]]),
        (Dialect(encoding="UTF8"), "x,y\n1,2\n", [[1, 2]]),
        (Dialect(encoding="cp037"), "x,y\n1,2\n".encode("cp037"), [[1, 2]]),
        (Dialect(encoding="utf-16"), "x,y\n1,2\n".encode("utf-16"), [[1, 2]]),
    ],
)
def test_what_is_said_is_taken_without_a_note(folder, said, content, rows):
    assert read(content, dialect=said)[1:] == (rows, ())


@pytest.mark.parametrize("cell", ["-999", "-999.0", " -999", "-9.99e2", "k.A.", "K.A."])
@pytest.mark.parametrize("streamed", [True, False])
def test_further_cells_without_a_value(folder, cell, streamed):
    path = write("a.csv", f"x,y\n1,2\n3,{cell}\n5,6\n")
    said = Dialect(null=("-999", "k.A."))
    sites = open_sites([path], missing="drop", stream=streamed, dialect=said)
    assert sites.tables[0].shape == (2, 2)
    assert sites.notes == ("a.csv: 1 row of 3 dropped for missing values",)
    assert "column 'y', row 2 has no value" in refused([path], dialect=said)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (Dialect(separator=";;"), "--separator ';;' is not one character; use comma, "),
        (Dialect(separator="é"), "--separator 'é' is not one character"),
        (Dialect(separator='"'), "--separator '\"' is not one character"),
        (Dialect(decimal=";"), "--decimal ';' is unknown; use '.' or ','"),
        (Dialect(encoding="klingon"), "--encoding 'klingon' is unknown; use utf-8, "),
        (Dialect(encoding="base64"), "--encoding 'base64' is unknown"),
        (Dialect(encoding="a\0b"), "--encoding 'a\\x00b' is unknown"),
        (Dialect(encoding="undefined"), "--encoding 'undefined' is unknown"),
    ],
)
def test_what_cannot_be_said(folder, said, message):
    assert refused([write("a.csv")], dialect=said).startswith(message)


# -------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "a,b;c,d\n1,2;3,4\n",
            "a.csv: ',' or ';' may be between its cells; say which with --separator",
        ),
        (
            "x;y\n1;1,234\n2;5,678\n",
            "a.csv: column 'y' has '1,234', with decimals or in thousands; say "
            "--decimal ',' if these are decimals, and take ',' out of the file if not",
        ),
        (
            "x;y\n1;1.234\n2;999\n",
            "a.csv: column 'y' has '1.234', with decimals or in thousands; say "
            "--decimal '.' if these are decimals, and take '.' out of the file if not",
        ),
        (
            'x,y\n1,"1,234"\n',
            "a.csv: column 'y' has '1,234', with decimals or in thousands; say "
            "--decimal ',' if these are decimals, and take ',' out of the file if not",
        ),
        (
            "x;y\n1,5;1.5\n",
            "a.csv: numbers are written with ',' (column 'x': '1,5') and with '.' "
            "(column 'y': '1.5'); say which is right with --decimal",
        ),
        (
            "x;y\n1,5;1.234,5\n",
            "a.csv: column 'y', row 1 is '1.234,5', not a number as numbers are read "
            "here, with ',' before decimals (--decimal '.' for the other) and nothing "
            "between thousands; correct it or leave the column out with --drop y",
        ),
        (
            'x,y\n1,"1,234.5"\n',
            "a.csv: column 'y', row 1 is '1,234.5', not a number as numbers are read "
            "here, with '.' before decimals (--decimal ',' for the other) and nothing "
            "between thousands; correct it or leave the column out with --drop y",
        ),
        (
            "x   y\n1   2\n3   4\n",
            "a.csv: spaces seem to be between its cells; say --separator space if it "
            "is a single one everywhere, or save it with commas",
        ),
        (
            b"x,y\n\x81,2\n",
            "a.csv: is neither UTF-8 nor Windows-1252 text; name what it is encoded in "
            "with --encoding",
        ),
        (
            b"x,y\n\0\0\0,2\n",
            "a.csv: is not text; save it as .csv, or name what it is encoded in with "
            "--encoding",
        ),
        (
            "# all\n# comments\n",
            "a.csv: has column names but no rows; add rows or leave the site out",
        ),
    ],
)
def test_what_may_mean_two_things_is_refused(folder, content, message):
    assert refused([write("a.csv", content)]) == message


def test_thousands_in_a_file_with_points_are_not_taken_for_decimals(folder):
    rows = "".join(f"{i};{i},5\n" for i in range(50))
    path = write("a.csv", f"x;y\n{rows}3;1.234\n")
    assert "column 'y', row 51 is '1.234', not a number" in refused([path])


def test_leading_zeros_tell_decimals_from_thousands(folder):
    assert read("x;y\n1;1.234\n2;0.512\n")[1] == [[1, 1.234], [2, 0.512]]
    assert read("x;y\n1;1,234\n2;0,512\n")[1] == [[1, 1.234], [2, 0.512]]


def test_a_wrong_separator(folder):
    path = write("a.csv", "x;y\n1;2\n")
    assert refused([path], dialect=Dialect(separator=",")) == (
        "a.csv: has the single column 'x;y', so it is separated by something else; "
        "name it with --separator, or leave that option out"
    )


@pytest.mark.parametrize("encoding", [None, "utf-8", "ascii"])
@pytest.mark.parametrize("streamed", [True, False])
def test_another_encoding_beyond_what_was_looked_at(
    folder, monkeypatch, encoding, streamed
):
    monkeypatch.setattr(sniff, "LOOKED_AT", 12)
    path = write("a.csv", b"x,name\n1,Ann\n2,Ren\xe9\n")
    with pytest.raises(InputError) as caught:
        open_sites(
            [path], drop=["name"], stream=streamed, dialect=Dialect(encoding=encoding)
        )
    assert str(caught.value) == (
        "a.csv: not all of it can be read as text in that encoding; name the right "
        "one, such as --encoding cp1252"
    )


def test_half_a_character_is_no_fault_of_what_is_looked_at(folder, monkeypatch):
    content = "x,é\n1,2\n".encode()
    monkeypatch.setattr(sniff, "LOOKED_AT", content.index(b"\xc3") + 1)
    assert read(content) == (("x", "é"), [[1, 2]], ())


def test_cut_off_utf_16(folder):
    path = write("a.csv", ROWS.encode("utf-16")[:-1])
    assert "can be read as text in that encoding" in refused([path])


def test_decimals_beyond_what_was_looked_at(folder, monkeypatch):
    monkeypatch.setattr(sniff, "LOOKED_AT", 12)
    path = write("a.csv", "x;y\n1;2\n3;4\n5;153,6\n")
    assert "row 3 is '153,6', not a number as numbers are read here" in refused([path])
    assert read_sites([path], dialect=Dialect(decimal=",")).tables[0].shape == (3, 2)


junk = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=40).map(str.encode),
    st.text(';,|\t\n\r"#.019eé ', max_size=60).map(str.encode),
    st.text(";,\n12.x", max_size=30).map(lambda t: t.encode("utf-16")),
)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(content=junk, packed=st.booleans())
def test_any_bytes_are_read_or_refused_in_one_line(folder, content, packed):
    path = Path("junk.csv.gz" if packed else "junk.txt")
    path.write_bytes(gzip.compress(content) if packed else content)
    for options in ({"missing": "drop"}, {"numeric_only": True}):
        message = ""
        try:
            read_sites([path], **options)
        except InputError as error:
            message = str(error)
        assert len(message.splitlines()) <= 1
