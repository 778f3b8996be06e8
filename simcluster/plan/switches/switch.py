"""Switches of framework profiles: keys of which every value has words and says what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from inspect import cleandoc
from typing import Any, ClassVar, Literal, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.pass_list import Pass


@dataclass(frozen=True, slots=True)
class Phrase:
    """What a key of a profile means with a value, of keys without a FrameworkSwitch: metadata of fields."""

    phrase: Callable[[Any], str]


class FrameworkSwitch(Enum):
    """A key of framework profiles and its values: ``class Gather(FrameworkSwitch, kind="gather")``.

    Each member is ``value, words``, then fields of the :class:`ExecutionPolicy` that it sets, and settings of
    passes by their names. The first one holds in profiles without the key; the docstring describes the key.
    """

    kind: ClassVar[str]
    """The key."""
    words: str
    """What the value means, as results tell it."""
    execution: Mapping[str, Any]
    """Fields of the ExecutionPolicy that it sets."""
    settings: Mapping[str, Mapping[str, Any]]
    """Settings of passes behind sharding that it changes, by pass."""

    def __init_subclass__(cls, kind: str) -> None:
        super().__init_subclass__()
        cls.kind = kind

    def __new__(
        cls,
        value: str | bool,
        words: str,
        execution: Mapping[str, Any] | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Self:
        """The member of a value."""
        member = object.__new__(cls)
        member._value_ = value
        member.words, member.execution, member.settings = words, execution or {}, settings or {}
        return member

    def passes(self, passes: Iterable[Pass]) -> Iterator[Pass]:
        """The passes behind sharding as this value has them; a switch may leave some out, or add some."""
        return (step.having(self.settings.get(step.name, {})) for step in passes)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        """Reads and writes the values as they stand in documents."""
        values = tuple(member.value for member in cls)
        written = handler(bool if set(values) == {False, True} else Literal[values])
        value = core_schema.plain_serializer_function_ser_schema(lambda member: member.value)
        return core_schema.no_info_after_validator_function(cls, written, serialization=value)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """The schema of the values, with the description of the key."""
        return {**handler(schema), "description": cleandoc(cls.__doc__ or "")}
