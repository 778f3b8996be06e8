"""What pushes, pulls and updates do with buffers of servers, which are called by their names."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Update


@dataclass(frozen=True, slots=True)
class ServerCall:
    """What a push or a pull carries between a slot of a worker and a ``buffer`` of a server: the ``rows`` of
    the slot's tensor from the ``first`` one on, or, with ``whole``, all of it. ``weights`` is the buffer of
    the weights that it is about.

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
    """An update of buffers of a server, as a whole at its end."""

    rule: Update
    """How they are updated."""
    inputs: tuple[str, ...]
    """The buffers that the rule reads."""
    outputs: tuple[str, ...]
    """Those that it writes."""
    weights: str
    """The one that workers pull."""
    parameter: str
    """The full name of the parameter."""
    first: int
    """The first row of a table that is here."""
    of: int
    """Rows of the whole."""
    ids: str = ""
    """The buffer of ids, where the gradient is rows of these: only they change."""
