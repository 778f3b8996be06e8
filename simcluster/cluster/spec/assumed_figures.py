"""The assumed figures of devices and hosts, which results list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simcluster.cluster.cluster import Assumption
from simcluster.cluster.spec.device_spec import ClockSpec, DeviceSpec
from simcluster.cluster.spec.host_spec import DiskSpec, ProcessorSpec
from simcluster.document import Figure, Section


def assumptions_of(part: Any, name: str) -> Iterator[Assumption]:
    """The assumed figures of a section and all below it; a device's are named after the device."""
    if isinstance(part, (ClockSpec, ProcessorSpec, DiskSpec)):
        return  # facts for reading: no result rests on them
    if isinstance(part, Figure):
        if part.provenance == "assumed":
            yield Assumption(name, _text(part.model_dump(mode="json")["value"]), part.source)
    elif isinstance(part, Section):
        for field in type(part).model_fields:
            inner = getattr(part, field)
            named = inner.use or inner.title if isinstance(inner, DeviceSpec) else f"{name}.{field}"
            yield from assumptions_of(inner, named)
    elif isinstance(part, (dict, tuple)):
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            yield from assumptions_of(inner, f"{name}.{key}")


def _text(value: Any) -> str:
    """A figure's value on one line, as a YAML file would have it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(inner) for inner in value) + "]"
    return str(value)
