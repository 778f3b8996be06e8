"""Sections that may name an entry of a catalog, whole or with some of its keys changed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib.resources.abc import Traversable
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from simcluster.document.document import Document
from simcluster.document.section import Name, Refused, Section
from simcluster.document.validation import validate, validate_data
from simcluster.errors import ScenarioError, nearest

FILE_NAME = {"type": "string", "pattern": r"\.ya?ml$"}
"""The schema of a file's name in place of an entry's; who holds the document reads the file."""


SOME_KEYS = "some keys of the section; the entry has the others"
"""The comment in a schema by which readers know what stands for a part of a section."""


class CatalogSection(Section):
    """A section that may name an entry of a catalog instead: ``h100-sxm``, or ``{use: h100-sxm, ...}``.

    What is written beside ``use`` replaces those keys of the entry. ``noun`` is what messages call an entry.
    """

    noun: ClassVar[str]

    use: Name | None = None
    """The catalog entry to use, or to start from."""

    borrowed: Name | None = None
    """Why the unchanged figures of ``use`` also hold for this part; they then count as assumed.

    For an entry that starts from a different part. Without it, the entry is the same part in another form.
    """

    @classmethod
    @abstractmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The catalog's files by name."""

    @classmethod
    def hint(cls, name: str) -> str:
        """The hint for a name that no entry has: the nearest one, or known ones."""
        return nearest(name, cls.entries())

    @classmethod
    def load(cls, name: str) -> Self:
        """The entry called ``name``; ScenarioError, with the nearest name, if there is none."""
        if name not in cls.entries():
            raise ScenarioError(f"unknown {cls.noun} '{name}'", hint=cls.hint(name))
        entry: Self = _loaded(cls, name)
        return entry

    @classmethod
    def sourced(cls, name: str) -> Self:
        """The file of an entry as it stands; ScenarioError if one of its figures has no source."""
        return validate(cls.document(name), cls, sourced=True)

    @classmethod
    def document(cls, name: str) -> Document:
        """The file of an entry."""
        return _parsed(cls.entries()[name].read_text(encoding="utf-8"), name)

    @classmethod
    def entry(cls, name: str) -> dict[str, Any]:
        """An entry as plain data: what it uses, with its changes, and its own ``use`` and ``borrowed``."""
        return dict(cls.expanded(cls.document(name).data))

    @classmethod
    def expanded(cls, written: Any) -> Any:
        """``h100-sxm`` or ``{use: h100-sxm, memory: 96 GB}`` as the whole entry, with the changes in it.

        A key written as null is left out. Anything without ``use`` is returned as it is. An entry may itself
        ``use`` another one. Raises Refused for an unknown name, and for ``borrowed`` without ``use``.
        """
        if isinstance(written, str):
            written = {"use": written}
        if not isinstance(written, Mapping) or not isinstance(written.get("use"), str):
            if isinstance(written, Mapping) and written.get("borrowed") and "use" not in written:
                raise Refused("nothing is borrowed without 'use'", path="borrowed")
            return written
        name = written["use"]
        if name not in cls.entries():
            raise Refused(f"unknown {cls.noun} '{name}'", path="use", hint=cls.hint(name))
        entry = {**cls.entry(name), "borrowed": None}
        reason = written.get("borrowed")
        return changed(_borrowed(entry, f"{reason} (as {name}: ") if reason else entry, written)

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return cls.expanded(written)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        """The section's schema, which also says that a name is accepted."""
        schema = super().__get_pydantic_core_schema__(source, handler)
        model: Any = handler.resolve_ref_schema(schema)
        model.setdefault("metadata", {})["simcluster"] = {"shorthand": "use"}
        return schema

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """A name of the catalog, an entry with changes, or the whole."""
        written = handler.resolve_ref_schema(super().__get_pydantic_json_schema__(schema, handler))
        known = {"type": "string", "enum": list(cls.entries())}
        description = written["properties"]["use"]["description"]
        written["properties"]["use"] = {"anyOf": [known, FILE_NAME], "description": description}
        changes = {name: _as_changes(part) for name, part in written["properties"].items()}
        changed_entry = written | {"properties": changes, "required": ["use"]}
        return {"anyOf": [known, FILE_NAME, changed_entry, written]}


def _as_changes(part: JsonSchemaValue) -> JsonSchemaValue:
    """The schema of a key beside ``use``: of a section some keys are enough, the entry has the others."""
    if "$ref" not in str(part):
        return part
    some_keys = {"type": "object", "$comment": SOME_KEYS}
    described = {"description": part["description"]} if "description" in part else {}
    return {"anyOf": [part, some_keys], **described}


@cache
def _loaded(section: type[CatalogSection], name: str) -> Any:
    """A shipped entry, one object per section and name: it is frozen, and every cluster reads its host's."""
    return validate_data({"use": name}, section)


@cache
def _parsed(text: str, name: str) -> Document:
    return Document.parse(text, f"{name}.yaml")


def changed(entry: Any, changes: Any) -> Any:
    """``entry`` with ``changes``: sections key by key, a figure or a list as a whole.

    The name of an entry (``device: h100-sxm``) may be given changes too; null takes a key away.
    """
    if isinstance(entry, str) and isinstance(changes, Mapping):
        entry = {"use": entry}
    if not isinstance(entry, Mapping) or not isinstance(changes, Mapping) or "value" in entry:
        return changes
    merged = {**entry, **{key: _changed_part(entry.get(key), value) for key, value in changes.items()}}
    return {key: value for key, value in merged.items() if value is not None}


def _changed_part(part: Any, changes: Any) -> Any:
    """A part with changes; what was changed of one entry does not hold for another in its place."""
    both = isinstance(part, Mapping) and isinstance(changes, Mapping)
    if both and "use" in part and changes.get("use", part["use"]) != part["use"]:
        return changes
    return changed(part, changes)


def _borrowed(entry: Any, reason: str) -> Any:
    """``entry`` with every figure assumed, its source ``reason`` and what it was on the part it is of."""
    if isinstance(entry, Mapping) and "value" in entry:
        source = " ".join(str(entry.get("source", "")).split())
        return {**entry, "source": f"{reason}{source})", "provenance": "assumed"}
    if isinstance(entry, Mapping):
        return {key: _borrowed(value, reason) for key, value in entry.items()}
    if isinstance(entry, list):
        return [_borrowed(value, reason) for value in entry]
    return entry
