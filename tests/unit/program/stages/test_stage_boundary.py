"""What crosses virtual stages, over which streams, and when a stage runs, receives and sends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.errors import PlanError
from simcluster.layout import Mesh
from simcluster.model import Graph
from simcluster.plan.pipeline.schedule import parse
from simcluster.plan.pipeline.virtual_stages import VirtualStages
from simcluster.program.lowering.block_lowering import Lowering
from simcluster.program.lowering.code_table import CodeTable
from simcluster.program.stages.schedule_expansion import ScheduleExpansion
from simcluster.program.stages.stage_boundary import BoundaryTensors
from simcluster.program.stages.stage_context import StageContext
from simcluster.program.stages.value_names import shared_parameter_holders
from tests.support.pipelines import burning_graph


def boundary(chain):
    count = len(chain)
    return BoundaryTensors(burning_graph([1] * count, [1] * count, chain), chain)


def crossings(found):
    return [(tensor.buffer, tensor.out, tensor.back) for tensor in found]


def test_a_value_goes_to_the_next_stage_and_its_gradient_back():
    tensors = boundary(VirtualStages.round_robin(2))
    assert crossings(tensors.departures(0)) == [("stage0:out", "send_next", "recv_next")]
    assert crossings(tensors.arrivals(1)) == [("stage0:out", "recv_prev", "send_prev")]
    assert crossings(tensors.arrivals(0)) == crossings(tensors.departures(1)) == []


def test_what_comes_to_a_later_chunk_comes_around_the_ring():
    tensors = boundary(VirtualStages.round_robin(3, 2))
    assert tensors.reach == {f"stage{number}:out": (number, number + 1) for number in range(5)}
    assert crossings(tensors.arrivals(3)) == [("stage2:out (chunk 1)", "recv_prev", "send_prev")]


def test_the_turn_of_a_v_stays_on_its_stage_and_its_way_back_has_streams_of_its_own():
    tensors = boundary(VirtualStages.v_shape(2))
    assert crossings(tensors.arrivals(2)) == []
    assert crossings(tensors.departures(2)) == [
        ("stage2:out", "send_prev (activations)", "recv_prev (gradients)")
    ]


def test_values_pass_to_later_stages_only():
    graph = burning_graph([1, 1], [1, 1])
    first, second = graph.instances
    backwards = Graph(graph.blocks, (replace(first, stage=1), replace(second, stage=0)))
    with pytest.raises(PlanError, match="values pass to later stages only"):
        BoundaryTensors(backwards, VirtualStages.round_robin(2)).reach  # noqa: B018 - worked out when asked


def ran(stage, text, *, overlapped, reductions=()):
    """The streams and micro-batches of what a stage of two runs for a timetable."""
    graph = burning_graph([1, 1], [1, 1])
    codes = CodeTable(Lowering(Mesh.of({"pipeline": 2})))
    tensors = BoundaryTensors(graph, VirtualStages.round_robin(2))
    context = StageContext(graph, tensors, stage, parse(text)[0], codes)
    executions = ScheduleExpansion(context, overlapped, reductions).executions().objects
    return [f"{codes.codes[run.code].name} {run.micro_batch}" for run in executions]


def test_receives_are_posted_one_action_ahead_or_just_before():
    forward, backward = "stage1.forward", "stage1.backward"
    assert ran(1, "F0 F1 B0 B1", overlapped=True) == [
        *("recv_prev 0", "recv_prev 1", f"{forward} 0", f"{forward} 1"),
        *(f"{backward} 0", "send_prev 0", f"{backward} 1", "send_prev 1"),
    ]
    assert ran(1, "F0 B0", overlapped=False) == [
        "recv_prev 0",
        f"{forward} 0",
        f"{backward} 0",
        "send_prev 0",
    ]


def test_a_stage_before_sends_what_it_makes_and_receives_gradients():
    assert ran(0, "F0 B0", overlapped=False) == [
        *("stage0.forward 0", "send_next 0", "recv_next 0", "stage0.backward 0")
    ]


def test_copies_of_a_tied_parameter_are_held_by_the_first():
    graph = burning_graph([1, 1, 1], [1, 1, 1])
    blocks = {name: replace(block, parameters=("w",)) for name, block in graph.blocks.items()}
    tied = Graph(blocks, graph.instances, ties=(("stage0.w", "stage2.w"), ("stage2.w", "stage1.w")))
    assert shared_parameter_holders(tied, tied.instances) == {"stage2": "stage0", "stage1": "stage0"}
    assert shared_parameter_holders(tied, tied.instances[1:]) == {"stage1": "stage2"}
