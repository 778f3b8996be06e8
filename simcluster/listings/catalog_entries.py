"""Catalog entries as text and as JSON: every figure with its source and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, takewhile
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.cluster import DeviceSpec, HostSpec
from simcluster.document import CatalogSection
from simcluster.draw import Cell, Column, render_text, text_table
from simcluster.errors import ScenarioError, nearest
from simcluster.model import ModelSpec
from simcluster.plan import IDEAL, AllocatorSpec, FrameworkSpec, RecipeSpec

FAMILIES: Mapping[str, type[CatalogSection]] = {
    "devices": DeviceSpec,
    "hosts": HostSpec,
    "models": ModelSpec,
    "recipes": RecipeSpec,
    "frameworks": FrameworkSpec,
    "allocators": AllocatorSpec,
}

_OWN = {"use", "borrowed"}
"""Keys that say how an entry is written, not what it is."""

_TITLES = ("figure", "value", "", "source")
_TRUST = {"measured": "green", "vendor": "", "assumed": "yellow"}


def family_of(name: str, first: Iterable[str] = ()) -> str:
    """The family that holds an entry, one of ``first`` before others.

    Raises ScenarioError, with the nearest name, if none does.
    """
    for family in (*first, *FAMILIES):
        if name in FAMILIES[family].entries():
            return family
    known = [*FAMILIES, *(entry for section in FAMILIES.values() for entry in section.entries())]
    raise ScenarioError(f"the catalog has no '{name}'", hint=nearest(name, known))


def section_of(family: str) -> type[CatalogSection]:
    """The section of a family; ScenarioError, with the nearest name, if there is none."""
    if family not in FAMILIES:
        raise ScenarioError(f"the catalog has no family '{family}'", hint=nearest(family, FAMILIES))
    return FAMILIES[family]


def listing_text(family: str, *, colour: bool = False) -> str:
    """One line per entry of a family, with its most telling figures."""
    return render_text(*listing_parts(family), colour=colour)


def listing_parts(family: str) -> list[RenderableType]:
    """The same as a table, for a screen or a notebook."""
    section = section_of(family)
    rows = [[name, *_line(section.entry(name), family)] for name in section.entries()]
    columns = [Column(), Column(wraps=True), Column(style="dim", wraps=True)]
    return [Text(family, "bold"), text_table(columns, rows, indent=2)]


def entry_text(family: str, name: str, *, colour: bool = False) -> str:
    """The whole of an entry, also what it takes over from another: a row per figure, then remarks."""
    return render_text(*entry_parts(family, name), colour=colour)


def entry_parts(family: str, name: str) -> list[RenderableType]:
    """The same as a table, for a screen or a notebook; remarks stand below it."""
    section = section_of(family)
    data = _entry(family, name)
    head = Text.assemble((name, "bold"), "  ", str(data.pop("title", "")), ("  " + section.noun, "dim"))
    source = " ".join(str(data.pop("source", "")).split())
    if family == "frameworks":
        columns, rows = _against_ideal(name)
    else:
        if section is HostSpec:
            data = _with_links(data, name)
        shown = {key: data[key] for key in section.model_fields if key in data and key not in _OWN}
        rows = list(_rows("", shown))
        columns = [Column(title, wraps=title in ("value", "source")) for title in _TITLES]
        if not any(row[2] or row[3] for row in rows):
            columns, rows = [Column(), Column(wraps=True)], [row[:2] for row in rows]
    parts: list[RenderableType] = [head, *_dim(source), "", text_table(columns, rows)]
    for text in _remarks(section, name):
        parts += ["", *_dim(text)]
    return parts


def _dim(*texts: str) -> list[Text]:
    return [Text(text, "dim") for text in texts if text]


def _against_ideal(name: str) -> tuple[list[Column], list[list[Cell]]]:
    """A framework profile: every key, its value and, where it changes something, the ideal one and why."""
    profile, ideal = FrameworkSpec.load(name), FrameworkSpec.load(IDEAL)
    changes, usual = profile.changes(), ideal.settings()
    rows: list[list[Cell]] = [
        [
            key,
            _short(value),
            _short(usual[key]) if key in changes else "",
            FrameworkSpec.describe(key, value) if key in changes else "",
        ]
        for key, value in profile.settings().items()
    ]
    titles = ("switch", "value", "ideal", "what it changes")
    return [Column(title, wraps=title != "switch") for title in titles], rows


def _short(value: Any) -> str:
    """A value, or a dash for none."""
    return "-" if value is None else _shown(value)


def entry_data(family: str, name: str) -> dict[str, Any]:
    """An entry as plain data, quantities as numbers in SI units."""
    _entry(family, name)
    entry = section_of(family).load(name)
    if isinstance(entry, HostSpec):
        entry = entry.completed()
    return entry.model_dump(exclude_none=True, exclude=_OWN)


OWN_FILES = {
    "devices": "cluster: {host: {use: dgx-h100, device: ./FILE}, hosts: 1}",
    "hosts": "cluster: {use: ./FILE, hosts: 1}",
    "models": "model: ./FILE",
    "frameworks": "framework: ./FILE",
}
"""Where a scenario names a file in place of an entry; the other families have no such place."""


def entry_yaml(family: str, name: str) -> str:
    """The file of an entry as it is written, with a word on how to use it once it is changed.

    Raises ScenarioError for families whose entries a scenario takes from the catalog alone.
    """
    _entry(family, name)
    if family not in OWN_FILES:
        hint = f"files of your own can be {', '.join(OWN_FILES)}"
        raise ScenarioError(f"a scenario names {family} of the catalog only", hint=hint)
    use = OWN_FILES[family].replace("FILE", f"my-{name}.yaml")
    text = section_of(family).entries()[name].read_text(encoding="utf-8")
    return (
        f"# From the catalog: {name}. Save it, change it, and name it in a scenario: {use}\n{text}".rstrip()
    )


def _entry(family: str, name: str) -> dict[str, Any]:
    section = section_of(family)
    if name not in section.entries():
        raise ScenarioError(f"unknown {section.noun} '{name}'", hint=nearest(name, section.entries()))
    return section.entry(name)


def _with_links(data: dict[str, Any], name: str) -> dict[str, Any]:
    """A host's data with the figures of its links that its device gives."""
    entry = HostSpec.load(name).completed()
    for part, spec in (("fabric", entry.fabric), ("island", entry.island), ("pod", entry.pod)):
        if spec and spec.bandwidth and spec.efficiency:
            given = {
                "bandwidth": spec.bandwidth.model_copy(
                    update={"value": units.bandwidth(spec.bandwidth.value)}
                ),
                "efficiency": spec.efficiency,
            }
            data[part] = {key: figure.model_dump(warnings=False) for key, figure in given.items()} | data[
                part
            ]
    return data


def _line(data: Mapping[str, Any], family: str) -> tuple[str, str]:
    """Title and the most telling figures of an entry."""
    match family:
        case "devices":
            summary = f"{_value(data['memory'])}, {_value(data['memory_bandwidth'])}"
            dtype = next(dtype for dtype in ("bf16", "fp16", "fp32") if dtype in data["peak"])
            summary += f", {_value(data['peak'][dtype])} {dtype}"
        case "hosts":
            device = data["device"]
            summary = f"{_value(data['devices'])} x {device if isinstance(device, str) else device['use']}"
            network = data["network"]
            summary += f", {_value(network['nics'])} x {_value(network['bandwidth'])}"
        case "models":
            count = units.count(data["parameters"]["value"])
            summary = f"{count} parameters"
            if "hidden" in data:
                layers = data.get("layers") or f"{data['encoder_layers']} + {data['decoder_layers']}"
                summary += f", {layers} layers of {data['hidden']}"
        case _:
            summary = str(data["source"])
    return str(data["title"]), summary


def _value(figure: Any) -> str:
    return str(figure["value"] if isinstance(figure, Mapping) else figure)


def _remarks(section: type[CatalogSection], name: str) -> Iterator[str]:
    """The comment at the top of a file, which explains its sources, a paragraph at a time; then those of what
    it starts from.
    """
    document = section.document(name)
    head = takewhile(lambda line: line.startswith("#"), document.lines)
    lines = [line.removeprefix("#").strip() for line in head]
    yield from (" ".join(group) for is_text, group in groupby(lines, key=bool) if is_text)
    if base := document.data.get("use"):
        borrowed = document.data.get("borrowed")
        kind = f"; what is left unchanged is assumed: {borrowed}" if borrowed else ""
        yield f"Starts from {base} ({section.document(base).data['title']}){kind}."
        yield from _remarks(section, base)


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
