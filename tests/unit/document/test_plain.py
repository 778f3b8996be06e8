"""The fast reader must agree with the full one wherever it does not give up."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simcluster
from simcluster.document.composer import compose
from simcluster.document.mark import Source
from simcluster.document.plain import read_plain
from simcluster.errors import ScenarioError

SCENARIO = """\
# yaml-language-server: $schema=...
simcluster: 1
name: Llama-3 70B on 256 H100
cluster:   {use: dgx-h100, hosts: 32, changes: []}            # changes: stragglers, degraded links
model:     {use: llama3-70b}                                  # or dimensions, or {hf: config.json}
training:  {global_batch: 256, seq_len: 8_192, precision: bf16, optimizer: {kind: adamw, lr: 3e-4}}
parallel:
  mode: semi_auto                                             # data | semi_auto | auto | manual
  mesh: {pipeline: 4, data: 8, tensor: 8}
  strategies:
  - {match: "layers.*.attention.qkv", split: {heads: tensor}}
  - match: 'layers.*.mlp'
    split:
      hidden: [tensor, expert]

  -   match: embedding    # a comment
      weights:
        - 1
        -
          deep: ~
  schedule: {kind: 1f1b, stages: auto,
             p2p: overlapped}   # over two lines
  optimizer_sharding:
  fusion: {}
source: https://example.com/a#b, 450 GB/s "quoted" inside
curve: [[1e6, .1], [1e9, -0.5],   # comment
        [1e12, 0.75],
       ]
job:       {steps: 1_000_000, launch: {}, "quoted key": 'x: y', note: a - b}
010: on
"""
FAST = [
    SCENARIO,
    "a: 1",
    "a: 1\n",
    "\n# c\n\na: 1 # d\n  # e\nb:\n",
    "a: x y z  \n",
    "a: -1\nb: -x\nc: a#b\nd: a:b\n",
    "a:\n- 1\n- x: 2\n  y: 3\n-\n- [a, {b: c}]\nb: 2\n",
    "é: \u4e2d\u6587\n".replace("é", "e"),
]
GIVEN_UP = [
    "",
    "# c\n",
    "- a\n",
    "a: &x 1\nb: *x\n",
    "a: |\n  text\n",
    "a: >-\n  text\n",
    "a: !!str 1\n",
    "a:\tb\n",
    "a: b\n  c\n",
    "a: 'it''s'\n",
    'a: "\\n"\n',
    "a: 1\na: 2\n",
    "{a: 1}\n",
    "--- \na: 1\n",
    "a: 1\n---\nb: 2\n",
    "%YAML 1.2\n---\na: 1\n",
    "? a\n: b\n",
    '"a": 1\n',
    "a: [1, 2\n",
    "a: {b:1}\n",
    "a: {b}\n",
    "a: [x: 1]\n",
    "a: [1,,2]\n",
    "a: [\n1]\nb: [\n]\n",
    "a: b: c\n",
    "a: 1\n b: 2\n",
    "  a: 1\nb: 2\n",
    "a:\n    b: 1\n  c: 2\n",
    "a: 99999999999999999999999\n",
    "a: x\u2028y\n",
    "a: " + "[" * 50 + "]" * 50,
    "a: @b\n",
    "a: b:\n",
]


def full(text: str) -> object:
    root = compose(Source("t", text))
    return None if root is None else root.data


@pytest.mark.parametrize("text", FAST)
def test_plain_documents_are_read_fast(text):
    assert read_plain(text) is not None
    assert repr(read_plain(text)) == repr(full(text))


@pytest.mark.parametrize("text", GIVEN_UP)
def test_the_rest_is_left_to_the_full_reader(text):
    assert read_plain(text) is None


def test_every_shipped_file_is_read_fast_and_right():
    for path in sorted(Path(simcluster.__path__[0]).rglob("*.yaml")):
        text = path.read_text("utf-8")
        fast = read_plain(text)
        assert fast is None or repr(fast) == repr(full(text)), path


ALPHABET = st.sampled_from(
    [
        *" \n:,-#[]{}'\"ab1.&*!|>%@?~_<é中",
        "  ",
        ": ",
        "- ",
        "\n  ",
        "\n- ",
        " #",
        "---",
        "<<: ",
        ":\n",
        ", ",
        "1e5",
    ]
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), ALPHABET), max_size=4)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_it_agrees_with_the_full_reader_on_damaged_documents(data):
    lines = SCENARIO.split("\n")
    first = data.draw(st.integers(0, len(lines) - 1))
    text = "\n".join(lines[first : first + data.draw(st.integers(1, 9))])
    for share, removed, added in data.draw(EDITS):
        position = int(share * len(text))
        text = text[:position] + added + text[position + removed :]
    fast = read_plain(text)
    if fast is not None:
        assert repr(fast) == repr(full(text))
    else:
        try:
            full(text)
        except ScenarioError as error:
            assert str(error).startswith("t:")


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


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "key", "x.y", "b-1"]), TREES, min_size=1), st.booleans())
def test_written_data_come_back(tree, flow):
    source = "\n".join(f"{key}: {written(value, 2, flow)}" for key, value in tree.items())
    assert repr(full(source)) == repr(tree)
    assert read_plain(source) is None or repr(read_plain(source)) == repr(tree)
