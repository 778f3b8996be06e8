"""How the functions of the loop are compiled."""

from __future__ import annotations

import numpy as np

from simcluster.engine.compiled.arrays import RECORDS, Arrays
from simcluster.engine.compiled.lanes import LANES_RECORDS, Lanes
from simcluster.engine.implementation import LOOP

LOOP.examples |= {
    "Arrays": Arrays(*(np.zeros(1, dtype=kind) for kind in RECORDS)),
    "Lanes": Lanes(*(np.zeros(1, dtype=kind) for kind in LANES_RECORDS)),
    "int": 0,
    "bool": True,
}

compiled, compiled_for_python = LOOP.function, LOOP.entry
