"""Collectives in chunks with their matmuls: which are cut, what stays the same, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.cluster import ClusterSpec
from simcluster.document import validate_data
from simcluster.errors import PlanError, SimclusterError
from simcluster.layout import Movement, MovementKind
from simcluster.model import Phase, Region
from simcluster.model.operators.chunks import JoinChunks, SplitChunks
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.plan import make_plan
from simcluster.plan.overlap.collective_matmul import chunk_collectives, count_chunked_collectives
from simcluster.plan.spec import FrameworkSpec, ParallelSpec, TrainingSpec
from simcluster.plan.spec.overlap_spec import OverlapSpec
from tests.contracts.operator_cases import cases
from tests.support import pass_graphs
from tests.support.planned import LLAMA, plan

SP = {"recipe": "megatron_sp"}


def collectives(found, block="layer", phase=Phase.FORWARD):
    """(kind, the collective that it is a chunk of) of a layer's collectives in order."""
    return [
        (node.operator.kind, node.chunked)
        for node in found.graph.blocks[block].phase(phase)
        if isinstance(node.operator, Movement) and node.operator.is_collective
    ]


def test_gathers_go_in_chunks_with_who_reads_them_and_scatters_with_who_makes_them():
    whole = plan({"tensor": 2}, **SP)
    cut = plan({"tensor": 2}, overlap={"tensor": 4}, **SP)
    before, after = collectives(whole), collectives(cut)
    assert [kind for kind, _ in before] == [MovementKind.ALL_GATHER, MovementKind.REDUCE_SCATTER] * 2
    assert [kind for kind, _ in after] == [kind for kind, _ in before for _ in range(4)]
    assert all(name for _, name in after)
    layer = cut.graph.blocks["layer"]
    kernels = [node.name for node in layer.phase(Phase.FORWARD) if node.name.startswith("mlp.up")]
    assert [name for name in kernels if "chunk" in name] == [f"mlp.up.chunk{index}" for index in range(4)]


def test_what_the_backward_gathers_for_weights_alone_stays_whole():
    """The weight gradient adds over the rows: it is no matmul of chunks. It is gathered beside the other."""
    found = plan({"tensor": 2}, overlap={"tensor": 4}, **SP)
    back = collectives(found, phase=Phase.BACKWARD)
    whole = [kind for kind, name in back if not name]
    assert whole.count(MovementKind.ALL_GATHER) == 2 and whole.count(MovementKind.REDUCE_SCATTER) == 2
    both = plan({"tensor": 2}, overlap={"tensor": {"chunks": 4, "reductions": "both"}}, **SP)
    left = [kind for kind, name in collectives(both, phase=Phase.BACKWARD) if not name]
    assert left == [MovementKind.ALL_GATHER] * 2


@pytest.mark.parametrize("gathers", ["none", "forward", "backward", "both"])
@pytest.mark.parametrize("reductions", ["none", "forward", "backward", "both"])
def test_only_those_that_are_asked_for(gathers, reductions):
    found = plan(
        {"tensor": 2}, overlap={"tensor": {"chunks": 2, "gathers": gathers, "reductions": reductions}}, **SP
    )
    for phase, name in ((Phase.FORWARD, "forward"), (Phase.BACKWARD, "backward")):
        cut = {kind for kind, group in collectives(found, phase=phase) if group}
        assert (MovementKind.ALL_GATHER in cut) == (gathers in ("both", name))
        assert (MovementKind.REDUCE_SCATTER in cut) == (reductions in ("both", name))


def test_rows_that_do_not_divide_stay_whole_and_the_user_is_told():
    found = plan({"tensor": 2}, overlap={"tensor": 3}, **SP)
    (note,) = (note for note in found.notes if "chunks" in note)
    assert note.startswith("0 of ")
    assert not any(node.chunked for block in found.graph.blocks.values() for node in block.nodes)
    other = plan({"tensor": 2}, overlap={"tensor": 4}, **SP)
    cut, total = count_chunked_collectives(other.graph)["tensor"]
    assert f"{cut} of {total} collectives of activations over tensor go in 4 chunks" in " ".join(other.notes)


def test_an_axis_that_the_mesh_lacks_is_refused():
    with pytest.raises(PlanError, match="no axis 'tensr'") as caught:
        plan({"tensor": 2}, overlap={"tensr": 4})
    assert caught.value.problems[0].path == "parallel.overlap.tensr"


@pytest.mark.parametrize("written", [1, 0, {"chunks": 1}, {"chunks": True}, {"gathers": "both"}, "4"])
def test_other_than_a_number_of_chunks_is_refused(written):
    with pytest.raises(SimclusterError):
        plan({"tensor": 2}, overlap={"tensor": written})


@given(
    count=st.integers(2, 5),
    runs=st.integers(1, 4),
    size=st.integers(1, 3),
    place=st.integers(0, 2),
)
def test_chunks_together_are_the_whole_and_take_a_part_of_every_run(count, runs, size, place):
    shape = [2, 3, 4]
    shape[place] = count * runs * size
    whole = np.random.default_rng(0).standard_normal(shape)
    labels = ("a", "b", "c")
    parts = SplitChunks(labels, place, count, runs).evaluate([whole], Region({}))
    assert all(part.shape[place] == runs * size for part in parts)
    (again,) = JoinChunks(labels, place, count, runs).evaluate(parts, Region({}))
    assert np.array_equal(again, whole)
    # Chunk c of what was gathered is what would be gathered of everyone's chunk c.
    own = np.split(whole, runs, axis=place)
    mine = [SplitChunks(labels, place, count).evaluate([each], Region({})) for each in own]
    for index, part in enumerate(parts):
        assert np.array_equal(part, np.concatenate([each[index] for each in mine], axis=place))


ANYWHERE = [case for case in cases() if case.operator.anywhere]


@pytest.mark.parametrize("case", ANYWHERE, ids=str)
def test_who_may_be_cut_does_not_look_where_it_is(case):
    class Nowhere:
        def __getattr__(self, name):
            raise AssertionError(f"{case} looks at region.{name}")

    made = case.operator.evaluate(list(case.inputs), Nowhere())
    expected = case.operator.evaluate(list(case.inputs), Region({}, step=3))
    assert all(np.array_equal(one, other) for one, other in zip(made, expected, strict=True))


def test_matmuls_may_be_cut():
    assert {"matmul", "matmul_sum", "bias", "swiglu"} <= {case.operator.kind for case in ANYWHERE}
    assert not {"dropout", "mask", "rotary"} & {case.operator.kind for case in ANYWHERE}


def test_a_layer_goes_in_chunks_from_one_attention_to_the_next():
    found = plan({"tensor": 2}, overlap={"tensor": {"chunks": 2, "reach": "layer"}}, **SP)
    layer = list(found.graph.blocks["layer"].phase(Phase.FORWARD))
    whole = {node.name for node in layer if not node.chunked}
    assert whole == {"attention.rotary", "attention.core"}
    assert len({node.chunked for node in layer if node.chunked}) == 2
    names = [node.name for node in layer if node.chunked and ".chunk" in node.name]
    # Chunks take turns between collectives, and those of one stage follow each other.
    order = [name for name in names if name.startswith("mlp") and "all_gather" not in name]
    each = ["mlp.up", "mlp.activation", "mlp.down", "mlp.down.reduce_scatter"]
    first, second = ([f"{name}.chunk{index}" for name in each] for index in (0, 1))
    begin = order.index(first[0])
    assert order[begin : begin + len(first + second)] == first + second
    assert order.index("mlp.norm.chunk1") < begin
    back = list(found.graph.blocks["layer"].phase(Phase.BACKWARD))
    assert all("chunk" not in node.name for node in back if "wgrad" in node.name)


def test_casts_of_weights_stand_before_the_chunks_that_read_them():
    """Otherwise a framework that waits for collectives would wait for all chunks before such a cast."""
    host = {"use": "dgx-h100", "devices": 4, "network": {"nics": 1}}
    mesh = {"data": 2, "tensor": 2}
    found = make_plan(
        validate_data(LLAMA, ModelSpec).build(None),
        validate_data({"global_batch": 4, "micro_batch": 1, "seq_len": 8, "precision": "fp8"}, TrainingSpec),
        validate_data(
            {"mesh": mesh, "overlap": {"tensor": 2}, "optimizer_sharding": "fsdp", **SP}, ParallelSpec
        ),
        FrameworkSpec.load("ideal"),
        validate_data({"host": host, "hosts": 1}, ClusterSpec).build(),
    )
    names = [node.name for node in found.graph.blocks["layer"].phase(Phase.FORWARD)]
    for layer, norm in (("attention.qkv.q", "attention.norm"), ("mlp.up.gate", "mlp.norm")):
        assert names.index(f"{layer}.weight.cast") < names.index(f"{norm}.all_gather.chunk0")
        assert names.index(f"{norm}.all_gather.chunk0") < names.index(f"{norm}.out.cast.chunk0")


def test_the_pass_cuts_collectives_and_their_matmuls_and_nothing_else():
    before = pass_graphs.sharded("megatron_sp")
    graph = chunk_collectives(before, {"tensor": OverlapSpec(chunks=2, gathers="forward")}, pass_graphs.MESH)
    old, block = (one.blocks["layer"] for one in (before, graph))
    cut = ["attention.norm.all_gather", "attention.out.reduce_scatter"]
    cut += ["mlp.norm.all_gather", "mlp.down.reduce_scatter"]
    assert list(dict.fromkeys(node.chunked for node in block.nodes if node.chunked)) == cut
    matmuls = ["attention.qkv", "attention.out", "mlp.up", "mlp.down"]
    names = [node.name for node in block.nodes]
    assert {name for name in names if ".chunk" in name and name[-1].isdigit()} == {
        f"{name}.chunk{number}" for name in (*cut, *matmuls) for number in range(2)
    }
    kept = [node for node in block.nodes if not node.chunked]
    assert kept == [node for node in old.nodes if node.name not in (*cut, *matmuls)]


def test_without_axes_the_pass_changes_nothing():
    graph = pass_graphs.sharded("megatron_sp")
    assert chunk_collectives(graph, {}, pass_graphs.MESH) is graph
