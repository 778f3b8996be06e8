"""Catalog files as plain data, and what an entry becomes with some of its figures changed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from simcluster.document import Document, Refused
from simcluster.errors import nearest
from simcluster.registry import data_files

DEVICES = "simcluster.cluster.devices"
HOSTS = "simcluster.cluster.hosts"


def names(family: str) -> tuple[str, ...]:
    """The names of a family's entries, sorted."""
    return tuple(data_files(family))


@cache
def document(family: str, name: str) -> Document:
    """The file of an entry, which must be one of ``names``."""
    file = data_files(family)[name]
    return Document.parse(file.read_text(encoding="utf-8"), f"{name}.yaml")


def expanded(family: str, written: Any) -> Any:
    """``h100-sxm`` or ``{use: h100-sxm, memory: 96 GB}`` as the whole entry, with the changes in it.

    Anything without ``use`` is returned as it is. An entry may itself ``use`` another one. Raises Refused
    for an unknown name.
    """
    if isinstance(written, str):
        written = {"use": written}
    if not isinstance(written, Mapping) or not isinstance(written.get("use"), str):
        return written
    name = written["use"]
    if name not in names(family):
        kind = "host" if family == HOSTS else "device"
        raise Refused(f"unknown {kind} '{name}'", path="use", hint=nearest(name, names(family)))
    return changed(expanded(family, document(family, name).data), written)


def changed(entry: Any, changes: Any) -> Any:
    """``entry`` with ``changes``: sections key by key, a figure or a list as a whole.

    The name of an entry (``device: h100-sxm``) may be given changes too.
    """
    if isinstance(entry, str) and isinstance(changes, Mapping):
        entry = {"use": entry}
    if not isinstance(entry, Mapping) or not isinstance(changes, Mapping) or "value" in entry:
        return changes
    return {**entry, **{key: changed(entry.get(key), value) for key, value in changes.items()}}
