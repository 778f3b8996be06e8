"""A host that launches kernels one after another and runs ahead of the device.

Launching is asynchronous: while a long kernel works, the host launches what follows it. So kernels wait for
the host only where it takes longer, over a stretch of them, than they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Nanoseconds: TypeAlias = int | NDArray[np.int64]
"""Of one device, or an array over devices; both give the same."""


def launch_stalls(kernels: Sequence[Nanoseconds], launches: Sequence[int]) -> list[Nanoseconds]:
    """Nanoseconds for which each kernel waits until the host has launched it.

    ``kernels`` says how long they take, ``launches`` how long the host takes for each, in program order.
    They are a stretch that is repeated many times, as a layer is: this is what happens in the long run.
    Kernels that take as long as the host or longer wait for nothing; others wait until all together take as
    long as it.
    """
    slow = sum(kernels) < sum(launches)
    if not np.any(slow):
        return [0] * len(kernels)
    waits: list[Nanoseconds] = []
    lead: Nanoseconds = 0
    # The first time finds how far the host is ahead when the stretch begins again.
    for _ in range(2):
        waits.clear()
        for kernel, launch in zip(kernels, launches, strict=True):
            ahead = lead - launch
            waits.append(-_smaller(ahead, 0) * slow)
            lead = kernel - _smaller(-ahead, 0)
    return waits


def _smaller(a: Nanoseconds, b: int) -> Nanoseconds:
    return np.minimum(a, b) if isinstance(a, np.ndarray) else min(a, b)
