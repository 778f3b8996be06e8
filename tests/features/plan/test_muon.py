"""Muon under parallelism: the values of one device, the states it holds, and who orthogonalises what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.errors import PlanError, SimclusterError
from simcluster.layout import MovementKind
from simcluster.program.isa import Category
from simcluster.simulation import build_scenario, verify
from simcluster.simulation.verification.single_device_comparison import compare_values
from tests.support.scenarios import TINY, TINY_GPT, scenario

WHOLE = {"states": True, "split": "parameters"}
MIXTURE = {**TINY, "experts": {"count": 4, "top_k": 2, "ffn": 16}}


def built(mesh, sharding=None, **optimizer):
    return build_scenario(
        scenario(
            mesh,
            training={"optimizer": {"kind": "muon", **optimizer}},
            optimizer_sharding=sharding or {"zero": 0},
        )
    )


def states(built, part=0):
    """Bytes of optimizer states without master copies."""
    return sum(
        each.num_bytes
        for each in built.program.parts[part].residents
        if each.category is Category.OPTIMIZER and not each.name.endswith(".master")
    )


LAYER = 32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 64
"""Elements of the matrices of a layer of ``TINY``: queries, keys and values, output, MLP."""
OTHERS = 9 * 32 + 2 * 128 * 32
"""Elements of what goes through AdamW: nine norms, the embedding and the output layer."""


def test_matrices_have_one_state_and_all_else_two():
    assert states(built({"data": 2})) == 4 * (4 * LAYER + 2 * OTHERS)


def test_flat_shards_are_a_part_each():
    assert states(built({"data": 2}, {"zero": 1})) == 2 * (4 * LAYER + 2 * OTHERS)


def test_owners_of_whole_parameters_hold_all_states_once():
    shared = built({"data": 4}, WHOLE)
    held = [states(shared, part) for part in range(4)]
    assert sum(held) == 4 * (4 * LAYER + 2 * OTHERS)
    assert max(held) - min(held) <= 8 * 128 * 32 + 4 * LAYER
    names = [name for part in shared.program.parts for name in part.saved if name.endswith(".momentum")]
    assert len(names) == len(set(names)) == 4 * 7


@pytest.mark.thorough
@pytest.mark.parametrize("sharding", [{"zero": 0}, {"zero": 1}])
def test_blockwise_moves_no_matrices_between_tensor_ranks(sharding):
    def gathers(matrices):
        graph = built({"data": 2, "tensor": 2}, sharding, matrices=matrices).plan.graph
        return {node.operator.axes for _, node in graph.nodes() if node.name.endswith(".all_gather")}

    assert ("tensor",) not in gathers("blockwise")
    assert any("tensor" in axes for axes in gathers("duplicated"))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "mesh", "sharding", "matrices"),
    [
        (TINY_GPT, {"pipeline": 2, "data": 2, "tensor": 2}, "fsdp", "blockwise"),
        (MIXTURE, {"data": 2, "expert": 2, "tensor": 2}, WHOLE, "duplicated"),
    ],
    ids=["gpt", "mixture"],
)
def test_ranks_step_as_one_device_does(model, mesh, sharding, matrices):
    optimizer = {"kind": "muon", "weight_decay": 0.1, "clip": 0.5, "matrices": matrices}
    found = verify(
        scenario(mesh, model=model, training={"optimizer": optimizer}, optimizer_sharding=sharding)
    )
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.thorough
def test_without_a_broadcast_ranks_differ():
    shared = built({"data": 2}, WHOLE, eps=1e-3, learning_rate=0.01)
    assert compare_values(shared.plan, shared.cluster, "float64", 0, shared.program)[1] == ""
    codes = [
        replace(code, instructions=tuple(replace(one, calls=one.calls[:0]) for one in code.instructions))
        if code.instructions[0].operation == MovementKind.BROADCAST
        else code
        for code in shared.program.codes
    ]
    wrong = replace(shared.program, codes=tuple(codes))
    comparisons, fault = compare_values(shared.plan, shared.cluster, "float64", 0, wrong)
    assert fault or not all(one.agrees for one in comparisons)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"optimizer_sharding": {**WHOLE, "gradients": True}}, "needs all of its gradient"),
        (
            {"host": "dgx-h100", "optimizer_sharding": WHOLE, "offload": {"optimizer_states": "host"}},
            "what lies on hosts",
        ),
        ({"optimizer_sharding": WHOLE, "training": {"batch_shares": {"data": [1, 3]}}}, "unequally many"),
    ],
)
def test_what_has_no_owner_is_refused_in_words(others, message):
    with pytest.raises(SimclusterError, match=message):
        build_scenario(scenario({"data": 2}, **others))


def test_updates_on_hosts_are_refused_as_a_whole():
    """Also where only the parameters that AdamW updates have an operator of the very name."""
    changes = [("training.optimizer", "{kind: muon}"), ("parallel.host", "['*.update']")]
    with pytest.raises(PlanError, match=r"newton_schulz' cannot run on the processors"):
        build_scenario(scenario({"data": 2}, host="dgx-h100").changed(changes))


def test_states_are_written_by_their_names():
    with pytest.raises(PlanError, match="muon keeps no state 'moment3'"):
        built({"data": 2}, states={"moment3": "bf16"})
    half = states(built({"data": 2}, states={"momentum": "bf16", "moment1": "bf16", "moment2": "bf16"}))
    assert half == 2 * (4 * LAYER + 2 * OTHERS)
