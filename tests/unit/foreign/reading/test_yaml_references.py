"""Arithmetic of references: as Python has it, whatever is nested in what, and no text fails otherwise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.foreign.reading.yaml_references import RESOLVERS, follow_references

DATA = {"model": {"hidden": 4096, "heads": 32, "half": "${divide:${.hidden}, 2}", "name": "gpt"}, "seed": 7}
KEYS = {"${model.hidden}": 4096, "${.heads}": 32, "${model.half}": 2048.0, "${training.seed}": 7}
OWN = {
    "multiply": math.prod,
    "sum": sum,
    "divide_ceil": lambda numbers: -(-numbers[0] // numbers[1]),
    "divide_floor": lambda numbers: numbers[0] // numbers[1],
    "subtract": lambda numbers: numbers[0] - numbers[1],
    "max": max,
    "min": min,
}

numbers = st.integers(-9, 9).map(lambda each: (str(each), each)) | st.sampled_from(sorted(KEYS.items()))


@st.composite
def nested(draw, of):
    name = draw(st.sampled_from(sorted(OWN)))
    count = RESOLVERS[name][0] or draw(st.integers(1, 3))
    arguments = draw(st.lists(of, min_size=count, max_size=count))
    values = [value for _, value in arguments]
    if name.startswith("divide") and values[1] == 0:
        return "3", 3
    space = draw(st.sampled_from(["", " "]))
    return f"${{{name}:{space}{', '.join(text for text, _ in arguments)}}}", OWN[name](values)


@given(st.recursive(numbers, nested, max_leaves=6))
@settings(max_examples=40)
def test_nested_arithmetic_is_that_of_python(example):
    text, value = example
    found, missing = follow_references(DATA, ("model", "x"), text)
    assert not missing
    assert float(found) == pytest.approx(float(value))


@given(
    st.lists(
        st.sampled_from(
            ["${", "}", ":", ",", ".", "model", "hidden", "x", "sum", "divide_ceil", "4", " ", "???"]
        )
        | st.text(max_size=3),
        max_size=14,
    ).map("".join)
)
def test_every_text_is_a_value_or_says_why_not(text):
    found, missing = follow_references({"model": {"hidden": 8, "x": text}}, ("model", "x"), text)
    assert found is None or not missing
    assert "${" not in text or missing or "${" not in str(found)


def test_words_are_put_together():
    assert follow_references(DATA, ("x",), "${model.name}_${seed}b") == ("gpt_7b", "")
    assert follow_references(DATA, ("x",), "${model}_b")[1] == "${model} is not a single value"


def test_growing_circles_end():
    """Each names the next twice: 2^60 steps if all were followed."""
    data = {f"a{index}": f"${{sum:${{a{index + 1}}}, ${{a{index + 1}}}}}" for index in range(60)} | {"a60": 1}
    assert follow_references(data, ("a0",), data["a0"]) == (None, "these references go in circles")
    long = {f"a{index}": f"${{a{index + 1}}}" for index in range(5000)}
    assert follow_references(long, ("a0",), long["a0"])[1]


def test_the_environment_is_not_read(monkeypatch):
    monkeypatch.setenv("SIZE", "4096")
    assert follow_references({}, ("x",), "${oc.env:SIZE,1}") == (1, "")
    found, missing = follow_references({}, ("x",), "${oc.env:SIZE}")
    assert found is None
    assert "leaves open what ${oc.env:SIZE} is" in missing


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${oc.env:LR,1.6e-4}", 1.6e-4),
        ("${oc.env:LR, 4}", 4),
        ("${oc.decode:${oc.env:N,2}}", 2),
        ("${oc.env:ON,true}", True),
        ("${oc.env:WORD,'a'}", "a"),
    ],
)
def test_variables_of_the_environment_have_their_defaults(text, value):
    assert follow_references(DATA, ("model", "x"), text) == (value, "")
    assert follow_references(DATA, ("model", "x"), "${oc.env:LR}")[1]
