"""Long work during which the garbage collector keeps still and freed memory is kept."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_LARGEST_KEPT = 2**25 - 2**16
"""Once so many bytes were freed, glibc keeps blocks up to this size: its threshold follows what is freed, up
to 32 MiB on 64 bits (M_MMAP_THRESHOLD in mallopt(3)). The pages of these bytes are never touched.
"""


@contextmanager
def no_collection() -> Iterator[None]:
    """Keeps the cyclic garbage collector still: events and instructions are many and hold no cycles worth
    looking for.

    Arrays that are freed are used again rather than given back to the system, which clears every page anew.
    """
    bytes(_LARGEST_KEPT)
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
