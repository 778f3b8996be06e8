"""What pushes, pulls and updates do with buffers of servers, which are called by their names."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.model import Update


@dataclass(frozen=True, slots=True)
class ServerCall:
    """What a push or a pull carries between a slot of a worker and a ``buffer`` of a server: the ``rows`` of the
    slot's tensor from the ``first`` one on, or, with ``whole``, all of it. ``weights`` is the buffer of the
    weights that it is about.

    With ``ids``, another buffer, it goes by rows: those that the worker looked up.
    """

    buffer: str
    weights: str
    first: int
    rows: int
    whole: bool
    ids: str = ""


@dataclass(frozen=True, slots=True)
class ServerUpdateCall:
    """An update of buffers of a server, as a whole at its end: inputs and outputs are those of the ``rule``.

    With ``ids`` the gradient is rows, and only these rows change.
    """

    rule: Update
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: str
    parameter: str
    first: int
    of: int
    ids: str = ""
