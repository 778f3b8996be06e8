"""How the functions of the loop are compiled."""

from __future__ import annotations

import numpy as np

from simcluster.engine.compiled.arrays import RECORDS, Arrays
from simcluster.engine.implementation import LOOP

LOOP.examples |= {
    "Arrays": Arrays(*(np.zeros(1, dtype=kind) for kind in RECORDS)),
    "int": 0,
    "bool": True,
}

compiled, compiled_for_python = LOOP.function, LOOP.entry
