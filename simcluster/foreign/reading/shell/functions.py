"""Shell functions: their bodies, which run where they are called."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.foreign.reading.shell.syntax import Keyword, Statement

Items = Sequence[Statement | Keyword]


def split_functions(items: Items) -> tuple[list[Statement | Keyword], dict[str, list[Statement | Keyword]]]:
    """(everything but functions that are called, those by name).

    A function that no command of the script names stays where it is, as if it were called there: another
    script, or a trap, may do so.
    """
    rest: list[Statement | Keyword] = []
    bodies: dict[str, list[Statement | Keyword]] = {}
    named = _commands(items)
    at = 0
    while at < len(items):
        name, first = _definition(items, at)
        last = _closing(items, first) if name in named else None
        if last is None:
            rest.append(items[at])
            at += 1
        else:
            inner, nested = split_functions(items[first:last])
            bodies |= {name: inner, **nested}
            at = last + 1
    return rest, bodies


def _definition(items: Items, at: int) -> tuple[str, int]:
    """The name of the function that begins here, and where its body does; an empty name if none does."""
    item = items[at]
    words = [word.literal for word in item.words] if isinstance(item, Statement) else []
    kinds = [other.name if isinstance(other, Keyword) else "" for other in items[at + 1 : at + 4]]
    if words[:1] == ["function"]:
        words = words[1:]
        if len(words) == 2 and words[1] == "{":
            return words[0], at + 1
        if len(words) == 1 and kinds[:1] == ["{"]:
            return words[0], at + 2
    if len(words) == 1 and kinds == ["(", ")", "{"]:
        return words[0], at + 4
    return "", at


def _closing(items: Items, first: int) -> int | None:
    """Where the brace closes that is open at ``first``."""
    depth = 1
    for at in range(first, len(items)):
        item = items[at]
        if isinstance(item, Keyword):
            depth += (item.name == "{") - (item.name == "}")
        elif item.words and item.words[0].literal == "function" and item.words[-1].literal == "{":
            depth += 1
        if not depth:
            return at
    return None


def _commands(items: Items) -> set[str]:
    """The first words of all commands that define no function themselves."""
    return {
        item.words[0].literal
        for at, item in enumerate(items)
        if isinstance(item, Statement) and item.words and not _definition(items, at)[0]
    }
