"""Where kernels run beside communication: until then a run without slowed kernels is what it is with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def first_beside(kernel_starts: Ints, kernel_ends: Ints, move_starts: Ints, move_ends: Ints) -> int | None:
    """The first instant (ns) at which a kernel runs while communication of its class is under way.

    Arrays [entries, classes]; the kernels of a class are in order and do not overlap, its communication comes
    in any order. What takes no time counts on neither side. None: no kernel ever runs beside communication.
    """
    columns = kernel_starts.shape[1]
    horizon = 1 + max(int(each.max(initial=0)) for each in (kernel_ends, move_ends))
    begun, over, shift = _flat(kernel_starts, kernel_ends, horizon)
    starts, ends, moved = _flat(move_starts, move_ends, horizon)
    if not len(begun) or not len(starts) or not columns:
        return None
    # The first kernel of each that ends after the communication has begun; one past the last never begins.
    following = np.searchsorted(over + shift, starts + moved, side="right")
    never = np.iinfo(np.int64).max
    begins = np.append(begun + shift, never)[following]
    met = begins < ends + moved
    if not met.any():
        return None
    return int(np.maximum(starts[met], begins[met] - moved[met]).min())


def _flat(starts: Ints, ends: Ints, horizon: int) -> tuple[Ints, Ints, Ints]:
    """What takes time, class after class: starts, ends, and what sets the classes apart."""
    shift = np.broadcast_to(np.arange(starts.shape[1]) * horizon, starts.shape).T.ravel()
    begun, over = starts.T.ravel(), ends.T.ravel()
    lasting = over > begun
    return begun[lasting], over[lasting], shift[lasting]
