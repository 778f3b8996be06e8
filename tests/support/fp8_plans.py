"""Plans in fp8, and their casts."""

from __future__ import annotations

from simcluster.document import validate_data
from simcluster.model.operators.fp8 import Fp8Cast
from simcluster.plan import make_plan
from simcluster.plan.spec.framework import FrameworkSpec
from tests.support.scenarios import scenario

FP8 = {"compute": "bf16", "matmul": "fp8"}


def plan(mesh=None, *, framework=None, precision="fp8", host="dgx-h100", **more):
    found = scenario(mesh or {"data": 2}, host=host, training={"precision": precision}, **more)
    profile = validate_data({"use": "ideal", **(framework or {})}, FrameworkSpec)
    return make_plan(found.model, found.spec.training, found.spec.parallel, profile, found.cluster)


def casts(block):
    return [node for node in block.nodes if isinstance(node.operator, Fp8Cast)]
