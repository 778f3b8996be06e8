"""Settings without a line in a scenario, by format: lists in YAML files, loaded here."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

from simcluster.document import Document
from simcluster.registry import data_files


@cache
def ignored_settings(kind: str) -> MappingProxyType[str, frozenset[str]]:
    """The lists of a format: ``effectless``, ``profile`` and those of its sections."""
    text = data_files(__name__)[kind].read_text(encoding="utf-8")
    return MappingProxyType({key: frozenset(names) for key, names in Document.parse(text, kind).data.items()})
