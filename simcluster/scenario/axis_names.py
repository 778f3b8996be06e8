"""Short names of axes: ``{pp: 4, dp: 8, tp: 8}`` is read as ``{pipeline: 4, data: 8, tensor: 8}``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from simcluster.document import DocumentNode, Key
from simcluster.errors import Problem, ScenarioError

SHORT = {"pp": "pipeline", "tp": "tensor", "dp": "data", "cp": "context", "ep": "expert"}
"""What axes are called for short, and the names that roles and recipes know."""

_KEYED = ("mesh", "overlap")
"""The keys of ``parallel`` whose own keys are axes."""

_LISTED = ("optimizer_sharding", "axes")
"""The key of ``parallel`` whose items are axes."""

_OWN = ("roles", "strategies", "shard", "program")
"""The keys of ``parallel`` in which users say what their own axes are for."""


def with_long_names(root: DocumentNode) -> DocumentNode:
    """A scenario in which axes have long names, unless a role or a strategy of it uses the short one.

    ScenarioError where an axis is written under both names; what ``--set`` gives replaces the other.
    """
    parallel = root.children.get("parallel")
    if parallel is None or not isinstance(parallel.data, dict):
        return root
    own = set(_words([parallel.data.get(key) for key in _OWN]))
    names = {short: long for short, long in SHORT.items() if short not in own}
    for key in _KEYED:
        if key in parallel.children:
            renamed = _renamed(parallel.children[key], names, f"parallel.{key}")
            root = root.with_value(("parallel", key), renamed)
    listed, depth = parallel.find(_LISTED)
    if depth == len(_LISTED):
        root = root.with_value(("parallel", *_LISTED), _spelled(listed, names))
    return root


def _spelled(node: DocumentNode, names: dict[str, str]) -> DocumentNode:
    """A text, or a list of texts, with long names."""
    if isinstance(node.data, str):
        return replace(node, data=names.get(node.data, node.data))
    return node.with_children({key: _spelled(child, names) for key, child in node.children.items()})


def _renamed(node: DocumentNode, names: dict[str, str], path: str) -> DocumentNode:
    """A mapping with long names as keys, in its order."""
    if not isinstance(node.data, dict):
        return node
    renamed: dict[Key, DocumentNode] = {}
    for key, child in node.children.items():
        name = names.get(key, key) if isinstance(key, str) else key
        other = renamed.get(name)
        if other is not None and not (child.is_set or other.is_set):
            written = key if key != name else next(short for short in names if names[short] == name)
            message = f"'{written}' is read as '{name}', which is written too"
            raise ScenarioError(Problem(message, f"{path}.{written}", "leave one of them out"))
        if other is None or child.is_set:
            renamed[name] = child
    return node.with_children(renamed) if list(renamed) != list(node.children) else node


def _words(value: Any) -> Iterator[str]:
    """Every word of the texts and keys in a value."""
    if isinstance(value, str):
        yield from re.findall(r"\w+", value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _words(key)
            yield from _words(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _words(inner)
