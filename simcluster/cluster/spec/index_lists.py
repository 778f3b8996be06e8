"""Indices as people write them: ``5``, ``[1, 3, 5]``, or as text ``32-63`` and ``0-3, 8``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from simcluster.document import NonNegativeInt

MOST = 2**20
"""Indices in one list."""


def parse_index_list(written: int | str | Sequence[int]) -> tuple[int, ...]:
    """The indices in the order in which they are written; ValueError says what is wrong with them."""
    if isinstance(written, int):
        return (written,)
    indices: list[int] = []
    for item in written.split(",") if isinstance(written, str) else written:
        indices += _range(item.strip()) if isinstance(item, str) else (item,)
        if len(indices) > MOST:
            raise ValueError(f"more than {MOST:,} indices")
    seen: set[int] = set()
    for index in indices:
        if index in seen:
            raise ValueError(f"{index} is listed twice")
        seen.add(index)
    return tuple(indices)


def format_index_list(indices: Sequence[int]) -> str:
    """Indices as text that ``parse_index_list`` reads: ``0-31, 40``."""
    edges = [at for at in range(1, len(indices)) if indices[at] != indices[at - 1] + 1]
    runs = [(indices[a], indices[b - 1]) for a, b in zip([0, *edges], [*edges, len(indices)], strict=True)]
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _range(text: str) -> range:
    first, dash, last = (part.strip() for part in text.partition("-"))
    if not first.isdecimal() or not (last or first).isdecimal() or bool(dash) != bool(last):
        raise ValueError(f"'{text}' is not an index; write for example 32-63, or [1, 3, 5]")
    low, high = int(first), int(last or first)
    if high < low:
        raise ValueError(f"'{text}' counts down; write {high}-{low}")
    if high - low >= MOST:
        raise ValueError(f"'{text}' are more than {MOST:,} indices")
    return range(low, high + 1)


def _right(written: str | tuple[int, ...]) -> str | tuple[int, ...]:
    parse_index_list(written)
    return written


IndexList: TypeAlias = (
    NonNegativeInt
    | Annotated[str, AfterValidator(_right)]
    | Annotated[tuple[NonNegativeInt, ...], Field(min_length=1), AfterValidator(_right)]
)
"""Different indices, from 0: one, a list, or a range such as ``32-63``; ``parse_index_list`` reads them."""
