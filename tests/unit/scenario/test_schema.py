"""What the published schema refuses, loading refuses; what loading refuses for its form, the schema refuses.

Not compared: changes of catalog entries (``{use: dgx-h100, ...}``), which the schema knows in part only, and
booleans for numbers, which pydantic takes for 0 and 1 in enumerations.
"""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from simcluster.errors import SimclusterError
from simcluster.scenario import Scenario, ScenarioSpec, other_tool_names, scenario_schema
from tests.support.schemas import schema_validator

FILES = sorted((Path(__file__).parents[3] / "scenarios").glob("*.yaml"))
QUICKSTART = FILES[0].with_stem("quickstart")
MAPPINGS = ({}, {"text": 1})
SHORT_FORMS = {
    "training.precision": ["fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4"],
    "training.optimizer": ["sgd", "adamw", "lazy_adam"],
    "training.routing": ["uniform", "zipf:1.2"],
    "parallel.schedule": ["gpipe", "1F1B", "ZB-V"],
    "parallel.schedule.kind": ["GPipe", "zb-v"],
    "parallel.recompute": ["auto", 2, True, [1, 0], [[1, 0], [0, 1]], ["layers.{0,5}"]],
    "parallel.recompute.layers": [True, False],
    "parallel.redistribution": ["mindspore"],
    "parallel.overlap.tensor": [4],
    "parallel.offload": ["auto"],
    "parallel.offload.activations": ["host", "disk"],
    "parallel.offload.offload_param": ["cpu", "disk", ""],
}
"""What may stand in place of a section, or of one of its keys as it is written out."""
WORDS = [values[0] for values in SHORT_FORMS.values() if isinstance(values[0], str)]
VALUES = (0, 1, -1, 2.5, "", "text", "none", "80 GB", [], [1], ["text"], *WORDS, *MAPPINGS)
OF_FORM = {
    *("extra_forbidden", "missing", "literal_error", "union_tag_invalid", "union_tag_not_found"),
    *("string_type", "int_type", "int_from_float", "float_type", "bool_type", "none_required"),
    *("dict_type", "list_type", "tuple_type", "model_type"),
}
"""pydantic's words for unknown and missing keys, wrong types and what is in no enumeration."""


@cache
def written_out(path):
    """A shipped scenario without short forms, with catalog entries in it."""
    return Scenario.load(path).spec.model_dump(mode="json", exclude_unset=True)


@cache
def schema():
    """What the published schema accepts."""
    return schema_validator(scenario_schema())


def places(value, path=()):
    """(path, holder) of everything in a document, but for what is within a catalog entry."""
    if isinstance(value, list) or (isinstance(value, dict) and "use" not in value):
        for key, child in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield (*path, key), value
            yield from places(child, (*path, key))


@st.composite
def documents(draw):
    """A shipped scenario with one or two keys left out, changed, or added as other scenarios have them."""
    document = copy.deepcopy(written_out(draw(st.sampled_from(FILES))))
    for _ in range(draw(st.integers(1, 2))):
        path, holder = draw(st.sampled_from(list(places(document))))
        change = draw(st.sampled_from(["leave out", "replace", "add", "add unknown"]))
        if change == "leave out":
            del holder[path[-1]]
        elif change == "replace":
            fitting = MAPPINGS if isinstance(holder[path[-1]], dict) else VALUES
            holder[path[-1]] = copy.deepcopy(draw(st.sampled_from(fitting)))
        elif isinstance(holder, dict) and change == "add":
            other = list(places(copy.deepcopy(written_out(draw(st.sampled_from(FILES))))))
            alike = [at for at in other if at[0][:-1] == path[:-1]] or other
            (*_, key), values = draw(st.sampled_from(alike))
            holder[str(key)] = values[key]  # keys of JSON are texts
        elif isinstance(holder, dict):
            holder["unknown"] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return document


def refusals(document):
    """Why loading refuses a document, in pydantic's words; none if it accepts it."""
    try:
        ScenarioSpec.model_validate(dict(other_tool_names().read_data(document)))
    except ValidationError as error:
        return {details["type"] for details in error.errors()}
    except SimclusterError:
        return {"in the names of other tools"}
    return set()


def with_value(path, value):
    """The quickstart with a value at a path."""
    document = copy.deepcopy(written_out(QUICKSTART))
    *parents, last = path.split(".")
    holder = document
    for key in parents:
        holder = holder.setdefault(key, {})
    holder[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value"), [(path, value) for path, values in SHORT_FORMS.items() for value in values]
)
def test_short_forms_are_accepted_by_both(path, value):
    document = with_value(path, value)
    assert refusals(document) == set()
    schema().validate(document)


@pytest.mark.parametrize("path", SHORT_FORMS)
@pytest.mark.parametrize("value", [1.5, [], [[]]], ids=str)
def test_what_is_no_short_form_is_refused_by_both(path, value):
    document = with_value(path, value)
    assert refusals(document)
    assert not schema().is_valid(document)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_schema_accepts_shipped_scenarios_written_out(path):
    schema().validate(written_out(path))


@settings(max_examples=160)
@given(documents())
def test_the_schema_and_loading_refuse_the_same_forms(document):
    why = refusals(document)
    if not schema().is_valid(document):
        assert why
    elif why:
        assert why - OF_FORM
