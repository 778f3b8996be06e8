from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.errors import SimulationError
from simcluster.plan.schedules.gpipe import GPipe
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.program import check_program, partition_ranks
from simcluster.simulation.compose.build import build_scenario
from tests.support.pipelines import burning_program, quiet_cluster
from tests.support.scenarios import scenario


def checked(program):
    check_program(program, partition_ranks(program, quiet_cluster(program.mesh.num_ranks)))


def test_a_good_program_passes():
    checked(burning_program([1, 1, 1], [1, 1, 1], OneFOneB().timetable(3, 4)))


def test_stages_that_disagree_about_transfers():
    program = burning_program([1, 1], [1, 1], OneFOneB().timetable(2, 3))
    other = burning_program([1, 1], [1, 1], GPipe().timetable(2, 2))
    mixed = replace(program, parts=(program.parts[0], other.parts[1]))
    with pytest.raises(
        SimulationError, match=r"stage 0 sends micro-batches \[0, 1, 2\] to stage 1, which receives \[0, 1\]"
    ):
        checked(mixed)


def test_reading_before_writing():
    built = build_scenario(scenario({"tensor": 2}))
    program = built.program
    code = next(i for i, each in enumerate(program.codes) if each.name == "layer.forward")
    each = program.codes[code]
    turned = replace(each, instructions=each.instructions[::-1])
    broken = replace(program, codes=(*program.codes[:code], turned, *program.codes[code + 1 :]))
    with pytest.raises(SimulationError, match="before it is written"):
        check_program(broken, built.classes)


def test_members_that_issue_collectives_in_different_orders():
    """Tensor groups across two stages' ranks do not exist; a tied group does."""
    model = {"family": "gpt", "layers": 2, "hidden": 32, "heads": 4, "vocab": 100, "max_positions": 16}
    built = build_scenario(scenario({"pipeline": 2}, model=model, optimizer_sharding={"zero": 1}))
    program = built.program
    code = next(
        i
        for i, each in enumerate(program.codes)
        if any("[0,1]" in axis for n in each.instructions for axis in n.group)
    )
    each = program.codes[code]
    bigger = tuple(replace(n, num_bytes=n.num_bytes + 1) if n.group else n for n in each.instructions)
    broken = replace(
        program, codes=(*program.codes[:code], replace(each, instructions=bigger), *program.codes[code + 1 :])
    )
    with pytest.raises(SimulationError, match="issue different collectives"):
        check_program(broken, built.classes)
