from enum import Enum
from pathlib import Path
from typing import Literal

import pytest
from pydantic import AliasChoices, Field, ValidationError

from simcluster.document import (
    Fraction,
    Name,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Section,
    Share,
    Unsupported,
    validate_data,
)
from simcluster.errors import ScenarioError


class Precision(Enum):
    BF16 = "bf16"
    FP32 = "fp32"


class Inner(Section):
    x: int = 0


class Everything(Section):
    integer: int = 0
    number: float = 0.0
    boolean: bool = False
    text: str = ""
    choice: Literal["a", "b"] = "a"
    precision: Precision = Precision.BF16
    items: tuple[int, ...] = ()
    pair: tuple[int, str] = (0, "")
    names: frozenset[str] = frozenset()
    path: Path = Path()
    inner: Inner = Inner()
    table: dict[str, Inner] = Field(default={})
    maybe: PositiveInt | None = None
    later: Unsupported = None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("integer", "4"),
        ("integer", 4.0),
        ("integer", True),
        ("integer", None),
        ("number", "4"),
        ("number", True),
        ("number", float("nan")),
        ("number", float("inf")),
        ("boolean", "yes"),
        ("boolean", "true"),
        ("boolean", 1),
        ("text", 4),
        ("text", True),
        ("text", None),
        ("choice", "c"),
        ("precision", "BF16"),
        ("precision", 16),
        ("items", 4),
        ("items", "4"),
        ("items", ["4"]),
        ("items", {"a": 1}),
        ("pair", [1]),
        ("pair", [1, "a", 2]),
        ("names", "a"),
        ("path", 4),
        ("inner", [1]),
        ("inner", "x"),
        ("table", [1]),
        ("table", {"a": {"y": 1}}),
        ("table", {1: {}}),
        ("maybe", 0),
        ("later", {}),
        ("later", None),
        ("more", 1),
    ],
)
def test_nothing_is_converted_or_ignored(key, value):
    with pytest.raises(ScenarioError):
        validate_data({key: value}, Everything)


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [
        ("integer", 4, 4),
        ("number", 4, 4.0),
        ("number", 1e-6, 1e-6),
        ("boolean", True, True),
        ("precision", "fp32", Precision.FP32),
        ("items", [1, 2], (1, 2)),
        ("pair", [1, "a"], (1, "a")),
        ("names", ["a", "b"], frozenset("ab")),
        ("path", "a/b", Path("a/b")),
        ("table", {"a": {"x": 1}}, {"a": Inner(x=1)}),
        ("maybe", None, None),
        ("maybe", 3, 3),
    ],
)
def test_what_a_document_writes_is_accepted(key, value, accepted):
    found = getattr(validate_data({key: value}, Everything), key)
    assert found == accepted
    assert type(found) is type(accepted)


class Bounds(Section):
    positive_int: PositiveInt = 1
    non_negative_int: NonNegativeInt = 0
    positive_float: PositiveFloat = 1.0
    non_negative_float: NonNegativeFloat = 0.0
    fraction: Fraction = 1.0
    share: Share = 0.0
    name: Name = "a"


@pytest.mark.parametrize(
    ("key", "inside", "outside"),
    [
        ("positive_int", [1, 2**40], [0, -1]),
        ("non_negative_int", [0], [-1]),
        ("positive_float", [1e-9], [0, -1.0]),
        ("non_negative_float", [0], [-1e-9]),
        ("fraction", [1e-9, 1], [0, 1.01]),
        ("share", [0, 1], [-0.1, 1.1]),
        ("name", ["a"], [""]),
    ],
)
def test_bounds(key, inside, outside):
    for value in inside:
        assert getattr(validate_data({key: value}, Bounds), key) == value
    for value in outside:
        with pytest.raises(ScenarioError):
            validate_data({key: value}, Bounds)


def test_sections_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        Inner().x = 1


class Described(Section):
    hosts: int = 1
    """How many hosts there are."""

    begin: int | None = Field(default=None, validation_alias="from")
    """When it begins;
    at once, if not written."""

    silent: int = 1

    inner: Inner = Inner()
    """What is inside."""


class More(Described):
    hosts: int = 2
    """Hosts of
    another kind."""

    begin: int = 3


def test_descriptions_are_attribute_docstrings():
    shown = {
        name: each.get("description") for name, each in Described.model_json_schema()["properties"].items()
    }
    assert shown == {
        "hosts": "How many hosts there are.",
        "from": "When it begins;\nat once, if not written.",
        "silent": None,
        "inner": "What is inside.",
    }


def test_a_field_declared_anew_has_only_its_own_description():
    shown = More.model_json_schema()["properties"]
    assert shown["hosts"]["description"] == "Hosts of\nanother kind."
    assert "description" not in shown["begin"] and shown["inner"]["description"] == "What is inside."


def test_a_section_without_a_source_has_no_descriptions():
    made: dict[str, type[Section]] = {"Section": Section}
    exec("class Typed(Section):\n    hosts: int = 1\n    'Never read.'\n", made)
    assert "description" not in made["Typed"].model_json_schema()["properties"]["hosts"]


def test_a_field_may_have_several_names():
    class Named(Section):
        mesh: int = Field(validation_alias=AliasChoices("mesh", "device_matrix"))

    assert validate_data({"device_matrix": 4}, Named) == validate_data({"mesh": 4}, Named) == Named(mesh=4)


def test_a_key_that_is_named_by_its_first_alias_has_its_description():
    """``from`` cannot be the name of a field, so the schema has it by that alias alone."""

    class Loaded(Section):
        source: int = Field(validation_alias=AliasChoices("from", "source"))
        """Where it lies."""

    described = Loaded.model_json_schema()["properties"]
    assert {key: part["description"] for key, part in described.items()} == dict.fromkeys(
        ["from", "source"], "Where it lies."
    )


def test_an_unsupported_key_is_left_out_when_written():
    everything = Everything()
    assert "later" not in everything.model_dump()
    assert validate_data(everything.model_dump(mode="json"), Everything) == everything
