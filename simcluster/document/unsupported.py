"""Keys that are reserved for later work: refused with ``not supported yet``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class NotSupportedYet:
    """An annotation that refuses every value: "'fusion' is not supported yet"."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """A schema that no written value passes."""
        return core_schema.no_info_plain_validator_function(
            _refuse, metadata={"simcluster": {"hidden": True, "wants": "nothing", "kinds": set()}}
        )


def _refuse(written: Any) -> None:
    raise PydanticCustomError("not_supported", "not supported yet")


Unsupported = SkipJsonSchema[Annotated[None, NotSupportedYet(), Field(exclude=True)]]
"""The type of a key of later work: ``fusion: Unsupported = None``.

Any value given to it is refused. The key is neither in the JSON schema (so editors flag it and do not offer
it), nor among the names proposed for a misspelt key, nor in a written document.
"""
