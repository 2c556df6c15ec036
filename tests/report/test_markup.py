# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.report.markup import (
    Html,
    data_island,
    escape,
    join,
    number,
    size_of,
    span_of,
    tag,
)


class Reader(HTMLParser):
    """Collects tags, attributes and text as a browser would see them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.attributes = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data):
        self.texts.append(data)


readable = st.text(
    st.characters(blacklist_categories=["Cc", "Cs"], blacklist_characters="\r")
)


@given(readable, readable)
def test_no_text_becomes_markup(text, value):
    seen = Reader(tag("p", text, data_tip=value))

    assert seen.tags == ["p"]
    assert "".join(seen.texts) == text
    assert seen.attributes == [("data-tip", value)]


@given(st.recursive(st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_an_island_cannot_end_its_element(value):
    said = data_island("x", value)
    inside = said.removeprefix('<script type="application/json" id="x">')
    inside = inside.removesuffix("</script>")

    assert not set("<>&") & set(inside)
    assert json.loads(inside) == value


def test_markup_is_kept_and_control_characters_are_not():
    assert join(Html("<b>"), "<b>", None, [1, ["&"]]) == "<b>&lt;b&gt;1&amp;"
    assert escape("a\x00\x1b\x9b\nb") == "a\nb"


def test_attributes():
    said = tag("rect", x=1.0, y=2.346, hidden=True, title=None, id=False, class_="a b")

    assert said == '<rect x="1" y="2.35" hidden class="a b"></rect>'
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
    # An attribute is text even if it claims to be markup.
    assert tag("p", title=Html('"><script>')) == (
        '<p title="&quot;&gt;&lt;script&gt;"></p>'
    )


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (0.0, 3, "0"),
        (0.5, 3, "0.5"),
        (-0.05512, 2, "−0.055"),
        (12.34, 3, "12.3"),
        (999.6, 3, "1,000"),
        (123456.0, 3, "123,456"),
        (1.5e9, 3, "1.5e+09"),
        (2e-6, 3, "2e−06"),
        (float("nan"), 3, "–"),
        (float("inf"), 3, "–"),
    ],
)
def test_numbers_as_people_write_them(value, digits, said):
    assert number(value, digits) == said


def test_sizes_and_spans():
    assert [size_of(n) for n in (1, 999, 1000, 2_340_000, 5e9)] == [
        "1 byte",
        "999 bytes",
        "1 kB",
        "2.34 MB",
        "5 GB",
    ]
    assert span_of(3 * 86400) == "3 days"
