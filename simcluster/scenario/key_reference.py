"""Every key of a scenario in Markdown, written from the schema that checks them: two topics of the guide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.document import json_schema
from simcluster.scenario.aliases import other_tool_names
from simcluster.scenario.spec import ScenarioSpec

Schema = dict[str, Any]

_SCENARIO = """# All keys of a scenario

Every key that a scenario file may have, with what it accepts and its default. This page is written from the
schema that checks scenarios, so it is complete; [scenarios](scenarios.md) explains how keys belong together.

`KEY.*` stands for names that you choose, `KEY[]` for each entry of a list. Keys of hosts and devices are in
[hardware_keys](hardware_keys.md). An editor completes and checks all of them with the JSON Schema that
`simcluster schema` prints.
"""
_HARDWARE = """# All keys of hosts and devices

What the file of a host or of a device may say, in the catalog or in a scenario under `cluster.host`. This
page is written from the schema that checks these files, so it is complete.

Where a figure is asked for, `{value: 64 GiB, source: data sheet, provenance: vendor}` also says where it
comes from. `provenance` is `measured`, `vendor` (stated by the vendor) or `assumed` (then the source gives
the reasoning). A plain figure counts as `scenario`: simply written there. `KEY.*` stands for names that you
choose, `KEY[]` for each entry of a list.
"""
_HARDWARE_ROOT = "cluster.host"
_FIGURE = {"value", "source", "provenance"}
"""The keys of a figure with its source."""
_MOST_OPTIONS = 16
"""Options that are listed; the catalog has the rest."""
_WORDS = {"boolean": "true or false", "integer": "whole number", "number": "number", "null": "null"}


def key_references() -> dict[str, str]:
    """Name of the topic -> its text: keys of scenarios, and those of hosts and devices."""
    sections = _Keys(json_schema(ScenarioSpec)).sections()
    hardware = [section.text for section in sections if section.is_hardware]
    others = [section.text for section in sections if not section.is_hardware]
    return {
        "scenario_keys": "\n".join([_SCENARIO, *others, _other_names()]),
        "hardware_keys": "\n".join([_HARDWARE, *hardware]),
    }


@dataclass(frozen=True, slots=True)
class _Section:
    """The keys of one mapping, under the key path where it stands."""

    place: str
    heading: str
    description: str
    entries: list[str]

    @property
    def is_hardware(self) -> bool:
        return self.place == _HARDWARE_ROOT or self.place.startswith(f"{_HARDWARE_ROOT}.")

    @property
    def text(self) -> str:
        words = [self.description, ""] if self.description else []
        return "\n".join([f"## {self.heading}", "", *words, *self.entries, ""])


@dataclass(slots=True)
class _Keys:
    """Sections in the order of the scenario; what several keys hold is written where it is first needed."""

    schema: Schema
    written: dict[str, str] = field(default_factory=dict)
    """Definition -> the key path under which it is written."""

    def sections(self) -> list[_Section]:
        """One for every mapping of keys."""
        sections = [_Section("", "The document", "", self._entries(self.schema))]
        for name, spec in self.schema["properties"].items():
            sections += self._below(name, spec)
        return sections

    def _below(self, path: str, spec: Schema) -> Iterator[_Section]:
        """The sections of the mappings that a value may be, and of those inside of them."""
        for suffix, mapping in self._mappings(spec):
            if mapping["title"] in self.written:
                continue
            place = self.written[mapping["title"]] = path + suffix
            kind = mapping["properties"].get("kind", {}).get("const")
            heading = f"`{place}` of kind `{kind}`" if kind else f"`{place}`"
            yield _Section(place, heading, _prose(mapping.get("description", "")), self._entries(mapping))
            for key, inner in mapping["properties"].items():
                yield from self._below(f"{place}.{key}", inner)

    def _entries(self, mapping: Schema) -> list[str]:
        required = mapping.get("required", ())
        return [self._entry(key, spec, key in required) for key, spec in mapping["properties"].items()]

    def _entry(self, key: str, spec: Schema, required: bool) -> str:
        kinds = ", or ".join(dict.fromkeys(self._kinds(spec)))
        default = spec.get("default")
        shown = (
            "required" if required else "" if default in (None, [], {}) else f"default `{_value(default)}`"
        )
        brackets = "; ".join(part for part in (kinds, shown) if part)
        text = _prose(spec.get("description") or self._resolved(spec).get("description", ""))
        return f"- `{key}` ({brackets}): {text}" if brackets else f"- `{key}`: {text}"

    def _resolved(self, spec: Schema) -> Schema:
        reference = spec.get("$ref")
        return self.schema["$defs"][reference.rpartition("/")[2]] if reference else spec

    def _mappings(self, spec: Schema) -> Iterator[tuple[str, Schema]]:
        """What is added to the key path, and the schema, of every mapping of keys that a value may be."""
        whole = self._resolved(spec)
        if "properties" in whole and set(whole["properties"]) != _FIGURE:
            yield "", whole
        for option in _alternatives(whole):
            yield from self._mappings(option)
        if isinstance(items := whole.get("items"), dict):
            yield from (("[]" + suffix, mapping) for suffix, mapping in self._mappings(items))
        if isinstance(values := whole.get("additionalProperties"), dict):
            yield from ((".*" + suffix, mapping) for suffix, mapping in self._mappings(values))

    def _kinds(self, spec: Schema) -> Iterator[str]:
        """What a value may be, in words."""
        whole = self._resolved(spec)
        options = _alternatives(whole)
        if "enum" in whole:
            yield _options(whole["enum"])
        elif "const" in whole:
            yield f"`{_value(whole['const'])}`"
        elif set(whole.get("properties", ())) == _FIGURE:
            yield from self._kinds(whole["properties"]["value"])
        elif "properties" in whole:
            place = self.written.get(whole["title"])
            yield f"keys as under `{place}`" if place else "keys below"
        elif options:
            listed = any("enum" in option for option in options)
            for option in options:
                stands_for_itself = option.get("type") != "null" and "$comment" not in option
                if stands_for_itself and not (listed and "pattern" in option):
                    yield from self._kinds(option)
        elif whole.get("type") == "array":
            items = whole.get("items")
            yield f"list of {' or '.join(self._kinds(items))}" if isinstance(items, dict) else "list"
        elif whole.get("type") == "object":
            values = whole.get("additionalProperties")
            yield f"names with {' or '.join(self._kinds(values))}" if isinstance(values, dict) else "mapping"
        elif examples := whole.get("examples"):
            yield f"such as `{_value(examples[0])}`"
        else:
            yield _WORDS.get(whole.get("type", ""), "text" if whole.get("type") == "string" else "any value")


def _alternatives(whole: Schema) -> list[Schema]:
    return [option for word in ("anyOf", "oneOf", "allOf") for option in whole.get(word, ())]


def _options(values: list[Any]) -> str:
    more = len(values) - _MOST_OPTIONS
    shown = ", ".join(f"`{_value(value)}`" for value in values[:_MOST_OPTIONS])
    return f"{shown} and {more} more" if more > 0 else shown


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _prose(text: str) -> str:
    """A docstring as one paragraph of Markdown."""
    return " ".join(text.replace("``", "`").split())


def _other_names() -> str:
    lines = [
        "## Names of other tools",
        "",
        "These names are accepted, too, and mean the key beside them.",
        "",
        "| tool | its name | key |",
        "|---|---|---|",
    ]
    rows = (
        f"| {tool} | `{name}` | `{meant.path}` |" for name, (tool, meant) in other_tool_names().names.items()
    )
    return "\n".join([*lines, *rows, ""])
