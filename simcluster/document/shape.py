"""What may be written at a key path of a document, read from pydantic's schema of its model.

pydantic reports *that* a value does not fit; to say what would fit, and which of several accepted forms the
user meant, the schema itself is walked along the path of the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from pydantic import BaseModel

from simcluster.deferred_dataclass import dataclass
from simcluster.document.wording import (
    BOOLEAN,
    INTEGER,
    KINDS,
    LIST,
    MAPPING,
    NOTHING,
    NUMBER,
    TEXT,
    bounds_phrase,
    choice_phrase,
    count_phrase,
    kind_of,
    spelled_value,
)

_WRAPPERS = {
    "default": "schema",
    "nullable": "schema",
    "model": "schema",
    "function-before": "schema",
    "function-after": "schema",
    "function-wrap": "schema",
    "lax-or-strict": "lax_schema",
    "json-or-python": "python_schema",
}
_LISTS = ("list", "tuple", "set", "frozenset", "generator")
_SHOWN_KEYS = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """The part of pydantic's schema that describes one key path, and the schemas it refers to."""

    schema: dict[str, Any]
    definitions: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, model: type[BaseModel]) -> Shape:
        """The shape of a whole document."""
        schema: Any = model.__pydantic_core_schema__
        return cls(schema, {})

    def inner(self) -> Shape:
        """The same without what only wraps it: defaults, null, validators, references."""
        *_, innermost = self._unwrapped()
        return innermost

    def _unwrapped(self) -> Iterator[Shape]:
        """The shape, and what is left of it below each of its wrappers."""
        schema, definitions = self.schema, self.definitions
        while True:
            yield Shape(schema, definitions)
            kind = schema["type"]
            if kind == "definitions":
                definitions = definitions | {part["ref"]: part for part in schema["definitions"]}
                schema = schema["schema"]
            elif kind == "definition-ref":
                schema = definitions[schema["schema_ref"]]
            elif kind == "chain":
                schema = schema["steps"][0]
            elif kind in _WRAPPERS and not _shorthand(schema):
                schema = schema[_WRAPPERS[kind]]
            else:
                return

    def instead_of(self, key: str) -> str:
        """What to write in place of a key of another tool; nothing if the section says nothing of it."""
        for shape in self._unwrapped():
            if shape.schema["type"] == "model":
                return str(getattr(shape.schema["cls"], "keys_elsewhere", {}).get(key, ""))
        return ""

    @property
    def type(self) -> str:
        """Pydantic's name of the type here, wrappers aside."""
        return str(self.inner().schema["type"])

    @property
    def is_hidden(self) -> bool:
        """Whether the key belongs to later work."""
        return bool(_notes(self.inner().schema).get("hidden"))

    @property
    def fields(self) -> dict[str, Shape]:
        """The keys of a section in order, other names of a key included; empty if this is no section."""
        return {name: Shape(field["schema"], self._body().definitions) for name, _, field in self._named()}

    def canonical(self, name: str) -> str:
        """The field that a key names: the key itself, or the field it is another name of."""
        return next((field for key, field, _ in self._named() if key == name), name)

    def _body(self) -> Shape:
        """The fields behind a section that also accepts a plain value."""
        inner = self.inner()
        return (
            Shape(inner.schema["schema"], inner.definitions).inner()
            if inner.schema["type"] == "model"
            else inner
        )

    def _named(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        body = self._body().schema
        for name, field in body["fields"].items() if body["type"] in ("model-fields", "typed-dict") else ():
            yield name, name, field
            for other in _aliases(field.get("validation_alias")):
                if other != name:
                    yield other, name, field

    def choices(self) -> dict[str, Shape]:
        """The branches of a union by the label that stands in pydantic's error paths; empty otherwise."""
        inner = self.inner()
        if inner.schema["type"] == "tagged-union":
            return {str(tag): Shape(part, inner.definitions) for tag, part in inner.schema["choices"].items()}
        if inner.schema["type"] != "union":
            return {}
        return {
            label: Shape(part, inner.definitions)
            for part, label in (
                choice if isinstance(choice, tuple) else (choice, str(index))
                for index, choice in enumerate(inner.schema["choices"])
            )
        }

    @property
    def discriminator(self) -> str:
        """The key that names the branch of a tagged union."""
        key = self.inner().schema.get("discriminator")
        return key if isinstance(key, str) else "kind"

    @property
    def tags(self) -> str:
        """The values of the discriminator in words."""
        return choice_phrase(spelled_value(tag) for tag in self.inner().schema["choices"])

    @property
    def shorthand(self) -> str:
        """The key that a plain value stands for, in a section that accepts one (``Figure``); else nothing."""
        return _shorthand(self.inner().schema)

    @property
    def keys(self) -> Shape | None:
        """What the keys of a mapping may be."""
        inner = self.inner()
        part = inner.schema.get("keys_schema")
        return Shape(part, inner.definitions) if part else None

    def child(self, key: Any) -> Shape | None:
        """The shape of the value under a key or an index, if this is a section, a mapping or a list."""
        inner = self.inner()
        schema = inner.schema
        part: Any = None
        if schema["type"] == "dict":
            part = schema.get("values_schema")
        elif schema["type"] == "tuple":
            parts, variadic = schema["items_schema"], schema.get("variadic_item_index")
            index = key if variadic is None or key < variadic else variadic
            part = parts[index] if isinstance(index, int) and index < len(parts) else None
        elif schema["type"] in _LISTS:
            part = schema.get("items_schema")
        else:
            return self.fields.get(key)
        return Shape(part, inner.definitions) if part else None

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of values that could fit here."""
        schema = self.inner().schema
        notes = _notes(schema)
        if "kinds" in notes:
            return frozenset(notes["kinds"])
        match schema["type"]:
            case "model":
                return frozenset((MAPPING,)) | self.fields[self.shorthand].kinds
            case "model-fields" | "typed-dict" | "dict" | "tagged-union":
                return frozenset((MAPPING,))
            case "int":
                return frozenset((INTEGER,))
            case "float":
                return frozenset((INTEGER, NUMBER))
            case "str":
                return frozenset((TEXT,))
            case "bool":
                return frozenset((BOOLEAN,))
            case "none":
                return frozenset((NOTHING,))
            case "literal" | "enum":
                return frozenset(kind_of(option) for option in self.options)
            case "union":
                return frozenset().union(*(choice.kinds for choice in self.choices().values()))
            case kind:
                return frozenset((LIST,)) if kind in _LISTS else KINDS

    @property
    def options(self) -> tuple[Any, ...]:
        """The accepted values of a closed set; of a union, those of all its branches."""
        schema = self.inner().schema
        if schema["type"] == "literal":
            values = schema["expected"]
        elif schema["type"] == "enum":
            values = schema["members"]
        elif schema["type"] == "tagged-union":
            values = []
        else:
            values = [option for choice in self.choices().values() for option in choice.options]
        return tuple(value.value if isinstance(value, Enum) else value for value in values)

    @property
    def wants(self) -> str:
        """The accepted form in words: ``an integer of at least 1``, ``true or false``, ``a list``."""
        schema = self.inner().schema
        notes = _notes(schema)
        if "wants" in notes:
            return str(notes["wants"])
        match schema["type"]:
            case "model":
                return self.fields[self.shorthand].wants
            case "model-fields" | "typed-dict":
                keys = [
                    name
                    for name, field in self.fields.items()
                    if self.canonical(name) == name and not field.is_hidden
                ]
                shown = keys if len(keys) <= _SHOWN_KEYS else [*keys[: _SHOWN_KEYS - 1], "..."]
                return f"a mapping with the keys {', '.join(shown)}" if keys else "a mapping"
            case "dict":
                return "a mapping"
            case "int":
                return bounds_phrase("an integer", schema)
            case "float":
                return bounds_phrase("a number", schema)
            case "str":
                return "text"
            case "bool":
                return "true or false"
            case "none":
                return "null"
            case "literal" | "enum":
                return choice_phrase(spelled_value(option) for option in self.options)
            case "tuple" if "variadic_item_index" not in schema:
                return f"a list of {count_phrase(len(schema['items_schema']), 'item')}"
            case "tagged-union":
                return f"a mapping with {self.discriminator}: {self.tags}"
            case "union":
                choices = [choice for choice in self.choices().values() if choice.type != "is-instance"]
                many = sum(choice.kinds == {MAPPING} for choice in choices) > 1
                return choice_phrase(
                    "a mapping" if many and c.kinds == {MAPPING} else c.wants for c in choices
                )
            case kind:
                return "a list" if kind in _LISTS else "a value of another form"


def _notes(schema: dict[str, Any]) -> dict[str, Any]:
    notes: dict[str, Any] = schema.get("metadata", {}).get("simcluster", {})
    return notes


def _shorthand(schema: dict[str, Any]) -> str:
    return str(getattr(schema.get("cls"), "shorthand", "")) if schema["type"] == "model" else ""


def _aliases(alias: Any) -> Iterator[str]:
    """The names in a validation alias: one, or a list of paths of which the one-step ones are names."""
    if isinstance(alias, str):
        yield alias
    for path in alias if isinstance(alias, list) else ():
        if isinstance(path, str):
            yield path
        elif len(path) == 1:
            yield str(path[0])
