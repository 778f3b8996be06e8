"""Who made what is in a buffer: of every stream the last one, as what a stream did before is over then.

What is added up on several streams, such as the squares of gradients on hosts and on the device, is there
when all of them are done.
"""

from __future__ import annotations

from typing import TypeVar

S = TypeVar("S")


def record_producer(makers: dict[S, int], stream: S, at: int, *, adds: bool) -> None:
    """Notes one more of ``makers``, stream -> place; unless it ``adds`` to what is there, that is gone."""
    if not adds:
        makers.clear()
    makers[stream] = at
