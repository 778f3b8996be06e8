"""Scenarios written with remarks: any data is read back as it was."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.document import Document
from simcluster.scenario.written import HINT, commented_yaml

TEXT = st.text(max_size=12).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | TEXT
    | st.sampled_from(
        ["on", "null", "1e3", "010", "a: b", "# x", "- a", "'", '"', "a b", " a", "~", "1_000", "<<"]
    )
)
KEYS = st.text("abcdefgh_", min_size=1, max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), TEXT, st.lists(TEXT, max_size=2))
@settings(max_examples=40)
def test_reading_gives_the_data(data, remark, lines):
    remarks = dict.fromkeys(data, remark)
    text = commented_yaml(data, remarks, head=lines, tail=lines)
    assert Document.parse(text).data == data
    assert text.startswith(HINT + "\n")


def test_remarks_stand_in_a_column():
    text = commented_yaml(
        {"a": 1, "b": {"cc": "x"}}, {"a": "one", "b.cc": "two\nlines"}, head=["first"], tail=["last"]
    )
    assert text == f"{HINT}\n# first\na: 1     # one\nb:\n  cc: x  # two lines\n\n# last\n"


def test_long_comments_are_wrapped():
    lines = commented_yaml({"a": 1}, {}, tail=["- " + "word " * 60]).splitlines()
    assert all(len(line) <= 110 for line in lines)
    assert lines[-1].startswith("#   word")
