"""How the functions of the loop are compiled."""

from __future__ import annotations

import numpy as np

from simcluster.engine.compiled.arrays import KINDS, Arrays
from simcluster.engine.implementation import LOOP

LOOP.examples |= {
    "Arrays": Arrays(*(np.zeros(1, dtype=KINDS.get(name, np.dtype(np.int64))) for name in Arrays._fields)),
    "int": 0,
    "bool": True,
}

compiled, compiled_for_python = LOOP.function, LOOP.entry
