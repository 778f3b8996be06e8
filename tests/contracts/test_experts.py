"""Experts spread over ranks compute what one device computes, and nothing but all-to-alls carries tokens.

Mixtures of several kinds on meshes of data, expert, tensor and pipeline ranks, under every recipe that splits
something, with sharded optimizers, recomputation and layouts of the user's own.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from simcluster.document import validate_data
from simcluster.errors import PlanError
from simcluster.layout import Movement, MovementKind
from simcluster.model import Matmul, Phase
from simcluster.plan.spec import FrameworkSpec, RecipeSpec
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.compose.build import plan_scenario
from tests.support.covering import quick, thorough_but_few

SIZES = {"layers": 3, "hidden": 16, "heads": 4, "vocab": 64}
LATENT = {"q_rank": 12, "kv_rank": 8, "nope_dim": 4, "rope_dim": 2, "value_dim": 3}
MODELS = {
    "mixtral": {**SIZES, "heads": 8, "kv_heads": 4, "experts": {"count": 8, "top_k": 2, "ffn": 8}},
    "few places": {**SIZES, "experts": {"count": 4, "top_k": 3, "ffn": 8, "capacity_factor": 0.5}},
    "shared, some layers dense": {
        **SIZES,
        "ffn": 16,
        "experts": {"count": 8, "top_k": 2, "ffn": 8, "shared": 2, "dense_layers": 1, "capacity_factor": 2.0},
    },
    "deepseek-v2": {
        **SIZES,
        "ffn": 16,
        "latent": LATENT | {"q_rank": 0},
        "experts": {
            "count": 8,
            "top_k": 3,
            "ffn": 8,
            "shared": 1,
            "dense_layers": 1,
            "normalised": False,
            "scale": 16.0,
            "groups": 4,
            "kept_groups": 2,
        },
    },
    "deepseek-v3": {
        **SIZES,
        "ffn": 16,
        "latent": LATENT,
        "experts": {
            "count": 8,
            "top_k": 2,
            "ffn": 8,
            "shared": 1,
            "dense_layers": 1,
            "score": "sigmoid",
            "scale": 2.5,
            "groups": 4,
            "kept_groups": 2,
            "group_best": 2,
            "steered": True,
        },
    },
    "dropout and relu": {
        **SIZES,
        "activation": "relu",
        "dropout": 0.1,
        "experts": {"count": 4, "top_k": 2, "ffn": 8},
    },
}
PLACES = [
    ("data", {"expert": 2}),
    ("data", {"data": 2, "expert": 2}),
    ("data", {"expert": 2, "data": 2}),
    ("fsdp", {"data": 2, "expert": 4}),
    ("megatron", {"tensor": 2}),
    ("megatron", {"expert": 2, "tensor": 2}),
    ("megatron", {"pipeline": 3, "data": 2, "expert": 2, "tensor": 2}),
    ("megatron_sp", {"tensor": 4}),
    ("megatron_sp", {"data": 2, "expert": 2, "tensor": 2}),
    ("megatron_sp", {"pipeline": 2, "expert": 2, "data": 2, "tensor": 2}),
    ("pangu", {"data": 2, "expert": 2, "tensor": 2}),
    ("tensor_2d", {"expert": 2, "tensor_x": 2, "tensor_y": 2}),
    # Slices of a sequence are routed, and have places, each for itself.
    ("data", {"context": 2, "expert": 2}),
    ("megatron", {"data": 2, "context": 2, "expert": 2, "tensor": 2}),
    ("megatron_sp", {"expert": 2, "context": 2, "tensor": 2}),
]
SHARDINGS = [
    None,
    {"zero": 1},
    {"zero": 2},
    {"zero": 3},
    {"mindspore": "level3"},
    {"zero": 1, "axes": "data"},
]
RECOMPUTE = [
    {},
    {"layers": "all"},
    {"operators": ["layers.*.mlp.{dispatch,weights,experts.*,combine}"]},
    {"operators": ["layers.*.mlp.{norm,router,route}", "layers.*.attention.{latent.*,query*,kv*,core*}"]},
]


def scenario(
    model,
    mesh,
    recipe,
    *,
    micro_batches=2,
    sharding=None,
    recompute=None,
    roles=None,
    training=None,
    collectives=None,
    **more,
):
    ranks = math.prod(mesh.values())
    devices = max(size for size in (1, 2, 3, 4) if ranks % size == 0)
    batch = (roles or {}).get("batch", ("data", "expert"))
    ways = math.prod(mesh.get(axis, 1) for axis in batch)
    if "data" not in mesh and sharding is not None:
        sharding = {name: value for name, value in sharding.items() if name != "axes"}
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "experts",
            "cluster": {
                "host": {"use": "dgx-h100", "devices": devices, "network": {"nics": 1}},
                "hosts": ranks // devices,
            },
            "model": model,
            "collectives": collectives or {},
            "training": {
                "global_batch": micro_batches * 2 * ways,
                "micro_batch": 2,
                "seq_len": 8,
                **(training or {}),
            },
            "parallel": {
                "mesh": mesh,
                "roles": roles or {},
                "recipe": recipe,
                "optimizer_sharding": sharding,
                "recompute": recompute or {},
                **more,
            },
        }
    )


def prove(which, **profile):
    vars(which)["framework"] = validate_data({"use": "ideal", **profile}, FrameworkSpec)
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update"}


def label(row):
    recipe, mesh = row["place"]
    return f"{row['model']}-{recipe}-{'x'.join(f'{axis}{size}' for axis, size in mesh.items())}"


ROWS = [
    {
        "model": model,
        "place": place,
        "sharding": SHARDINGS[number % len(SHARDINGS)],
        "recompute": RECOMPUTE[number % len(RECOMPUTE)],
        "attention": ("flash", "unfused")[number % 2],
    }
    for number, (model, place) in enumerate(itertools.product(MODELS, PLACES))
]
SOME = [row for number, row in enumerate(ROWS) if sum(divmod(number, len(PLACES))) % 3 == 0]
"""Every model, place, sharding and recomputation, not each with each other."""


@pytest.mark.parametrize("row", thorough_but_few(SOME, ["place"]), ids=label)
def test_it_computes_what_one_device_computes(row):
    prove_row(row)


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", [row for row in ROWS if row not in SOME], ids=label)
def test_every_model_in_every_place(row):
    prove_row(row)


def test_some_rows_have_every_model_and_every_place():
    assert {recipe for recipe, _ in PLACES} == set(RecipeSpec.entries())
    for name in ROWS[0]:
        assert {str(row[name]) for row in SOME} == {str(row[name]) for row in ROWS}


@pytest.mark.parametrize("model", ["shared, some layers dense", "deepseek-v3"])
def test_matrices_in_two_dims_are_cut_by_all_tensor_ranks(model):
    """Experts and latent attention were in no rule: every tensor rank computed all of them."""
    mesh = {"expert": 2, "tensor_x": 2, "tensor_y": 2}
    graph = plan_scenario(scenario(MODELS[model], mesh, "tensor_2d")).graph
    whole = {
        node.name
        for _, node in graph.nodes()
        if isinstance(node.operator, Matmul)
        and node.phase is Phase.FORWARD
        and not {"tensor_x", "tensor_y"} <= {axis for _, axes in node.strategy.splits for axis in axes}
    }
    assert not whole


def prove_row(row):
    recipe, mesh = row["place"]
    which = scenario(MODELS[row["model"]], mesh, recipe, sharding=row["sharding"], recompute=row["recompute"])
    prove(which, attention=row["attention"])


LAYOUTS = [
    # Experts over the ranks of tensor parallelism too, each expert whole.
    (
        {"data": 2, "expert": 2, "tensor": 2},
        [{"match": "layers.*.mlp.experts.*", "split": {"experts": ["expert", "tensor"]}}],
        {},
    ),
    # Experts over all data ranks, and over the outer of two batch axes.
    ({"data": 2, "replica": 2}, [], {"batch": ["data", "replica"], "experts": ["data", "replica"]}),
    ({"data": 2, "replica": 2}, [], {"batch": ["data", "replica"], "experts": ["data"]}),
    # Over the ranks that split the sequence, alone and with those that split the batch.
    ({"data": 2, "context": 2}, [], {"experts": ["context"]}),
    ({"data": 2, "context": 2}, [], {"experts": ["data", "context"]}),
    # Places split, hidden split, the sequence split before it is dispatched, and choices.
    (
        {"expert": 2, "inner": 2},
        [
            {
                "match": "layers.*.mlp.{dispatch,combine,experts.*}",
                "split": {"capacity": "inner", "experts": "expert"},
            },
        ],
        {},
    ),
    (
        {"expert": 2, "inner": 2},
        [{"match": "layers.*.mlp.{dispatch,combine}", "split": {"hidden": "inner"}}],
        {},
    ),
    (
        {"expert": 2, "inner": 2},
        [{"match": "layers.*.mlp.{dispatch,combine}", "split": {"seq": "inner"}}],
        {},
    ),
    (
        {"expert": 2, "inner": 2},
        [{"match": "layers.*.mlp.{dispatch,weights}", "split": {"choices": "inner"}}],
        {},
    ),
    # Tokens stay and every rank adds up what its experts make of them.
    (
        {"data": 2, "tensor": 2},
        [{"match": "layers.*.mlp.{dispatch,weights,experts.*,combine}", "split": {"experts": "tensor"}}],
        {},
    ),
]


@pytest.mark.parametrize(("mesh", "strategies", "roles"), quick(LAYOUTS, *LAYOUTS[::3]))
def test_other_layouts_compute_the_same(mesh, strategies, roles):
    recipe = "megatron" if "tensor" in mesh else "data"
    model = MODELS["shared, some layers dense"]
    prove(scenario(model, mesh, recipe, roles=roles, strategies=strategies))


TRAINING = [
    {"precision": {"compute": "bf16", "matmul": "fp8", "fp8": {"communication": "fp8"}}},
    {"precision": "fp8"},
    {"optimizer": {"kind": "adamw", "clip": 0.01}},
    {"optimizer": {"kind": "lamb", "clip": 0.01}},
    {"batch_shares": {"data": [3, 1]}},
]


@pytest.mark.parametrize("training", quick(TRAINING, *TRAINING[::2]), ids=str)
def test_formats_norms_and_shares_of_the_batch(training):
    """Norms count every expert once; ranks with more micro-batches exchange more often among themselves."""
    mesh = {"data": 2, "expert": 2, "tensor": 2}
    model = {**MODELS["deepseek-v3"], "layers": 2}
    prove(scenario(model, mesh, "megatron_sp", micro_batches=4, sharding={"zero": 1}, training=training))


# -- what is sent -----------------------------------------------------------------------------------------


def sent(which, layer, *phases):
    """The collectives of a layer by phase: (what, over which axes) -> how many."""
    graph = build_scenario(which).plan.graph
    block = next(graph.block_of(each) for each in graph.instances if each.name == layer)
    return Counter(
        (str(node.operator.kind), "+".join(node.operator.axes))
        for node in block.phase(*phases)
        if isinstance(node.operator, Movement) and node.operator.is_collective
    )


def test_expert_parallelism_is_two_exchanges_of_tokens_each_way():
    """Tokens and their weights go, what experts made of them comes; nothing is exchanged twice."""
    which = scenario(MODELS["mixtral"], {"data": 2, "expert": 2}, "data")
    exchange = ("all_to_all", "expert")
    assert sent(which, "layers.1", Phase.FORWARD) == {exchange: 3}
    assert sent(which, "layers.1", Phase.BACKWARD) == {exchange: 3}


@pytest.mark.parametrize(
    ("recipe", "forward"),
    [
        ("megatron", {("all_to_all", "expert"): 3, ("all_reduce", "tensor"): 2}),
        (
            "megatron_sp",
            {
                ("all_to_all", "expert"): 3,
                # To attention, ids and weights of choices, and the parts of rows to experts.
                ("all_gather", "tensor"): 4,
                # Behind attention and experts.
                ("reduce_scatter", "tensor"): 2,
                # From parts of the sequence to parts of rows, and back.
                ("all_to_all", "tensor"): 2,
            },
        ),
    ],
)
def test_with_tensor_parallelism_experts_are_reduced_where_they_are_smallest(recipe, forward):
    which = scenario(MODELS["mixtral"], {"data": 2, "expert": 2, "tensor": 2}, recipe)
    assert sent(which, "layers.1", Phase.FORWARD) == forward


def test_an_axis_of_one_rank_changes_nothing():
    """Layouts that named it would differ from those that do not, and be gathered for."""
    plain = scenario(MODELS["mixtral"], {"expert": 2, "tensor": 2}, "megatron")
    with_one = scenario(MODELS["mixtral"], {"data": 1, "expert": 2, "tensor": 2}, "megatron")
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert sent(with_one, "layers.1", phase) == sent(plain, "layers.1", phase)


def test_gradients_of_experts_are_reduced_over_the_ranks_that_hold_the_same():
    """Those of everything else over all ranks that have other samples."""
    which = scenario(MODELS["deepseek-v3"], {"data": 2, "expert": 2}, "data")
    graph = build_scenario(which).plan.graph
    block = next(graph.block_of(each) for each in graph.instances if each.name == "layers.2")
    over = {
        node.origin: node.operator.axes
        for node in block.phase(Phase.END)
        if isinstance(node.operator, Movement)
    }
    of_experts = {name: axes for name, axes in over.items() if ".experts." in name}
    assert set(of_experts.values()) == {("data",)}
    assert len(of_experts) == 3
    rest = {axes for name, axes in over.items() if ".experts." not in name}
    assert rest == {("data", "expert")}


def test_states_of_experts_lie_over_the_ranks_that_hold_the_same():
    which = scenario(MODELS["mixtral"], {"data": 2, "expert": 2}, "data", sharding={"zero": 1})
    graph = build_scenario(which).plan.graph
    block = next(graph.block_of(each) for each in graph.instances if each.name == "layers.2")
    assert block.values["mlp.experts.down.weight.master"].layout.flat == ("data",)
    assert block.values["mlp.experts.down.weight.master"].layout.dims[0] == ("expert",)
    assert block.values["attention.out.weight.master"].layout.flat == ("data", "expert")


def test_an_exchange_carries_what_tokens_choose():
    """top_k x tokens x hidden x 2 bytes for tokens that fill all places."""
    which = scenario(MODELS["mixtral"], {"expert": 2}, "data")
    graph = build_scenario(which).plan.graph
    block = next(graph.block_of(each) for each in graph.instances if each.name == "layers.2")
    node = block.node("mlp.dispatch.all_to_all")
    assert node.operator.kind is MovementKind.ALL_TO_ALL
    tokens = 2 * 2 * 8
    assert block.values[node.outputs[0]].type.num_bytes == 2 * tokens * 16 * 2


def test_more_expert_ranks_hold_fewer_experts():
    """Their weights, bf16, are divided by the ranks; so are gradients and states, of 4 and 12 bytes each."""
    held = {}
    for ranks in (1, 2, 4):
        mesh = {"data": 4 // ranks, "expert": ranks}
        (stage,) = simulate(scenario(MODELS["mixtral"], mesh, "data")).documents["summary"][
            "peak_memory_bytes"
        ]
        held[ranks] = [stage["breakdown"][name] for name in ("parameters", "gradients", "optimizer_states")]
    experts = 3 * 8 * 3 * 16 * 8
    for ranks in (2, 4):
        fewer = experts - experts // ranks
        spared = [before - after for before, after in zip(held[1], held[ranks], strict=True)]
        assert spared == [2 * fewer, 4 * fewer, 12 * fewer]


def test_an_axis_called_as_a_role_is_not_taken_for_it():
    """It would repeat the same work in silence: the role's axis is another one."""
    with pytest.raises(PlanError, match="no role and no strategy uses axis 'experts'"):
        build_scenario(scenario(MODELS["mixtral"], {"experts": 2}, "data"))


def test_ranks_that_share_experts_train_equally_much():
    """Who has fewer micro-batches would not come to the exchanges of the others."""
    training = {"batch_shares": {"expert": [3, 1]}}
    with pytest.raises(PlanError, match="expert"):
        build_scenario(scenario(MODELS["mixtral"], {"expert": 2}, "data", training=training, micro_batches=4))


def test_experts_that_do_not_divide_are_refused_with_the_arithmetic():
    with pytest.raises(PlanError, match=r"experts 8 does not divide over expert 3: 8 / 3 = 2\.66667"):
        build_scenario(scenario(MODELS["mixtral"], {"expert": 3}, "data"))


FP8 = {"matmul": "fp8"}


@pytest.mark.parametrize("precision", ["bf16", FP8, {**FP8, "fp8": {"communication": "fp8"}}], ids=str)
def test_what_all_tokens_use_is_computed_while_the_others_travel(precision):
    """Copies in fp8 of what arrives wait for it, not those kernels that need nothing of it."""
    model = {**MODELS["shared, some layers dense"], "hidden": 256, "layers": 2}
    training = {"precision": precision, "seq_len": 512}
    run = simulate(scenario(model, {"expert": 4}, "data", training=training))
    spans, names = run.spans, run.spans.names["operator"]

    def times(operator):
        (number,) = [index for index, name in enumerate(names) if name == f"layers.1.{operator}"]
        mine = (spans["operator"] == number) & (spans["class"] == 0) & (spans["micro_batch"] == 0)
        return spans["start"][mine][0], spans["end"][mine][0]

    (travel,) = [
        name
        for name in names
        if name.startswith("layers.1.mlp.dispatch.") and "all_to_all" in name and "grad" not in name
    ]
    begin, end = times(travel.removeprefix("layers.1."))
    first, _ = times("mlp.shared.up")
    assert begin <= first < end
    assert times("mlp.experts.up")[0] >= end


@pytest.mark.parametrize("precision", [FP8, {**FP8, "fp8": {"communication": "fp8"}}], ids=str)
def test_what_was_exchanged_is_not_sent_again(precision):
    """In fp8 as without: tokens travel twice each way, and their weights once, for every layer."""
    which = scenario(MODELS["mixtral"], {"data": 2, "expert": 2}, "data", training={"precision": precision})
    exchange = ("all_to_all", "expert")
    assert sent(which, "layers.1", Phase.FORWARD)[exchange] == 3
    assert sent(which, "layers.1", Phase.BACKWARD, Phase.WEIGHTS)[exchange] == 3


def test_exchanges_in_two_levels_take_the_same_parts():
    """Inside hosts to the ranks of a rail, and along it between hosts; with parts too."""
    model = {**MODELS["mixtral"], "layers": 1}
    for routing in (None, "zipf:1"):
        steps = {}
        for algorithm in ("pairwise", "hierarchical"):
            training = {"routing": routing} if routing else {}
            chosen = {"all_to_all": algorithm, "all_to_all_v": algorithm}
            which = scenario(model, {"expert": 8}, "data", training=training, collectives=chosen)
            folded, unfolded = (
                simulate(which, unfold=unfold).documents["summary"] for unfold in (False, True)
            )
            assert folded["step_time_s"] == unfolded["step_time_s"]
            steps[algorithm] = folded["step_time_s"]
        assert len(set(steps.values())) == 2


PIPELINES = [
    ("zb_h1", {"pipeline": 2, "expert": 2, "tensor": 2}, 3),
    ("zb_v", {"pipeline": 2, "data": 2, "expert": 2}, 5),
    ("dualpipe_v", {"pipeline": 2, "expert": 2, "context": 2}, 5),
    ({"kind": "interleaved", "chunks": 2}, {"pipeline": 2, "data": 2, "expert": 2}, 5),
]


@pytest.mark.parametrize(("schedule", "mesh", "layers"), quick(PIPELINES, PIPELINES[2]), ids=str)
def test_pipelines_that_split_their_backwards(schedule, mesh, layers):
    """Weight gradients of experts apart from their exchanges, and pairs whose exchanges overlap."""
    model = {**MODELS["deepseek-v3"], "layers": layers}
    recipe = "megatron" if "tensor" in mesh else "data"
    prove(
        scenario(model, mesh, recipe, micro_batches=6, sharding={"zero": 1}, schedule=schedule),
        attention="flash",
    )
