"""fp8 steps have the values of one device."""

from __future__ import annotations

from simcluster.simulation import verify
from tests.support.fp8_plans import FP8
from tests.support.scenarios import scenario


def test_transposed_copies_hold_the_same_values():
    for communication in ("compute", "fp8"):
        precision = {**FP8, "fp8": {"communication": communication}}
        mesh = {"pipeline": 2, "tensor": 2}
        which = scenario(mesh, host="dgx-h100", recipe="megatron_sp", training={"precision": precision})
        vars(which)["framework"] = which.framework.model_copy(update={"fp8_transposes": True})
        found = verify(which)
        assert found.agrees, found.fault or found.first_difference
