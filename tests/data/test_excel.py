# SPDX-License-Identifier: Apache-2.0
"""Excel workbooks: the first sheet is a table like any other."""

import builtins
import zipfile
from pathlib import Path

import pytest

from afcl.data import Dialect, read_sites
from afcl.data.sites import open_sites
from afcl.exceptions import InputError

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def cell(value):
    if value is None:
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return f"<c><v>{value!r}</v></c>"


def workbook(name, *sheets):
    """Write a workbook of sheets, each a list of rows."""
    numbers = range(1, len(sheets) + 1)
    parts = "".join(
        f'<Override PartName="/xl/worksheets/sheet{i}.xml" '
        f'ContentType="{KIND}.worksheet+xml"/>'
        for i in numbers
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default '
        'Extension="rels" ContentType="application/vnd.openxmlformats-package.'
        'relationships+xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{KIND}.sheet.main+xml"/>{parts}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship '
        f'Id="r1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
        "</Relationships>",
        "xl/workbook.xml": f'<workbook {MAIN} xmlns:r="{OFFICE}"><sheets>'
        + "".join(f'<sheet name="S{i}" sheetId="{i}" r:id="r{i}"/>' for i in numbers)
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        + "".join(
            f'<Relationship Id="r{i}" Type="{OFFICE}/worksheet" '
            f'Target="worksheets/sheet{i}.xml"/>'
            for i in numbers
        )
        + "</Relationships>",
    }
    for i, rows in zip(numbers, sheets, strict=True):
        lines = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
        files[f"xl/worksheets/sheet{i}.xml"] = (
            f"<worksheet {MAIN}><sheetData>{lines}</sheetData></worksheet>"
        )
    with zipfile.ZipFile(name, "w") as book:
        for path, text in files.items():
            book.writestr(path, text)
    return Path(name)


def refused(*args, **kwargs):
    with pytest.raises(InputError) as caught:
        read_sites(*args, **kwargs)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


TABLE = [
    ["id", "x", "y", "z", None],
    ["007", 1, 0.1 + 0.2, 0.5, None],
    ["b", True, 3, "-2.5", None],
]


def test_a_sheet_is_read_as_a_table(folder, capfd):
    pytest.importorskip("fastexcel")
    path = workbook("a.xlsx", TABLE)
    (table,) = read_sites([path], id_column="id", dialect=Dialect(decimal=",")).tables
    assert (table.name, table.columns) == ("a", ("x", "y", "z"))
    assert table.values.tolist() == [[1, 0.1 + 0.2, 0.5], [1, 3, -2.5]]
    assert table.ids is not None
    assert list(table.ids.parts()) == [["007", "b"]]
    (streamed,) = open_sites([path], id_column="id", stream=True).tables
    assert streamed.fingerprint() == table.fingerprint()
    assert capfd.readouterr() == ("", "")


def test_further_sheets_are_told(folder):
    pytest.importorskip("fastexcel")
    path = workbook("a.xlsx", [["x"], [1]], [["y"], [2]])
    assert read_sites([path]).notes == ("a.xlsx: sheet 'S1' read, the first of 2",)


def test_faults_of_workbooks(folder):
    pytest.importorskip("fastexcel")
    Path("a.xlsx").write_bytes(b"no workbook")
    assert refused(["a.xlsx"]).endswith(
        "; check that it is an Excel workbook and save it anew"
    )
    assert "the file is empty" in refused([workbook("b.xlsx", [])])
    twice = workbook("c.xlsx", [["x", "x"], [1, 2]])
    assert "the column name 'x' occurs 2 times" in refused([twice])
    text = workbook("d.xlsx", [["x", "y"], [1, "no"], [2, 3]])
    assert "d.xlsx: column 'y', row 1 is 'no', not a number" in refused([text])
    assert "no rows" in refused([workbook("e.xlsx", [["x", "y"]])])
    gap = workbook("f.xlsx", [["x", "y"], [1, None], [2, 3]])
    assert "f.xlsx: column 'y', row 1 has no value" in refused([gap])


def test_without_the_extra(folder, monkeypatch):
    path = workbook("a.xlsx", TABLE)
    real = builtins.__import__

    def lacking(name, *args, **kwargs):
        if name == "fastexcel":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", lacking)
    assert refused([path]) == (
        "a.xlsx: reading Excel needs fastexcel: pip install 'afcl[excel]', or save the "
        "sheet as .csv"
    )
