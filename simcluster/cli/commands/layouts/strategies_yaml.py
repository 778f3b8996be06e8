"""Strategies as the YAML that users write."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from ruamel.yaml import YAML

INDENT = 4
"""Where a list stands below ``parallel:`` and ``strategies:``."""


def strategies_text(strategies: Sequence[Any]) -> str:
    """One entry per line, indented so that the text fits below ``strategies:`` as it is."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = True
    yaml.width = 4096
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    lines = []
    for strategy in strategies:
        stream = io.StringIO()
        yaml.dump(dict(strategy), stream)
        lines.append(f"{' ' * INDENT}- {stream.getvalue().strip()}")
    return "\n".join(lines)
