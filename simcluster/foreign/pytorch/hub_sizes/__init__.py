"""Dimensions of models of the hub: a list in a YAML file, loaded here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from simcluster.document import Document
from simcluster.registry import data_files


@cache
def hub_sizes() -> Mapping[str, Mapping[str, Any]]:
    """Keys of the model section by the name of a repository, in lower case."""
    (file,) = data_files(__name__).values()
    return MappingProxyType(Document.parse(file.read_text(encoding="utf-8"), "hub_sizes").data)
