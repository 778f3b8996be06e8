"""Every way in which a text is not the YAML we read, and the words for it."""

import pytest

from simcluster.document import Document
from simcluster.errors import ScenarioError

BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)


def refusal(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        Document.parse(text, "demo.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a:\n\tb: 1\n", "2:1", "a tab where YAML needs spaces"),
        ("a: 1\n  \tb: 2\n", "2:3", "a tab where YAML needs spaces"),
        ("a:\tb\n", "1:3", "a tab where YAML needs spaces"),
        ("a: 1\n b: 2\n", "2:2", "this key does not fit below the line above"),
        ("a:\n  b: 1\n c: 2\n", "3:2", "the indentation fits none of the lines above"),
        ("  a: 1\nb: 2\n", "2:1", "check the indentation of the first line"),
        ("a: b: c\n", "1:5", "a second ': ' on this line; put text that holds ': ' in quotes"),
        ("a: 1\nb\nc: 2\n", "2:1", "'b' has no value; expected 'key: value'"),
        ("a: [1, 2\nb: 3\n", "2:2", "expected ',' or ']' here: the list opened with '[' on line 1"),
        ("a: {b: 1", "1:4", "the mapping opened with '{' on line 1 is never closed; expected ',' or '}'"),
        ("a: {b: 1]\n", "1:9", "expected ',' or '}' here"),
        ("a: ]\n", "1:4", "a closing ']' without its opening '['"),
        ("a: [1,,2]\n", "1:7", "expected a value, but found ','"),
        ("a: 'b\nc: 1\n", "1:4", "the quote opened here is never closed"),
        ('a: "b\n', "1:4", "the quote opened here is never closed"),
        ("a: 'b' c\n", "1:8", "expected the end of the line, but found more text"),
        ('a: "\\d"\n', "1:6", r"'\d' is not an escape in double quotes; use single quotes, or write '\\d'"),
        ('a: "\\x1"\n', "1:7", "this escape needs 2 hexadecimal digits"),
        ('b: 1\na: "\\UFFFFFFFF"\n', "2:5", "this escape is not a Unicode character"),
        ('a: "\\uD800"\n', "1:4", "an escape in this text is not a Unicode character"),
        ("a: @b\n", "1:4", "text cannot start with '@'; put it in quotes"),
        ("a: `b`\n", "1:4", "text cannot start with '`'; put it in quotes"),
        ("a: %b\n", "1:4", "text cannot start with '%'; put it in quotes"),
        ("a: - b\n", "1:4", "a list item cannot start here"),
        ("a: ? b\n", "1:4", "text cannot start with '? '"),
        ("- a\nb: 1\n", "2:1", "a key among list items; expected '- '"),
        ("a: 1\n- b\n", "2:1", "a list item"),
        ("a: |x\n  b\n", "1:4", "a text block starts on the line after '|' or '>'"),
        ("a: *.attention\n", "1:4", "put text that starts with '*' in quotes"),
        ("a: *\n", "1:4", "put the text in quotes"),
        ("a: &x [*x]\n", "1:8", "no '&x' is complete above it"),
        ("a: \x07\n", "1:4", "the character U+0007 is not allowed"),
        ("a: !!python/object:os.system x\n", "1:4", "the tag !!python/object:os.system is not accepted"),
        ("a: !!python/object/apply:os.system [ls]\n", "1:4", "is not accepted"),
        ("a: !!str 4\n", "1:4", "the tag !!str is not accepted; write plain values, text in quotes"),
        ("a: !x\n", "1:4", "the tag !x is not accepted"),
        ("%YAML 1.1\n---\na: 1\n", "1:1", "simcluster reads YAML 1.2"),
        ("%YAML 2.0\n---\na: 1\n", "1:1", "simcluster reads YAML 1.2"),
        ("a: 1\n---\nb: 2\n", "2:1", "a second YAML document starts here"),
        ("a: 1\nb: 2\na: 3\n", "3:1", "duplicate key 'a'; it is already at demo.yaml:1:1"),
        ("a: {b: 1, c: 2, b: 3}\n", "1:17", "duplicate key 'b'; it is already at demo.yaml:1:5"),
        ("a:\n  x: 1\n  x: 1\n", "3:3", "duplicate key 'x'; it is already at demo.yaml:2:3"),
        ("[a, b]: 1\n", "1:1", "a key must be a single value"),
        ("<<: 1\n", "1:1", "'<<' merges a mapping"),
        ("- a\n- b\n", "1:1", "the file holds a list; expected lines of 'key: value'"),
        ("a:1\n", "1:1", "the file holds text; expected lines of 'key: value', with a space after ':'"),
        ("a: 123456789012345678901234567890\n", "1:4", "this integer has more than 64 bits"),
        ("a: " + "[" * 80 + "]" * 80, "1:68", "nested more than 64 levels deep"),
        (BOMB, "5:36", "the aliases of this file stand for more than 100,000 values"),
    ],
)
def test_the_place_and_the_words(text, place, words):
    message = refusal(text)
    assert message.startswith(f"demo.yaml:{place}")
    assert words in message.splitlines()[0]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "~\n", "\ufeff"])
def test_an_empty_file(text):
    assert refusal(text) == "demo.yaml: the file is empty; expected lines of 'key: value'"


def test_the_line_is_shown_with_a_caret():
    assert refusal("a: 1\nkey: @b\n") == (
        "demo.yaml:2:6: text cannot start with '@'; put it in quotes\n    2 | key: @b\n      |      ^"
    )


def test_no_word_of_the_parser_is_shown():
    for text in ("a: 1\n b: 2", "a: [", "a: @", "a: *", "a: 'x", "a: {b: 1]", "- a\nb: 1", "\ta: 1"):
        assert not any(word in refusal(text) for word in ("token", "<block", "scanning", "flow", "yaml.org"))


def test_what_is_plain_yaml_is_accepted():
    text = """\
%YAML 1.2
---
base: &base {a: 1, b: 2}
other: &other {b: 3, c: 4}
one: {<<: *base, b: 5}
two:
  b: 6
  <<: [*base, *other]
same: *base
text: |
  two
  lines
folded: >-
  one
  line
"quoted": "\\u00e9\\n"
? complex
: value
empty:
multi: one
  two
"""
    data = Document.parse(text).data
    assert data["one"] == {"a": 1, "b": 5}
    assert data["two"] == {"b": 6, "a": 1, "c": 4}
    assert data["same"] == {"a": 1, "b": 2}
    assert data["text"] == "two\nlines\n"
    assert data["folded"] == "one line"
    assert data["quoted"] == "é\n"
    assert data["complex"] == "value"
    assert data["empty"] is None
    assert data["multi"] == "one two"


def test_many_values_without_aliases_are_no_bomb():
    text = "a: &a [1]\nb: *a\nc: [" + ", ".join(["1"] * 20_000) + "]\n"
    assert len(Document.parse(text).data["c"]) == 20_000
