"""The JSON schema of a document, for editors: hints on keys, completion of values."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a document, as plain data.

    It has the title and docstring of the model, descriptions of all keys, and accepts no other keys; keys of
    later work are not in it.
    """
    schema = model.model_json_schema(schema_generator=_Schema)
    definitions = schema.get("$defs", {})
    figures = {
        f"#/$defs/{name}": definitions.pop(name) for name in list(definitions) if name.startswith("Figure_")
    }
    inlined: dict[str, Any] = _inlined(schema, figures)
    return {"$schema": DIALECT, **inlined}


class _Schema(GenerateJsonSchema):
    """The schema of pydantic without the titles that only repeat the keys."""

    def field_title_should_be_set(self, schema: CoreSchema | Any) -> bool:
        return False


def _inlined(schema: Any, figures: dict[str, Any]) -> Any:
    """The schema with its figures in their places, since a kind of figure has no name to show."""
    if isinstance(schema, list):
        return [_inlined(part, figures) for part in schema]
    if not isinstance(schema, dict):
        return schema
    figure = figures.get(schema.get("$ref", ""))
    if figure is not None:
        schema = figure | {key: part for key, part in schema.items() if key != "$ref"}
    return {key: _inlined(part, figures) for key, part in schema.items()}
