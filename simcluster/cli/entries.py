"""Catalog entries as text and as JSON: every figure with its source and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.cluster.device_spec import DeviceSpec
from simcluster.cluster.spec import HostSpec
from simcluster.document import CatalogSection, Document
from simcluster.draw import Cell, Column, shown, table
from simcluster.errors import ScenarioError, nearest
from simcluster.model.spec import ModelSpec
from simcluster.plan.framework import IDEAL, FrameworkSpec
from simcluster.plan.spec import RecipeSpec
from simcluster.plan.told import phrase

FAMILIES: Mapping[str, type[CatalogSection]] = {
    "devices": DeviceSpec,
    "hosts": HostSpec,
    "models": ModelSpec,
    "recipes": RecipeSpec,
    "frameworks": FrameworkSpec,
}

_TITLES = ("figure", "value", "", "source")
_TRUST = {"measured": "green", "vendor": "", "assumed": "yellow"}


def family_of(name: str) -> str:
    """The family that holds an entry; ScenarioError, with the nearest name, if none does."""
    for family, section in FAMILIES.items():
        if name in section.entries():
            return family
    known = [*FAMILIES, *(entry for section in FAMILIES.values() for entry in section.entries())]
    raise ScenarioError(f"the catalog has no '{name}'", hint=nearest(name, known))


def section_of(family: str) -> type[CatalogSection]:
    """The section of a family; ScenarioError, with the nearest name, if there is none."""
    if family not in FAMILIES:
        raise ScenarioError(f"the catalog has no family '{family}'", hint=nearest(family, FAMILIES))
    return FAMILIES[family]


def listing_text(families: Sequence[str], *, colour: bool = False) -> str:
    """One line per entry."""
    parts: list[RenderableType] = []
    for family in families:
        section = section_of(family)
        rows = [[name, *_line(section.expanded(name), family)] for name in section.entries()]
        columns = [Column(), Column(wraps=True), Column(style="dim", wraps=True)]
        parts += [Text(family, "bold"), table(columns, rows, indent=2), ""]
    return shown(*parts, colour=colour)


def listing_data(families: Sequence[str]) -> dict[str, dict[str, str]]:
    """Family -> name -> title."""
    return {
        family: {
            name: section_of(family).document(name).data["title"] for name in section_of(family).entries()
        }
        for family in families
    }


def entry_text(family: str, name: str, *, colour: bool = False) -> str:
    """The file of an entry: its remarks, then a row per figure, those of an entry it uses among them."""
    document = _entry(family, name)
    data = dict(section_of(family).expanded(name))
    data.pop("use", None)
    head = Text.assemble(
        (name, "bold"), "  ", str(data.pop("title", "")), ("  " + section_of(family).noun, "dim")
    )
    source = " ".join(str(data.pop("source", "")).split())
    if family == "frameworks":
        columns, rows = _against_ideal(name)
        return shown(head, *_dim(source, _remarks(document)), "", table(columns, rows), colour=colour)
    rows = list(_rows("", data))
    columns = [Column(title, wraps=title in ("value", "source")) for title in _TITLES]
    if not any(row[2] or row[3] for row in rows):
        columns, rows = [Column(), Column(wraps=True)], [row[:2] for row in rows]
    return shown(head, *_dim(source, _remarks(document)), "", table(columns, rows), colour=colour)


def _dim(*texts: str) -> list[Text]:
    return [Text(text, "dim") for text in texts if text]


def _against_ideal(name: str) -> tuple[list[Column], list[list[Cell]]]:
    """A framework profile: every key, its value and, where it changes something, the ideal one and why."""
    mine, ideal = FrameworkSpec.load(name), FrameworkSpec.load(IDEAL)
    changes, usual = mine.changes(), ideal.settings()
    rows: list[list[Cell]] = [
        [
            key,
            _short(value),
            _short(usual[key]) if key in changes else "",
            phrase(key, value) if key in changes else "",
        ]
        for key, value in mine.settings().items()
    ]
    titles = ("switch", "value", "ideal", "what it changes")
    return [Column(title, wraps=title != "switch") for title in titles], rows


def _short(value: Any) -> str:
    """A value, or a dash for none."""
    return "-" if value is None else _shown(value)


def entry_data(family: str, name: str) -> dict[str, Any]:
    """An entry as plain data, quantities as numbers in SI units."""
    _entry(family, name)
    return section_of(family).load(name).model_dump(exclude_none=True, exclude={"use"})


def _entry(family: str, name: str) -> Document:
    section = section_of(family)
    if name not in section.entries():
        raise ScenarioError(f"unknown {section.noun} '{name}'", hint=nearest(name, section.entries()))
    return section.document(name)


def _line(data: Mapping[str, Any], family: str) -> tuple[str, str]:
    """Title and the most telling figures of an entry."""
    match family:
        case "devices":
            told = f"{_value(data['memory'])}, {_value(data['memory_bandwidth'])}"
            compute = data["peak"].get("bf16")
            told += f", {_value(compute)} bf16" if compute else ""
        case "hosts":
            told = f"{_value(data['devices'])} x {data['device']}"
        case "models":
            count = units.count(data["parameters"]["value"])
            told = f"{count} parameters, {data['layers']} layers of {data['hidden']}"
        case _:
            told = str(data["source"])
    return str(data["title"]), told


def _value(figure: Any) -> str:
    return str(figure["value"] if isinstance(figure, Mapping) else figure)


def _remarks(document: Document) -> str:
    """The comment at the top of a file, where it explains its sources."""
    lines = []
    for line in document.lines:
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def _rows(path: str, data: Any) -> Iterator[list[Cell]]:
    if isinstance(data, Mapping) and "value" in data:
        trust = str(data.get("provenance", ""))
        source = " ".join(str(data.get("source", "")).split())
        yield [path, _shown(data["value"]), Text(trust, _TRUST.get(trust, "")), source]
    elif isinstance(data, Mapping):
        for key, inner in data.items():
            yield from _rows(f"{path}.{key}" if path else str(key), inner)
    elif isinstance(data, list) and any(isinstance(item, Mapping) for item in data):
        for index, inner in enumerate(data):
            if _has_figures(inner):
                yield from _rows(f"{path}.{index}", inner)
            else:
                yield ["" if index else path, _flow(inner), "", ""]
    else:
        yield [path, _shown(data), "", ""]


def _has_figures(data: Any) -> bool:
    """Whether anything inside names its source."""
    if isinstance(data, Mapping):
        return "value" in data or any(map(_has_figures, data.values()))
    return isinstance(data, list) and any(map(_has_figures, data))


def _shown(value: Any) -> str:
    """A value to read: large counts in groups of digits."""
    grouped = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if grouped else _flow(value)


def _flow(value: Any) -> str:
    """A value as YAML would have it on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
