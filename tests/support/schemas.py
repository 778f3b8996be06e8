"""What a JSON schema accepts, said by a library of its own."""

from __future__ import annotations

from typing import Any


def schema_validator(schema: dict[str, Any]) -> Any:
    """What checks documents against a schema, after the schema itself.

    Raises:
        jsonschema.SchemaError: If it is no schema of draft 2020-12.
    """
    import jsonschema  # makes 38 parsers, which takes a second

    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
