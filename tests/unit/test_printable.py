"""What files say is no command to a terminal."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text

from simcluster.draw import Column, render_text, text_table
from simcluster.errors import Problem
from simcluster.printable import printable_json, printable_text

BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
TEXTS = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("\x1b\x07\x08\r\x7f\x9b\u202e\u2066\n\t[31;5mH"),
    ),
    max_size=40,
)


def commands(text):
    """The characters that a terminal may obey, but for the end of a line and a tab."""
    return [
        each
        for each in text
        if (unicodedata.category(each) == "Cc" and each not in "\n\t")
        or unicodedata.bidirectional(each) in BIDIRECTIONAL
    ]


@given(TEXTS)
def test_nothing_is_left_that_a_terminal_obeys_and_nothing_else_is_touched(text):
    assert not commands(printable_text(text))
    if not commands(text) and not set(text) & set("\u2028\u2029"):
        assert printable_text(text) == text
    assert printable_text(printable_text(text)) == printable_text(text)


@given(TEXTS)
@settings(max_examples=40)
def test_what_is_drawn_holds_only_our_own_styles(text):
    drawn = [
        Text(text, "bold red"),
        text,
        text_table([Column(wraps=True), "name"], [(text, Text(text, "dim"))]),
    ]
    assert not commands(render_text(*drawn))
    coloured = render_text(*drawn, colour=True)
    for style in ("\x1b[1;31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"):
        coloured = coloured.replace(style, "")
    assert not commands(coloured)


@given(TEXTS)
def test_json_stays_the_same_data(text):
    content = json.dumps({text: [text]}, ensure_ascii=False, indent=2).encode()
    assert json.loads(printable_json(content)) == {text: [text]}
    assert not commands(printable_json(content).decode())


def test_a_problem_is_printable():
    found = Problem("'\x1b[2J' is unknown", "model", "did you mean '\x9b'?", "a\x07.yaml:1:1", "  1 | \u202e")
    assert str(found) == "a\\x07.yaml:1:1: '\\x1b[2J' is unknown; did you mean '\\x9b'?\n  1 | \\u202e"
