"""Lists of zeros and ones for the layers of a network, as Megatron-Core's arguments write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from simcluster.foreign.reading import Flag


def read_layer_pattern(flag: Flag) -> int | list[int] | None:
    """A number of layers, or a zero or one for each; None if the setting holds neither."""
    value = flag.value[0] if isinstance(flag.value, list) and len(flag.value) == 1 else flag.value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value) if all(mark in (0, 1) for mark in value) else None
    return _pattern(str(value))


def _pattern(text: str) -> int | list[int] | None:
    """``2``, or sums of ``[0]*3`` and ``[0,1]`` in brackets or not; None if it is neither."""
    text = re.sub(r"\s", "", text).removeprefix("(").removesuffix(")")
    if text.isdecimal():
        return int(text)
    marks: list[int] = []
    for part in text.split("+"):
        match = re.fullmatch(r"\(?\[([01](?:,[01])*)\](?:\*(\d{1,4}))?\)?", part)
        if match is None:
            return None
        marks += [int(mark) for mark in match[1].split(",")] * int(match[2] or 1)
    return marks
