"""Plain data as YAML text and back."""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML


def yaml_of(data: Any) -> str:
    """Data as a YAML file has it, its innermost lists and mappings on one line."""
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = None
    writer.width = 110
    writer.sort_base_mapping_type_on_output = False
    stream = io.StringIO()
    writer.dump(data, stream)
    return stream.getvalue()


def data_of(text: str) -> Any:
    """What a YAML file holds."""
    return YAML(typ="safe", pure=True).load(text)
