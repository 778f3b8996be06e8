"""Clipped steps: what waits for the norm, what it costs, and the values of one device."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.plan.optimizer.gradient_clipping import CLIP, SQUARES
from simcluster.program.lowering.phases import NORM, REDUCE, UPDATE
from simcluster.simulation import build_scenario, verify
from simcluster.values import Oracle, SeededData
from tests.support.planned import plan
from tests.support.scenarios import TINY_GPT, scenario

SGD = {"optimizer": {"kind": "sgd", "clip": 0.05}, "precision": "fp32"}
MESH = {"pipeline": 2, "data": 2, "tensor": 2}


def test_every_stage_waits_for_its_own_factor():
    built = build_scenario(scenario(MESH, training=SGD))
    for number, stage in enumerate(built.program.parts):
        phases = [(built.program.codes[each.code].phase, each.instance) for each in stage.executions]
        at = phases.index((NORM, f"{CLIP}.{number}"))
        assert all(phase in (NORM, REDUCE) or phase not in (NORM, UPDATE) for phase, _ in phases[:at])
        assert {phase for phase, _ in phases[at + 1 :]} == {UPDATE}
        held = [each for each in stage.residents if each.name == SQUARES]
        assert [each.num_bytes for each in held] == [4]


def test_two_more_passes_over_the_gradients():
    """The squares read them; scaling reads and writes them."""
    clipped = build_scenario(scenario({"data": 2}, training=SGD))
    plain = build_scenario(scenario({"data": 2}, training={**SGD, "optimizer": "sgd"}))

    def traffic(built):
        (stage,) = built.program.parts
        codes = [built.program.codes[each.code] for each in stage.executions]
        once = [code for code in codes if code.phase in (NORM, UPDATE)]
        return sum(work.bytes_moved for code in once for each in code.instructions for work in each.works)

    gradients = 4 * clipped.plan.logical.num_parameters
    parameters = sum(
        len(clipped.plan.graph.block_of(each).parameters) for each in clipped.plan.graph.instances
    )
    # Scalars: a sum read and written per gradient, a factor read per gradient, and the factor's own two.
    assert traffic(clipped) - traffic(plain) == 3 * gradients + 3 * 4 * parameters + 2 * 4


def test_one_device_clips_to_the_norm():
    found = plan({"data": 1}, training=SGD)
    for limit, norm in ((0.05, 0.05), (1e9, None)):
        source = SeededData(0, np.dtype("float64"))
        (values,) = Oracle(found.logical, found.update, source, found.num_micro_batches, limit).run(1)
        total = np.sqrt(sum((each**2).sum() for each in values.gradients.values()))
        assert total == pytest.approx(norm, rel=1e-4) if norm else total > 0.1


@pytest.mark.combinations
@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize("mesh", [{"data": 4}, {"tensor": 2}, {"pipeline": 3, "tensor": 2}, MESH])
def test_ranks_clip_as_one_device_does(mesh, zero):
    which = scenario(mesh, model=TINY_GPT, training=SGD, optimizer_sharding={"zero": zero})
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference
