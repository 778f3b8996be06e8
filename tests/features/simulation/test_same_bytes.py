"""The same scenario gives the same passes and Program, whatever Python makes of the order of sets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
from simcluster.simulation import build_scenario
from tests.support.compositions import SHARDINGS, OFFLOAD
from tests.support.scenarios import scenario
for sharding, offload in (("zero 2", "states on disk, gradients"), ("fsdp", "everything")):
    options = {"optimizer_sharding": SHARDINGS[sharding], "offload": OFFLOAD[offload]}
    built = build_scenario(scenario({"pipeline": 2, "data": 2}, host="dgx-h100", **options))
    print(dict(built.plan.passes.digests()))
    for code in built.program.codes:
        print(code.name, [(each.name, each.reads, each.writes, each.last_uses) for each in code.instructions])
"""


@pytest.mark.thorough
def test_programs_do_not_depend_on_the_order_of_sets():
    """Gradients that leave for a host had done so in the order of a set.

    The quick run has the goldens: digests of Programs, some with gradients on hosts, under any seed.
    """
    told = [
        subprocess.run(
            [sys.executable, "-c", CODE],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0]
    assert len(set(told)) == 1
