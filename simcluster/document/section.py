"""The base of every section of a scenario or a catalog file, and the number types they use."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from html import escape
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from simcluster.errors import Problem

PositiveInt = Annotated[int, Field(ge=1)]
"""An integer of at least 1: numbers of hosts, layers, micro-batches."""

NonNegativeInt = Annotated[int, Field(ge=0)]
"""An integer of at least 0: ranks, seeds, steps to wait."""

PositiveFloat = Annotated[float, Field(gt=0)]
"""A finite number above 0."""

NonNegativeFloat = Annotated[float, Field(ge=0)]
"""A finite number of at least 0."""

Fraction = Annotated[float, Field(gt=0, le=1)]
"""A number above 0 and at most 1: an efficiency, a share of peak."""

Share = Annotated[float, Field(ge=0, le=1)]
"""A number from 0 to 1, both included: a probability, a load."""

Name = Annotated[str, Field(min_length=1)]
"""Text that is not empty."""

_ABOUT_KEYS = {"default", "description"}
"""What a JSON schema says of a key besides its values."""

_RELAXED = {"tuple", "set", "frozenset", "enum", "lax-or-strict"}
_PARTS = (
    "schema",
    "fields",
    "items_schema",
    "keys_schema",
    "values_schema",
    "choices",
    "steps",
    "lax_schema",
    "python_schema",
)


def _prepare(schema: Any, resolve: Callable[[Any], Any], seen: set[int]) -> None:
    """Numbers the branches of unions, and lets YAML's lists and text be tuples, sets, enums and paths.

    Strict validation would want a tuple object, which no document holds. Other sections are left alone: they
    have prepared themselves.
    """
    if isinstance(schema, (tuple, list)):
        for part in schema:
            _prepare(part, resolve, seen)
    if not isinstance(schema, dict) or id(schema) in seen:
        return
    seen.add(id(schema))
    if schema.get("type") == "definition-ref":
        try:
            target = resolve(schema)
        except LookupError:  # a section that is still being built
            return
        if target["type"] != "model":
            _prepare(target, resolve, seen)
    if schema.get("type") in _RELAXED:
        schema["strict"] = False
    for name in _PARTS:
        if name in schema:
            part = schema[name]
            _prepare(
                list(part.values()) if isinstance(part, dict) and "type" not in part else part, resolve, seen
            )
    if schema.get("type") == "union" and "custom_error_type" not in schema:
        schema["choices"] = [
            choice if isinstance(choice, tuple) else (choice, str(index))
            for index, choice in enumerate(schema["choices"])
        ]


def _other_names(field: FieldInfo) -> list[str]:
    """The names of a key besides that of its field, which is none where Python has no such name."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return [choice for choice in choices if isinstance(choice, str)]


def _spread(schema: JsonSchemaValue, names: list[str]) -> None:
    """Gives a property all its names; if it is required, one of them is."""
    properties = schema.get("properties", {})
    written = next((name for name in names if name in properties), None)
    if written is None:
        return
    for name in names:
        properties.setdefault(name, properties[written])
    required = schema.get("required", [])
    if written in required:
        schema["required"] = [name for name in required if name != written]
        schema.setdefault("allOf", []).append({"anyOf": [{"required": [name]} for name in names]})
        if not schema["required"]:
            del schema["required"]


class Section(BaseModel):
    """A part of a document: frozen, with exactly the keys it declares, and nothing converted silently.

    Text is not a number, 1.0 is not an integer, ``'on'`` and 1 are not booleans, NaN and infinities are not
    numbers; an integer is accepted where a number is wanted, a list where a tuple or a set is. Descriptions
    of fields are their attribute docstrings, looked up when a schema is written. Other names are given as
    ``Field(validation_alias=AliasChoices("its_name", "other_name"))``; both stand in the JSON schema.

    A section as another's default is ``Its.model_construct()``: ``Its()`` would build its schema, which takes
    milliseconds, wherever the other is defined.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        populate_by_name=True,
        protected_namespaces=(),
        defer_build=True,
    )

    shorthand: ClassVar[str] = ""
    """The key that a plain value stands for, in a section whose validator accepts one."""

    keys_elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys of other tools that a section does not have -> what to write instead, shown in the error."""

    def _repr_html_(self) -> str:
        """What is written, as JSON with a key a line: a notebook's alternative to a page of fields."""
        written = self.model_dump_json(exclude_unset=True, indent=2)
        return f"<pre>{escape(written)}</pre>"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        """The schema of pydantic, with the branches of unions numbered so that errors can be told apart."""
        schema = handler(source)
        _prepare(handler.resolve_ref_schema(schema), handler.resolve_ref_schema, set())
        return schema

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """The JSON schema with every accepted name of a field, and defaults as they would be written."""
        written = handler(schema)
        target = handler.resolve_ref_schema(written)
        descriptions = field_descriptions(cls)
        for name, field in cls.model_fields.items():
            names = list(dict.fromkeys([name, *_other_names(field)]))
            properties = target.get("properties", {})
            shown: JsonSchemaValue = next((properties[key] for key in names if key in properties), {})
            if name in descriptions:
                shown["description"] = descriptions[name]
            if "default" in shown:
                adapter = TypeAdapter[Any](field.rebuild_annotation())
                shown["default"] = adapter.dump_python(field.default, mode="json", warnings=False)
            if isinstance(shown.get("default"), dict):
                del shown["default"]  # the section's own keys show their defaults
            if isinstance(field.validation_alias, AliasChoices):
                _spread(target, names)
        return {"anyOf": [cls.plain_schema(target["properties"]), target]} if cls.shorthand else written

    @classmethod
    def plain_schema(cls, keys: Mapping[str, JsonSchemaValue]) -> JsonSchemaValue:
        """What may stand in place of the section: the value of its ``shorthand`` alone, but for null."""
        plain = {key: part for key, part in keys[cls.shorthand].items() if key not in _ABOUT_KEYS}
        if "anyOf" not in plain:
            return plain
        values = [part for part in plain["anyOf"] if part != {"type": "null"}]
        return values[0] if len(values) == 1 else plain | {"anyOf": values}


@cache
def field_descriptions(section: type[Section]) -> Mapping[str, str]:
    """What the fields of a section are, by name: the text below each in the source, where there is one.

    pydantic can read that too, but of every class as it is made, for which starting would wait.
    """
    descriptions: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if issubclass(base, Section) and not base.__pydantic_generic_metadata__["origin"]:
            for name, text in _texts_below_fields(base.__module__).get(base.__qualname__, {}).items():
                descriptions.pop(name, None)
                if text is not None:
                    descriptions[name] = text
    return descriptions


@cache
def _texts_below_fields(module: str) -> Mapping[str, Mapping[str, str | None]]:
    """The text below every annotated name of every class of a module, by the qualified names of classes.

    ``inspect.getsource`` of a class would read the whole module for each of them.
    """
    texts: dict[str, dict[str, str | None]] = {}

    def visit(node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = outer
            if isinstance(child, ast.ClassDef):
                inside = f"{outer}{child.name}."
                texts.setdefault(inside[:-1], dict(_annotated(child)))
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                inside = f"{outer}{child.name}.<locals>."
            visit(child, inside)

    # A module that was typed in has no source.
    with suppress(OSError, TypeError, KeyError):
        visit(ast.parse(inspect.getsource(sys.modules[module])), "")
    return texts


def _annotated(made: ast.ClassDef) -> Iterator[tuple[str, str | None]]:
    for field, text in pairwise([*made.body, None]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match text:
                case ast.Expr(ast.Constant(str(words))):
                    yield field.target.id, inspect.cleandoc(words)
                case _:
                    yield field.target.id, None


class Refused(ValueError):
    """What a validator of a section raises to point at keys inside it.

    ``raise Refused("8 heads do not split over 3 ranks", path="mesh.tensor")``; paths are relative to the
    section. Several problems are given as ``Problem`` objects. A plain ValueError points at the section.
    """

    def __init__(self, *problems: Problem | str, path: str = "", hint: str = "") -> None:
        self.problems = tuple(
            problem if isinstance(problem, Problem) else Problem(problem, path, hint) for problem in problems
        )
        super().__init__("; ".join(problem.message for problem in self.problems))
