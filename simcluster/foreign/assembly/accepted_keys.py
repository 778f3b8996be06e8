"""Which keys and values the scenario's schema accepts today, by validating a small scenario with them.

Translations name keys and words that may not exist yet. What is accepted is written, the rest is listed as
not supported, so that a translation grows with the schema and never writes what cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from simcluster.cluster import HostSpec
from simcluster.document import Shape, validate_data
from simcluster.errors import ScenarioError
from simcluster.scenario import ScenarioSpec


def schema_accepts(path: str, value: Any) -> bool:
    """Whether a valid scenario stays valid with this value at the key path."""
    data = deepcopy(_small())
    if path.startswith("inference."):
        del data["training"]
        data["inference"] = {"batch": 1, "prompt": 32, "tokens": 32}
    if path in ("model.use", "model.hf"):
        data["model"] = {}  # sizes of another model may not go with it
    if path.startswith(("parallel.search_mode", "parallel.auto")):
        set_path(data, "parallel.mode", "auto")
    if path in ("parallel.offload.pinned", "parallel.offload.block", "parallel.offload.queue"):
        set_path(data, "parallel.offload.parameters", "host")
    set_path(data, path, value)
    try:
        validate_data(data, ScenarioSpec)
    except ScenarioError:
        return False
    return True


@cache
def schema_has(path: str) -> bool:
    """Whether scenarios have this key, whatever its values are."""
    shapes = [Shape.of(ScenarioSpec)]
    for key in path.split("."):
        shapes = [child for shape in shapes for branch in _branches(shape) if (child := branch.child(key))]
    return any(not shape.is_hidden for shape in shapes)


def set_path(data: dict[str, Any], path: str, value: Any) -> None:
    """Writes a value at a key path; mappings on the way are made, single values on it replaced."""
    *parents, last = path.split(".")
    for key in parents:
        if not isinstance(data.get(key), dict):
            data[key] = {}
        data = data[key]
    data[last] = value


def in_schema_order(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same data with its keys in the order of the schema; unknown ones last."""
    return _ordered(data, [Shape.of(ScenarioSpec)])


def _ordered(data: Mapping[str, Any], shapes: list[Shape]) -> dict[str, Any]:
    branches = [branch for shape in shapes for branch in _branches(shape)]
    known = [key for branch in branches for key in branch.fields if key in data]
    ordered = {}
    for key in dict.fromkeys((*known, *data)):
        value = data[key]
        inner = [child for branch in branches if (child := branch.child(key))]
        ordered[key] = _ordered(value, inner) if isinstance(value, Mapping) else value
    return ordered


def _branches(shape: Shape) -> list[Shape]:
    return [branch for choice in shape.choices().values() for branch in _branches(choice)] or [shape]


@cache
def _small() -> dict[str, Any]:
    """The least scenario, with every size that a choice could ask for."""
    return {
        "simcluster": 1,
        "name": "small",
        "cluster": {"use": next(iter(HostSpec.entries())), "hosts": 1},
        "model": {
            "layers": 2,
            "hidden": 64,
            "heads": 4,
            "kv_heads": 2,
            "ffn": 128,
            "vocab": 128,
            "max_positions": 64,
        },
        "training": {"global_batch": 1, "micro_batch": 1, "seq_len": 64},
        "parallel": {"mesh": {"data": 1}},
    }
