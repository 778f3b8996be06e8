"""Data written as YAML come back as they were."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.document import Document

WORDS = st.text("ab1 -.:#'\"[]{},&*!|>%@?~_é中\n\\\t", max_size=12)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    WORDS,
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=12,
)


def written(value: object, indent: int, flow: bool) -> str:
    """A value as YAML: block style or flow style, text in double quotes with escapes where needed."""
    if isinstance(value, dict) and value and not flow:
        lines = [
            f"\n{' ' * indent}{text(key)}: {written(part, indent + 2, flow)}" for key, part in value.items()
        ]
        return "".join(lines)
    if isinstance(value, list) and value and not flow:
        return "".join(f"\n{' ' * indent}- {written(part, indent + 2, flow)}" for part in value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(key)}: {written(part, 0, True)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(part, 0, True) for part in value) + "]"
    if isinstance(value, str):
        return text(value)
    return {"None": "null", "True": "true", "False": "false"}.get(repr(value), repr(value))


def text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


@settings(max_examples=80)
@given(st.dictionaries(st.sampled_from(["a", "key", "x.y", "b-1"]), TREES, min_size=1), st.booleans())
def test_written_data_come_back(tree, flow):
    source = "\n".join(f"{key}: {written(value, 2, flow)}" for key, value in tree.items())
    assert repr(Document.parse(source).data) == repr(tree)
