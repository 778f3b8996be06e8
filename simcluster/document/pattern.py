"""Patterns over operator names: ``layers.*.mlp.{up,down}``, as recipes and scenarios write them."""

from __future__ import annotations

import re
from functools import cache, lru_cache


@lru_cache(maxsize=2**15)  # whether an instance is a layer is asked for again and again
def matches(pattern: str, name: str) -> bool:
    """Whether the whole name fits the pattern: ``*`` any run of characters, ``?`` one, ``{a,b*}`` either."""
    return _compiled(pattern).fullmatch(name) is not None


_NUMBER = re.compile(r"(?<=\.)\d+(?=[.:]|$)")


def generalised_name(name: str) -> str:
    """``layers.3.mlp.up`` as ``layers.*.mlp.up``: one name for the same operator of every layer."""
    return _NUMBER.sub("*", name)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_expression(pattern))


def _expression(pattern: str) -> str:
    parts = []
    for token in re.findall(r"\*|\?|\{[^{}]*\}|[^*?{}]+|[{}]", pattern):
        if token == "*":
            parts.append(".*")
        elif token == "?":
            parts.append(".")
        elif len(token) > 1 and token[0] == "{":
            choices = "|".join(_expression(choice.strip()) for choice in token[1:-1].split(","))
            parts.append(f"(?:{choices})")
        else:
            parts.append(re.escape(token))
    return "".join(parts)
