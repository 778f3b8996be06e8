"""What varies: values as YAML, and every combination once, the last key fastest."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.document import inline_data
from simcluster.errors import ScenarioError
from simcluster.sweeps import SweepSpace, Variation

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8),
    st.lists(st.integers(-9, 9), max_size=3),
    st.dictionaries(st.sampled_from(["data", "tensor"]), st.integers(-9, 9), max_size=2),
)


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("a.b=1,2,4", (1, 2, 4)),
        ("a= bf16 , fp8", ("bf16", "fp8")),
        ("a=auto,8", ("auto", 8)),
        ("a=null,true", (None, True)),
        ("a={data: 8},{data: 4, tensor: 2}", ({"data": 8}, {"data": 4, "tensor": 2})),
        ("a=[1, 2],[3]", ([1, 2], [3])),
        ("a='1,2',x=y", ("1,2", "x=y")),
        ("a=400 Gbps,1_000", ("400 Gbps", 1000)),
    ],
)
def test_values_are_yaml(setting, values):
    variation = Variation.parse(setting)
    assert variation.key == setting.partition("=")[0]
    assert variation.values == values
    assert list(map(type, variation.values)) == list(map(type, values))


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_texts_read_as_their_values(values):
    try:
        variation = Variation("key", tuple(values))
        texts = variation.texts
    except ScenarioError:
        raise AssertionError(values) from None
    assert [inline_data("text", text) for text in texts] == values
    assert all("\n" not in text for text in texts)


def test_values_from_python():
    values = ["8", np.int64(4), np.float32(0.5), True, {"data": np.int32(2)}, "dgx-h100"]
    assert Variation.of("key", values).values == (8, 4, 0.5, True, {"data": 2}, "dgx-h100")
    assert Variation.of("key", range(3)).values == (0, 1, 2)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("a", "expected KEY=VALUE,VALUE"),
        ("=1", "expected KEY=VALUE,VALUE"),
        ("a=", "no values"),
        ("a=1,2,1", "--vary a=1: this value is there twice"),
        ("a=1,]", "--vary a=1,]: "),
        ("a=[1", "never closed"),
        ("a=!!python/object:os.system x", "tag"),
    ],
)
def test_wrong_settings(setting, words):
    with pytest.raises(ScenarioError) as error:
        Variation.parse(setting)
    assert words in str(error.value)


@pytest.mark.parametrize(("values", "words"), [((), "no values"), ("12", "a list"), ({"a": 1}, "a list")])
def test_wrong_values_from_python(values, words):
    with pytest.raises(ScenarioError, match=words):
        Variation.of("key", values)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_space_is_the_cross_product(sizes):
    variations = [Variation(f"k{place}", tuple(range(size))) for place, size in enumerate(sizes)]
    space = SweepSpace.of(variations)
    expected = list(product(*map(range, sizes)))
    assert space.num_points == len(expected)
    assert [space.choices(point) for point in range(space.num_points)] == expected
    assert [tuple(space.values(point).values()) for point in range(space.num_points)] == expected
    for number, size in enumerate(sizes):
        for place in range(size):
            points = [point for point, choices in enumerate(expected) if choices[number] == place]
            assert list(space.points_with(number, place)) == points


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ((), "a sweep varies at least one key"),
        (("a=1", "a=2"), "--vary a: this key varies already"),
        (("a.b=1", "a={}"), "replaces the whole of 'a', and with it 'a.b'"),
        (("a=" + ",".join(map(str, range(400))), "b=" + ",".join(map(str, range(400)))), "= 160,000 points"),
    ],
)
def test_wrong_spaces(settings, words):
    with pytest.raises(ScenarioError) as error:
        SweepSpace.of([Variation.parse(setting) for setting in settings])
    assert words in str(error.value)


def test_a_part_may_vary_behind_the_whole():
    space = SweepSpace.of([Variation.parse("a={b: 1},{c: 2}"), Variation.parse("a.b=3,4")])
    assert space.changes(1) == (("a", '{"b": 1}'), ("a.b", "4"))
