"""Plain data as the YAML of catalog files: a line per figure."""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq


def yaml_text(data: dict[str, Any]) -> str:
    """The data, keys in their order; figures, which have a value and a source, on one line each."""
    yaml = YAML()
    yaml.width = 2**16
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(_block(data), text)
    return text.getvalue()


def _block(part: Any) -> Any:
    if isinstance(part, dict):
        return (
            _line(part) if "value" in part else CommentedMap((key, _block(one)) for key, one in part.items())
        )
    return CommentedSeq(_block(one) for one in part) if isinstance(part, list) else part


def _line(part: Any) -> Any:
    if isinstance(part, dict):
        mapping = CommentedMap((key, _line(one)) for key, one in part.items())
        mapping.fa.set_flow_style()
        return mapping
    if isinstance(part, list):
        sequence = CommentedSeq(_line(one) for one in part)
        sequence.fa.set_flow_style()
        return sequence
    return part
