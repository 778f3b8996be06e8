"""Pieces of a network that are graphs: what they are, what their borders fix, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.document import generalised_name
from simcluster.errors import PlanError, ScenarioError
from simcluster.layout import Layout
from simcluster.model import Phase
from simcluster.plan.sharding.propagation import PROPAGATED
from simcluster.plan.strategies.assignment import DEFAULT
from simcluster.plan.subgraphs.subgraph import EVERYTHING, _stem
from tests.support.planned import GPT, LLAMA, plan

MESH = {"data": 2, "tensor": 4}
BOTH = {"batch": ["data", "tensor"]}
MLP = "layers.*.mlp"
COLUMNS = {"up.{gate,up}.weight": [1, "tensor"]}
TRAINED = {"global_batch": 16}


def planned(*entries, mesh=MESH, **more):
    roles = BOTH if "tensor" in mesh else {}
    return plan(mesh, shard=list(entries), **{"training": TRAINED, "roles": roles, **more})


def refusal(*entries, **more) -> str:
    with pytest.raises((PlanError, ScenarioError)) as caught:
        planned(*entries, **more)
    return "\n".join(f"{each.path}: {each.message} | {each.hint}" for each in caught.value.problems)


def sources(found, instance="layers.0"):
    return found.strategies.sources[instance]


def test_inside_operators_follow_and_outside_all_is_data_parallel():
    """Only the columns of the first matrices are said: Megatron's two splits inside, the batch outside."""
    found = planned({"piece": MLP, "in": [["data", 1, 1]], "parameter_plan": COLUMNS}, roles=BOTH)
    chosen, told = found.strategies.of("layers.2"), sources(found, "layers.2")
    assert chosen["mlp.up"].splits == (("batch", ("data",)), ("ffn", ("tensor",)))
    assert chosen["mlp.activation"] == chosen["mlp.down"] == chosen["mlp.up"]
    assert chosen["mlp.norm"].splits == chosen["mlp.residual"].splits == (("batch", ("data",)),)
    assert {told[f"mlp.{name}"] for name in ("norm", "up", "residual")} == {f"shard({MLP})"}
    assert {told[f"mlp.{name}"] for name in ("activation", "down")} == {PROPAGATED}
    outside = {name: split for name, split in chosen.items() if not name.startswith("mlp.")}
    assert {split.splits for split in outside.values()} == {(("batch", ("data", "tensor")),)}
    assert {told[name] for name in outside} == {DEFAULT}


def test_layouts_are_those_of_strategies_written_by_hand():
    found = planned({"piece": MLP, "in": [["data", 1, 1]], "parameter_plan": COLUMNS}, roles=BOTH)
    wide = {"batch": "data", "ffn": "tensor"}
    written = [
        {"match": f"{MLP}.{{norm,residual}}", "split": {"batch": "data"}},
        {"match": f"{MLP}.{{up,activation,down}}", "split": wide},
    ]
    by_hand = plan(MESH, training=TRAINED, roles=BOTH, recipe="data", strategies=written)
    assert found.strategies.by_instance == by_hand.strategies.by_instance

    def lies(which):
        """Every value of every block, and what moves it."""
        blocks = {
            generalised_name(instance.name): which.graph.block_of(instance)
            for instance in which.graph.instances
        }
        return {
            name: ([(n.name, n.why) for n in block.nodes], {v: k.layout for v, k in block.values.items()})
            for name, block in blocks.items()
        }

    assert lies(found) == lies(by_hand)


def test_numbers_are_one_device_matrix_for_the_piece():
    """(2, 1, 1) for the input and (1, 4) for a matrix leave the batch on the outer ranks."""
    numbers = {"piece": MLP, "in": "((2, 1, 1),)", "parameter_plan": {"up.{gate,up}.weight": "(1, 4)"}}
    found = planned(numbers, mesh={"data": 8})
    assert found.mesh.axes == (("data.0", 2), ("data.1", 4))
    chosen = found.strategies.of("layers.0")
    assert chosen["mlp.down"].splits == (("batch", ("data.0",)), ("ffn", ("data.1",)))
    assert chosen["attention.qkv"].splits == (("batch", ("data.0", "data.1")),)


def test_nothing_need_be_said_of_an_input():
    """What a border leaves open lies as it comes; the parameter alone tells where the search begins."""
    for inputs in ({}, {"in": [None]}):
        found = planned({"piece": MLP, **inputs, "parameter_plan": COLUMNS})
        chosen = found.strategies.of("layers.0")
        assert chosen["mlp.up"].splits == (("batch", ("data",)), ("ffn", ("tensor",)))
        assert chosen["mlp.down"] == chosen["mlp.up"]
        assert sources(found)["mlp.norm"] == PROPAGATED


@pytest.mark.parametrize("piece", [MLP, "layers.*", f"{MLP}.down"])
@pytest.mark.parametrize("name", ["mlp.down.weight", "layers.*.mlp.down.weight", "*down.weight"])
def test_parameters_go_by_several_names(piece, name):
    found = planned({"piece": piece, "in": None, "parameter_plan": {name: ["tensor", 1]}})
    assert found.strategies.of("layers.3")["mlp.down"].axes("ffn") == ("tensor",)


def test_a_result_lies_behind_the_piece_as_the_border_says():
    found = planned({"piece": MLP, "out": [["data", "tensor", 1]], "parameter_plan": COLUMNS})
    (index, layout), *rest = found.strategies.of("layers.0")["mlp.residual"].outputs or ((0, None),)
    assert not rest
    lies = layout or Layout((("data",), ("tensor",), ()))
    assert (index, lies) == (0, Layout((("data",), ("tensor",), ())))
    for instance in found.graph.instances[1:-1]:
        assert found.graph.block_of(instance).values["out"].layout == lies


def test_configured_operators_are_never_changed():
    whole = {"match": f"{MLP}.down", "split": {"batch": "data"}}
    found = planned({"piece": MLP, "parameter_plan": COLUMNS}, strategies=[whole])
    assert found.strategies.of("layers.0")["mlp.down"].splits == (("batch", ("data",)),)
    assert sources(found)["mlp.down"] == "scenario"


@pytest.mark.parametrize(
    ("model", "repeating"),
    [
        # Small: to take the batch apart only costs time. Large: it saves more in kernels than it costs.
        ({}, {0: True, 1: False, 2: True}),
        ({"hidden": 1024, "ffn": 4096}, {0: True, 1: False, 2: False}),
    ],
    ids=["small", "large"],
)
def test_levels(model, repeating):
    """The border lets ranks along tensor repeat each other: least communication leaves it so, least memory
    never, and least time where kernels are short.
    """
    for level, wanted in repeating.items():
        found = planned(
            {"piece": MLP, "in": [["data", 1, 1]], "level": level},
            model={**LLAMA, **model},
            training={"global_batch": 64, "micro_batch": 8, "seq_len": 64},
        )
        axes = {
            found.strategies.of("layers.1")[f"mlp.{name}"].axes("batch")
            for name in ("up", "activation", "down")
        }
        assert axes == {("data",) if wanted else ("data", "tensor")}, level


def test_pieces_are_found_by_module_operator_and_layer():
    found = planned(
        {"piece": "layers.0.attention", "in": [["data", 1, 1]]},
        {"piece": f"{MLP}.{{up,activation,down}}", "in": [["data", 1, 1]]},
        {"piece": "head", "in": [["data", 1, 1], None]},
    )
    by_block = {generalised_name(i.name): found.pieces[i.block] for i in found.logical.instances[:2]}
    assert [piece.name for piece in by_block["layers.*"]] == ["attention", "mlp"]
    (second,) = found.pieces[found.logical.instances[2].block]
    assert second.name == "mlp"
    assert second.nodes == ("mlp.up", "mlp.activation", "mlp.down")
    assert (second.inputs, second.outputs) == (("mlp.norm.out",), ("mlp.down.out",))
    head = found.pieces[found.logical.instances[-1].block][0]
    assert (head.name, head.inputs, head.outputs) == ("*", ("in", "targets"), ("loss.out",))


def test_the_backward_and_what_moves_operands_are_in_the_graph_and_accumulation_is_not():
    found = planned(
        {"piece": f"{MLP}.{{up,activation,down}}", "in": [["data", 1, 1]], "parameter_plan": COLUMNS},
        roles=BOTH,
    )
    block = found.graph.block_of(found.graph.instances[2])
    inside = {node.name: node.piece for node in block.phase(Phase.FORWARD, Phase.BACKWARD)}
    assert inside["mlp.norm.all_gather"] == inside["mlp.down.reduce_scatter"] == "mlp"
    assert {inside[f"mlp.{name}"] for name in ("up", "down", "up.wgrad", "down.dgrad")} == {"mlp"}
    assert not any(inside[f"mlp.{name}"] for name in ("norm", "residual", "norm.grad"))
    # The residual reads the stream as well as the norm: neither is in the piece, nor is their sum.
    assert inside["attention.residual.out.grad_sum"] == ""
    assert not any(node.piece for node in block.nodes if node.phase not in (Phase.FORWARD, Phase.BACKWARD))


def test_a_fan_in_inside_is_summed_inside():
    found = planned({"piece": MLP, "in": [["data", 1, 1]]})
    block = found.graph.block_of(found.graph.instances[2])
    (total,) = [node for node in block.nodes if node.name == "attention.residual.out.grad_sum"]
    assert total.piece == "mlp"


def test_a_pattern_that_fits_nothing_names_the_nearest():
    told = refusal({"piece": "layers.*.mpl", "in": [["data", 1, 1]]})
    assert "parallel.shard.0.piece: 'layers.*.mpl' matches no operator and no module" in told
    assert "did you mean 'layers.*.mlp'?" in told


def test_a_wrong_number_of_inputs_names_them():
    told = refusal({"piece": MLP, "in": [["data", 1, 1], ["data", 1, 1]]})
    assert "parallel.shard.0.in: piece 'layers.*.mlp': 1 input, but 2 given" in told
    assert "its inputs are attention.residual.out (batch, seq, hidden)" in told
    assert "1 output, but 2 given" in refusal({"piece": MLP, "in": [["data", 1, 1]], "out": [None, None]})


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ({"in": [["data", 1]]},
         "in.0: piece 'layers.*.mlp': input attention.residual.out (batch, seq, hidden) "
         "has 3 dims, but 2 given"),
        ({"in": [["dta", 1, 1]]}, "the mesh has no axis or role 'dta' | did you mean 'data'?"),
        ({"in": [["data", 1, "tensor"]]}, "layers.*.mlp.norm: dim 'hidden' cannot be split"),
        ({"in": [[2, "tensor", 1]]}, "axes and numbers are mixed"),
        ({"in": [[3, 1, 1]]}, "3 parts for the 8 ranks of a stage: 8 / 3 = 2.66667"),
        ({"in": [["data", "data", 1]]}, "axis 'data' splits two dims at once"),
        ({"out": [["data", "data", 1]]}, "is split twice over one axis"),
        ({"out": [[1, ["data", "tensor"], 1]]},
         "out: seq 12 does not divide over data 2 x tensor 4: 12 / 8 = 1.5"),
        ({"in": [["data", 1, 1]], "parameter_plan": {"up.wieght": [1, 1]}},
         "reads no parameter 'up.wieght' | did you mean 'mlp.up.up.weight'?"),
        ({"in": [[2, 1, 1]], "parameter_plan": {"up.up.weight": [2, 4]}},
         "dim 'hidden' is in 2 in mlp.up.up.weight, but in 1 before"),
        ({"in": [["data", 1, 1]], "parameter_plan": {"up.up.weight": [1]}},
         "parameter mlp.up.up.weight (hidden, ffn) has 2 dims, but 1 given"),
        ({"parameter_plan": {"up.gate.weight": [1, "tensor"], "up.up.weight": [1, 1]}},
         "dim 'ffn' of mlp.up is split over tensor in mlp.up.gate.weight and whole in mlp.up.up.weight"),
        ({}, "nothing says how it is sharded"),
        ({"in": [["data", 1, 1]], "device": "GPU"},
         "the piece is to run on GPU, but the devices of the cluster are CPU"),
    ],
)  # fmt: skip
def test_what_a_border_cannot_be(entry, wanted):
    assert wanted in refusal({"piece": MLP, **entry}, training={**TRAINED, "seq_len": 12})


def test_what_a_piece_cannot_be():
    border = {"in": [["data", 1, 1]]}
    assert "'layers.*.mlp' already" in refusal({"piece": MLP, **border}, {"piece": f"{MLP}.up", **border})
    torn = refusal({"piece": "layers.*.{attention.norm,mlp.norm}", **border})
    assert "layers.*.attention.qkv stands between operators of the piece" in torn
    given = {"match": f"{MLP}.norm", "split": {"batch": "data", "seq": "tensor"}}
    told = refusal({"piece": MLP, **border}, strategies=[given])
    assert "dim 'seq' of mlp.norm is whole in attention.residual.out, but split over tensor by its" in told
    assert "propagates inside" in refusal({"piece": MLP, **border}, propagate=True)
    assert "mode data takes no shard" in refusal({"piece": MLP, **border}, mode="data")


@given(
    where=st.sampled_from([MLP, "layers.*.attention", "layers.1.mlp", f"{MLP}.{{up,activation,down}}"]),
    split=st.sampled_from([["data", 1, 1], [["data", "tensor"], 1, 1], [1, 1, 1], ["tensor", "data", 1]]),
    out=st.sampled_from([None, ["data", 1, 1], [1, 1, "tensor"], ["data", "tensor", 1]]),
    level=st.integers(0, 2),
    model=st.sampled_from([None, GPT]),
)
@settings(max_examples=6)
def test_borders_are_kept_whatever_the_rest(where, split, out, level, model):
    """Every operator that reads an input has it as it is said, and results lie behind the piece so."""
    entry = {"piece": where, "in": [split], "level": level} | ({"out": [out]} if out else {})
    if "attention" in where and split[1] != 1:
        return
    found = planned(entry, model=model, roles=BOTH)
    wanted = tuple((axes,) if isinstance(axes, str) else tuple(axes) if axes != 1 else () for axes in split)
    for instance in found.logical.instances:
        block = found.logical.block_of(instance)
        for piece in found.pieces.get(instance.block, ()):
            chosen = found.strategies.of(instance.name)
            for node in (node for node in block.phase(Phase.FORWARD) if node.name in piece.nodes):
                dims = node.operator.dims()
                for value, names in zip(node.inputs, dims.inputs, strict=True):
                    if value == piece.inputs[0]:
                        assert chosen[node.name].layout(names).dims == wanted
            if out:
                maker = next(n for n in block.nodes if piece.outputs[0] in n.outputs)
                index, strategy = maker.outputs.index(piece.outputs[0]), chosen[maker.name]
                follows = maker.operator.dims().output_layouts(strategy)[index]
                lies = dict(strategy.outputs).get(index, follows.reduced)
                assert lies.dims == tuple((a,) if a != 1 else () for a in out)


def test_no_kernel_reaches_over_a_border():
    """Where a bias and what follows would be one kernel, the end of the graph cuts it."""
    entry = {"piece": f"{MLP}.{{up,up.bias}}", "in": [[["data", "tensor"], 1, 1]]}
    given = {"model": GPT, "training": TRAINED, "recipe": "data", "roles": BOTH}
    cut, uncut = plan(MESH, shard=[entry], **given), plan(MESH, **given)

    def kernel(which, name):
        block = which.graph.block_of(which.graph.instances[1])
        return next(node.kernel for node in block.nodes if node.name == name)

    assert kernel(uncut, "mlp.activation") == kernel(uncut, "mlp.up") == "mlp.up"
    assert kernel(cut, "mlp.up.bias") == "mlp.up"
    assert kernel(cut, "mlp.activation") == "mlp.activation"


@pytest.mark.parametrize(
    ("names", "stem"),
    [
        (["mlp.up"], "mlp.up"),
        (["mlp.up.gate", "mlp.up.act"], "mlp.up"),
        (["mlp.up", "mlp.down", "mlp.act"], "mlp"),
        (["mlp.up", "norm.up"], EVERYTHING),
        (["mlp", "mlp.up"], "mlp"),
    ],
)
def test_what_the_names_of_a_piece_begin_with(names, stem):
    assert _stem(names) == stem
