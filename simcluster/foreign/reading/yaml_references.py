"""References in YAML files, such as ``${model.hidden_size}`` or ``${multiply:4, ${.hidden_size}}``.

The grammar is OmegaConf's; the resolvers, which are plain arithmetic, are those that NeMo, its launcher and
NeMo-RL register. Nothing is evaluated but these; environment variables and files are never read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simcluster.foreign.reading.flag import one_line

_NAME = re.compile(r"\$\{\s*([A-Za-z_][\w.]*):")
_KEY = re.compile(r"\$\{(\.*)([A-Za-z_][\w.\-]*)\}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,2})?")
_STEPS = 400
"""References that are followed for one value: more go in circles, or name each other over and over."""
_LARGEST = 10**18

MOUNTED = ("training", "fine_tuning", "peft", "prompt_learning", "adapter_learning", "evaluation")
"""Sections under which NeMo's launcher mounts a file: its references begin with them, the file does not."""

Path = tuple[Any, ...]
Number = int | float


class _Open(Exception):
    """A reference that leads to no value; its text tells why."""


def _divided(numbers: Sequence[Number], rounded: Callable[[float], int]) -> Number:
    first, second = numbers
    if not second:
        raise _Open("it divides by zero")
    if isinstance(first, int) and isinstance(second, int):
        return first // second if rounded is math.floor else -(-first // second)
    return rounded(first / second)


def _quotient(numbers: Sequence[Number]) -> Number:
    first, second = numbers
    if not second:
        raise _Open("it divides by zero")
    return first / second


RESOLVERS: Mapping[str, tuple[int | None, Callable[[Sequence[Number]], Number]]] = {
    "multiply": (None, math.prod),
    "mul": (None, math.prod),
    "int_multiply": (None, lambda numbers: int(math.prod(numbers))),
    "sum": (None, sum),
    "add": (None, sum),
    "subtract": (2, lambda numbers: numbers[0] - numbers[1]),
    "sub": (2, lambda numbers: numbers[0] - numbers[1]),
    "divide_ceil": (2, lambda numbers: _divided(numbers, math.ceil)),
    "divide_floor": (2, lambda numbers: _divided(numbers, math.floor)),
    "int_div": (2, lambda numbers: _divided(numbers, math.floor)),
    "divide": (2, _quotient),
    "div": (2, _quotient),
    "max": (None, max),
    "min": (None, min),
}
"""By name: how many numbers each takes (None: any, one at least), and what it makes of them."""


def follow_references(data: Any, path: Path, value: Any) -> tuple[Any, str]:
    """(value, ""): what a value with references comes to; (None, why) where it cannot be worked out."""
    if value == "???":
        return None, "the file leaves this open"
    if not isinstance(value, str) or "${" not in value:
        return value, ""
    try:
        return _Follower(data).value(path, value), ""
    except _Open as error:
        return None, str(error)
    except RecursionError:
        return None, "these references go in circles"


class _Follower:
    """Follows the references of one value; ``steps`` are those that are left to it."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.steps = _STEPS

    def value(self, path: Path, text: Any) -> Any:
        """What a value of the file at ``path`` comes to."""
        if text == "???":
            raise _Open(f"the file leaves '{'.'.join(map(str, path))}' open")
        if not isinstance(text, str) or "${" not in text:
            return text
        self.steps -= 1
        if self.steps < 0:
            raise _Open("these references go in circles")
        start = text.index("${")
        end = _closed(text, start)
        if start == 0 and end == len(text):
            return self._reference(path, text)
        inner = self._reference(path, text[start:end])
        if isinstance(inner, (Mapping, list)):
            raise _Open(f"{one_line(text[start:end])} is not a single value")
        rest = self.value(path, text[end:]) if "${" in text[end:] else text[end:]
        return f"{text[:start]}{_written(inner)}{_written(rest)}"

    def _reference(self, path: Path, text: str) -> Any:
        key = _KEY.fullmatch(text)
        if key is not None:
            return self._of_key(path, len(key[1]), key[2])
        called = _NAME.match(text)
        name = called[1] if called else ""
        arguments = _split(text[called.end() : -1]) if called else []
        if name == "oc.select" and 1 <= len(arguments) <= 2:
            return self._selected(path, arguments)
        if name == "oc.env" and len(arguments) == 2:
            # As where the variable is not set: the default, and of texts without quotes what YAML reads.
            return self._plain(path, arguments[1])
        if name == "oc.decode" and len(arguments) == 1:
            return self._plain(path, arguments[0])
        if name not in RESOLVERS:
            raise _Open(f"the file leaves open what {one_line(text)} is")
        count, function = RESOLVERS[name]
        numbers = [self._number(path, argument) for argument in arguments]
        if not numbers or (count is not None and len(numbers) != count):
            raise _Open(f"{one_line(text)}: {name} takes {count or 'one or more'} numbers")
        try:
            result = function(numbers)
        except OverflowError:
            result = math.inf
        if not math.isfinite(result) or abs(result) > _LARGEST:
            raise _Open(f"{one_line(text)} is too large for a size")
        return result

    def _plain(self, path: Path, text: str) -> Any:
        """A text, or the number, the switch or null that it writes."""
        value = self.value(path, text.strip().strip("'\""))
        if not isinstance(value, str):
            return value
        if _NUMBER.fullmatch(value):
            return float(value) if re.search(r"[.eE]", value) else int(value)
        return {"null": None, "true": True, "false": False}.get(value.lower(), value)

    def _number(self, path: Path, text: str) -> Number:
        value = self.value(path, text.strip())
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = float(value) if re.search(r"[.eE]", value) else int(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            shown = "null" if value is None else str(value)
            raise _Open(f"{one_line(text.strip())} is not a number: {one_line(shown)}")
        if not math.isfinite(value) or abs(value) > _LARGEST:
            raise _Open(f"{one_line(text.strip())} is too large for a size")
        return value

    def _of_key(self, path: Path, dots: int, key: str) -> Any:
        keys = tuple(key.split("."))
        target = (*path[: len(path) - dots], *keys) if dots else keys
        value = _at(self.data, target)
        if value is None and not dots and keys[0] in MOUNTED and keys[0] not in self.data:
            target, value = keys[1:], _at(self.data, keys[1:])
        if value is None:
            raise _Open(f"the file has no '{'.'.join(map(str, (keys if not dots else target)))}'")
        return self.value(target, value[0])

    def _selected(self, path: Path, arguments: Sequence[str]) -> Any:
        """``oc.select``: the value of a key, or another where there is none."""
        keys = tuple(arguments[0].strip().split("."))
        value = _at(self.data, keys)
        if value is not None:
            return self.value(keys, value[0])
        return self.value(path, arguments[1].strip()) if len(arguments) == 2 else None


def _at(data: Any, path: Path) -> tuple[Any] | None:
    """The value at a path in a tuple; None if there is none."""
    for key in path:
        if not isinstance(data, Mapping) or key not in data:
            return None
        data = data[key]
    return (data,)


def _closed(text: str, start: int) -> int:
    """The place behind the bracket that closes the reference beginning at ``start``."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text.startswith("${", place)) - (text[place] == "}" and depth > 0)
        if depth == 0:
            return place + 1
    raise _Open(f"{one_line(text)}: a bracket is open")


def _split(text: str) -> list[str]:
    """Arguments between commas that are in no brackets."""
    depth, arguments = 0, [""]
    for place, letter in enumerate(text):
        depth += text.startswith("${", place) - (letter == "}")
        if letter == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += letter
    return arguments


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
