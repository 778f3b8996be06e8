"""How the functions of the loop are compiled."""

from __future__ import annotations

import numpy as np

from simcluster.engine.compiled.arrays import RECORDS, Arrays
from simcluster.engine.compiled.lanes import LANES_RECORDS, Lanes
from simcluster.engine.implementation import LOOP_CODE
from simcluster.machine_code import Compiler, pass_by_reference

pass_by_reference(Arrays)
pass_by_reference(Lanes)

LOOP = Compiler(
    LOOP_CODE,
    {
        "Arrays": Arrays(*(np.zeros(1, dtype=kind) for kind in RECORDS)),
        "Lanes": Lanes(*(np.zeros(1, dtype=kind) for kind in LANES_RECORDS)),
        "int": 0,
        "bool": True,
    },
    "compiling the engine: some 15 s",
)

compiled, compiled_for_python, mark_ready = LOOP.compiled, LOOP.compiled_for_python, LOOP_CODE.mark_ready
