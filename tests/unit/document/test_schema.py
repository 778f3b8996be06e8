from typing import Literal

import pytest
from pydantic import AliasChoices, Field

from simcluster.document import (
    Bytes,
    Duration,
    Figure,
    Fraction,
    PositiveInt,
    Section,
    Unsupported,
    json_schema,
    validate_data,
)
from simcluster.errors import ScenarioError
from tests.support.schemas import schema_validator


class Mesh(Section):
    """The axes of the mesh."""

    tensor: PositiveInt = 1
    """Devices that share each layer."""


class Scenario(Section):
    """What to simulate."""

    simcluster: Literal[1]
    """The version of the format."""

    mode: Literal["data", "auto"] = "auto"
    """Who chooses the strategies."""

    mesh: Mesh = Field(default=Mesh(), validation_alias=AliasChoices("mesh", "device_matrix"))
    """How ranks are arranged."""

    hosts: PositiveInt = Field(validation_alias=AliasChoices("hosts", "nodes"))
    """How many hosts."""

    memory: Figure[Bytes] | None = None
    """What a device holds."""

    efficiency: Figure[Fraction] | None = None
    timeout: Duration | Literal["never"] = 90.0
    sizes: tuple[PositiveInt, ...] = (1, 2)
    fusion: Unsupported = None


SCHEMA = json_schema(Scenario)


def test_it_is_a_schema_of_draft_2020_12():
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema_validator(SCHEMA)
    assert SCHEMA["title"] == "Scenario"
    assert SCHEMA["description"] == "What to simulate."
    assert SCHEMA["additionalProperties"] is False
    assert SCHEMA["$defs"]["Mesh"]["additionalProperties"] is False
    assert SCHEMA["$defs"]["Mesh"]["description"] == "The axes of the mesh."


def test_keys_have_hints_and_completions():
    properties = SCHEMA["properties"]
    assert properties["mode"] == {
        "enum": ["data", "auto"],
        "type": "string",
        "default": "auto",
        "description": "Who chooses the strategies.",
    }
    assert SCHEMA["$defs"]["Mesh"]["properties"]["tensor"] == {
        "type": "integer",
        "minimum": 1,
        "default": 1,
        "description": "Devices that share each layer.",
    }
    assert properties["memory"]["description"] == "What a device holds."


def test_defaults_are_as_they_would_be_written():
    assert SCHEMA["properties"]["timeout"]["default"] == "90 s"
    assert SCHEMA["properties"]["sizes"]["default"] == [1, 2]
    assert "default" not in SCHEMA["properties"]["mesh"]


def test_every_name_of_a_key_is_there():
    properties = SCHEMA["properties"]
    assert properties["device_matrix"] == properties["mesh"]
    assert properties["nodes"] == properties["hosts"]
    assert SCHEMA["required"] == ["simcluster"]


def test_keys_of_later_work_are_not():
    assert "fusion" not in SCHEMA["properties"]


def test_figures_are_written_out_in_place():
    assert not any(name.startswith("Figure") for name in SCHEMA["$defs"])


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"mode": "data"},
        {"mode": "dta"},
        {"mesh": {"tensor": 4}},
        {"device_matrix": {"tensor": 4}},
        {"mesh": {"tensor": 0}},
        {"mesh": {"tenser": 1}},
        {"memory": "80 GB"},
        {"memory": "80"},
        {"memory": 80},
        {"memory": {"value": "80 GB", "source": "x", "provenance": "vendor"}},
        {"memory": {"value": "80 GB", "source": "x"}},
        {"memory": {"value": "80 GB", "source": "x", "provenance": "rumour"}},
        {"efficiency": 0.5},
        {"efficiency": 1.5},
        {"efficiency": {"value": 0.5, "source": "x", "provenance": "measured"}},
        {"timeout": "1.5 us"},
        {"timeout": "never"},
        {"timeout": "ever"},
        {"timeout": 3},
        {"sizes": [1, 2, 3]},
        {"sizes": [0]},
        {"sizes": 4},
        {"fusion": {}},
        {"more": 1},
        {"hosts": None},
        {"hosts": 2.5},
    ],
)
def test_the_schema_accepts_what_validation_accepts(change):
    data = {"simcluster": 1, "hosts": 2} | change
    try:
        validate_data(data, Scenario)
    except ScenarioError:
        accepted = False
    else:
        accepted = True
    assert schema_validator(SCHEMA).is_valid(data) is accepted


def test_a_required_key_may_go_by_either_name():
    validator = schema_validator(SCHEMA)
    assert validator.is_valid({"simcluster": 1, "nodes": 2})
    assert not validator.is_valid({"simcluster": 1})
