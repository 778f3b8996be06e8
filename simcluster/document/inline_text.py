"""A YAML value that is written on a command line or in Python, not in a file."""

from __future__ import annotations

from typing import Any

from simcluster.document.composer import compose
from simcluster.document.mark import SourceText


def inline_data(name: str, text: str) -> Any:
    """The plain data of a text such as ``4`` or ``{data: 8}``; None of an empty one.

    Raises ScenarioError, at ``name``, for what is not YAML.
    """
    node = compose(SourceText(name, text, inline=True))
    return None if node is None else node.data
