"""JSON files that users name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simcluster.document.composer import MAX_DEPTH
from simcluster.document.file import content_of
from simcluster.document.section import Refused


def json_object(path: Path) -> dict[str, Any]:
    """What a JSON file holds; Refused if it cannot be read, holds no object, or nests values too deeply."""
    content = content_of(path)
    try:
        data = json.loads(content.decode("utf-8"))
    except ValueError as error:
        raise Refused(f"is not JSON: {error}") from error
    except RecursionError:
        raise Refused(_TOO_DEEP) from None
    if not isinstance(data, dict):
        raise Refused("is not JSON object")
    if _depth(data) > MAX_DEPTH:
        raise Refused(_TOO_DEEP)
    return data


_TOO_DEEP = f"its values are nested more than {MAX_DEPTH} levels deep"


def _depth(value: Any) -> int:
    """How many levels of lists and objects a value has; counted level by level, without recursion."""
    depth, level = 0, _inside([value])
    while level:
        depth += 1
        level = _inside([part for outer in level for part in _parts(outer)])
    return depth


def _inside(values: list[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, (list, dict))]


def _parts(value: list[Any] | dict[str, Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value
