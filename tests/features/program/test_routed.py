"""A law of routing gives ranks the rows of their experts: in buffers, kernels and all-to-alls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simcluster.errors import PlanError, ScenarioError
from simcluster.plan.rules.expert_routing import expert_counts
from simcluster.program.lowering.token_exchange import share_sent_once
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from tests.support.covering import quick

MODEL = {
    "layers": 3,
    "hidden": 64,
    "heads": 4,
    "vocab": 64,
    "ffn": 128,
    "experts": {"count": 8, "top_k": 2, "ffn": 32, "shared": 1, "dense_layers": 1},
}
LATENT = {"q_rank": 12, "kv_rank": 8, "nope_dim": 4, "rope_dim": 2, "value_dim": 3}
LAWS = ["zipf:1.2", "normal:0.3", {"law": "zipf:0.7", "drawn": "micro_batch", "seed": 3}]
EVEN = {"histogram": [1] * 8}
"""What makes codes of their own of everything, all as large as they were."""

PLANS = {
    "expert": ({"expert": 4}, {}),
    "data and expert": ({"data": 2, "expert": 4}, {"parallel": {"optimizer_sharding": {"zero": 1}}}),
    "experts over data": (
        {"data": 2, "replica": 2},
        {"parallel": {"roles": {"batch": ["data", "replica"], "experts": ["data", "replica"]}}},
    ),
    "tensor parallel experts": (
        {"data": 2, "expert": 2, "tensor": 2},
        {"parallel": {"recipe": "megatron_sp", "optimizer_sharding": {"zero": 1}}},
    ),
    "experts over tensor too": (
        {"expert": 2, "tensor": 2},
        {"parallel": {"strategies": [{"match": "*.experts.*", "split": {"experts": ["expert", "tensor"]}}]}},
    ),
    "fused, fp8, recomputed": (
        {"expert": 4, "tensor": 2},
        {
            "framework": "megatron-core",
            "training": {"precision": {"matmul": "fp8", "fp8": {"communication": "fp8"}}},
            "parallel": {
                "recipe": "megatron_sp",
                "recompute": {"operators": ["*.mlp.{dispatch,weights,experts.*}"]},
            },
        },
    ),
    "slices of sequences": ({"context": 2, "expert": 2}, {"parallel": {"context": "ring"}}),
    "experts over slices": ({"data": 2, "context": 2}, {"parallel": {"roles": {"experts": ["context"]}}}),
    "offloaded": (
        {"expert": 4},
        {"parallel": {"offload": {"activations": "host"}}},
    ),
    "fsdp": ({"data": 2, "expert": 2}, {"parallel": {"recipe": "fsdp"}}),
    "pipeline": (
        {"pipeline": 2, "expert": 4},
        {"parallel": {"schedule": "zb_v"}, "model": {"layers": 4, "latent": LATENT}},
    ),
    "sent once, in pairs": (
        {"pipeline": 2, "expert": 2},
        {
            "framework": {"use": "megatron-core", "expert_exchange": "once_per_rank"},
            "parallel": {"schedule": {"kind": "interleaved", "pairs": True}},
            "model": {"layers": 4},
            "batches": 4,
        },
    ),
    "overlapped pairs": (
        {"pipeline": 2, "expert": 2},
        {"parallel": {"schedule": "dualpipe_v"}, "model": {"layers": 4}, "batches": 8},
    ),
}


def scenario(mesh, more, routing=None):
    ranks = math.prod(mesh.values())
    ways = math.prod(size for axis, size in mesh.items() if axis in ("data", "replica", "expert"))
    training = {"global_batch": more.get("batches", 4) * ways, "micro_batch": 1, "seq_len": 32}
    training |= more.get("training", {})
    if routing is not None:
        training["routing"] = routing
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "routed",
            "cluster": {
                "host": {"use": "dgx-h100", "devices": 2, "network": {"nics": 1}},
                "hosts": ranks // 2,
            },
            "framework": more.get("framework", "ideal"),
            "model": MODEL | more.get("model", {}),
            "training": training,
            "parallel": {"mesh": mesh, **more.get("parallel", {})},
        }
    )


@pytest.mark.parametrize("name", quick(PLANS, *[*PLANS][::3]))
def test_equally_popular_experts_change_nothing(name):
    """Codes are made anew from their operators, and come out as lowering made them."""
    mesh, more = PLANS[name]
    before, after = (build_scenario(scenario(mesh, more, routing)).program for routing in (None, EVEN))
    assert before is not after
    for part, other in zip(before.parts, after.parts, strict=True):
        for run, again in zip(part.executions, other.executions, strict=True):
            one, two = before.codes[run.code], after.codes[again.code]
            assert [slot.num_bytes for slot in one.slots] == [slot.num_bytes for slot in two.slots]
            assert one.instructions == two.instructions


@pytest.mark.parametrize(
    "name", quick(PLANS, "data and expert", "experts over tensor too", "slices of sequences", "pipeline")
)
def test_folded_is_unfolded(name):
    mesh, more = PLANS[name]
    law = LAWS[list(PLANS).index(name) % len(LAWS)]
    folded, unfolded = (simulate(scenario(mesh, more, law), unfold=unfold) for unfold in (False, True))
    one, two = (run.documents["summary"] for run in (folded, unfolded))
    assert one["step_time_s"] == two["step_time_s"]
    assert max(each["total"] for each in one["peak_memory_bytes"]) == max(
        each["total"] for each in two["peak_memory_bytes"]
    )
    assert one["communication_bytes"].keys() == two["communication_bytes"].keys()
    for axis, sent in one["communication_bytes"].items():
        assert sent == pytest.approx(two["communication_bytes"][axis])


@pytest.mark.parametrize(
    ("precision", "name", "width"),
    [
        ("bf16", "mlp.dispatch.all_to_all", 2),
        (
            {"matmul": "fp8", "fp8": {"communication": "fp8"}},
            "mlp.dispatch.out.cast.all_to_all",
            1,
        ),
    ],
    ids=["bf16", "fp8"],
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_tokens_that_are_sent_once_cross_the_network_once_to_each_host(ranks, precision, name, width):
    """Two ranks are one host, four are two."""
    more = {
        "framework": {"use": "megatron-core", "expert_exchange": "once_per_rank"},
        "training": {"precision": precision},
    }
    built = build_scenario(scenario({"expert": ranks}, more))
    (sent,) = {
        instruction.num_bytes
        for code in built.program.codes
        for instruction in code.instructions
        if instruction.name == name
    }
    assert sent == round(2 * 32 * 64 * width * share_sent_once(8, 2, 2))


def exchanges(program):
    """Every all-to-all with parts: (instance, micro-batch, instruction)."""
    return [
        (run.instance, run.micro_batch, each)
        for run in program.parts[0].executions
        for each in program.codes[run.code].instructions
        if each.parts is not None
    ]


@pytest.mark.parametrize("routing", [*LAWS, {"histogram": [8, 0, 1, 1, 3, 2, 0, 1]}], ids=str)
def test_an_exchange_carries_what_tokens_choose(routing):
    """top_k x tokens x hidden x 2 bytes, from every source to the ranks of the experts that it chooses."""
    built = build_scenario(scenario({"expert": 4}, {}, routing))
    found = [each for *_, each in exchanges(built.program) if "dispatch.all_to_all" in each.name]
    assert found
    for each in found:
        assert each.num_bytes == 2 * 32 * 64 * 2
        (table,) = each.parts.tables
        sent = table.counts * table.share * each.num_bytes
        # All sources choose alike, and none of them more or less than it has.
        assert sent.sum(axis=1) == pytest.approx([2 * 32 * 64 * 2] * 4)
        assert (sent == sent[0]).all()


def grouped_rows(program, part):
    """By (instance, micro-batch) the rows that a part's experts multiply, of all its experts together."""
    return {
        (run.instance, run.micro_batch): dict(each.works[0].sizes)["b"] * dict(each.works[0].sizes)["m"]
        for run in program.parts[part].executions
        for each in program.codes[run.code].instructions
        if each.name == "mlp.experts.up"
    }


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_ranks_compute_and_hold_what_they_are_sent(law):
    built = build_scenario(scenario({"expert": 4}, {}, law))
    program = built.program
    got = {
        (instance, micro_batch): (each.parts.tables[0].counts.sum(axis=0) * each.parts.tables[0].share)
        * each.num_bytes
        / (64 * 2)
        for instance, micro_batch, each in exchanges(program)
        if each.name == "mlp.dispatch.all_to_all"
    }
    assert len(got) == 2 * 4
    for rank in range(4):
        part = program.part_of(rank)
        for where, rows in grouped_rows(program, part).items():
            # Both experts of a rank are multiplied as one group of equal parts, rounded up.
            wanted = round(got[where][rank])
            assert wanted <= rows <= wanted + 1
        for run in program.parts[part].executions:
            for slot in program.codes[run.code].slots:
                if slot.name == "mlp.dispatch.all_to_all":
                    wanted = round(got[run.instance, run.micro_batch][rank])
                    assert wanted * 128 <= slot.num_bytes <= (wanted + 1) * 128


def test_what_is_dropped_is_not_sent():
    """Of a favourite no more than its places; if these are padded, all of them whatever is chosen."""
    more = {"model": {"experts": MODEL["experts"] | {"capacity_factor": 1.0, "padded": False}}}
    built = build_scenario(scenario({"expert": 4}, more, {"histogram": [100, 1, 1, 1, 1, 1, 1, 1]}))
    (each,) = {
        each.num_bytes: each for *_, each in exchanges(built.program) if "dispatch.all_to_all" in each.name
    }.values()
    wanted = expert_counts(np.array([100, 1, 1, 1, 1, 1, 1, 1]) / 107, 64, 32, 8)
    assert wanted.max() == 8
    assert each.num_bytes == wanted.sum() * 64 * 2
    with pytest.raises((PlanError, ScenarioError), match="padded"):
        more = {"model": {"experts": MODEL["experts"] | {"capacity_factor": 1.0}}}
        build_scenario(scenario({"expert": 4}, more, "zipf:1"))


def test_places_that_stay_empty_need_not_be_computed():
    """Without padding, twice the places cost nothing if nobody sits in them."""
    steps = {}
    for factor, padded in ((None, True), (2.0, False), (2.0, True)):
        experts = MODEL["experts"] | {"capacity_factor": factor, "padded": padded}
        run = simulate(scenario({"expert": 4}, {"model": {"experts": experts}}))
        steps[factor, padded] = run.documents["summary"]["communication_bytes"]["expert"]["all_to_all"]
    assert steps[2.0, False] == steps[None, True]
    assert steps[2.0, True] == 2 * steps[None, True]


def test_the_most_loaded_rank_sets_the_pace():
    """Its matrices take as long as their rows ask for, and all others wait for it."""
    mesh, more = (
        {"expert": 4},
        {"model": {"hidden": 1024, "heads": 8, "experts": MODEL["experts"] | {"ffn": 4096}}},
    )
    more["training"] = {"seq_len": 2048}
    even, skewed = (simulate(scenario(mesh, more, law)) for law in (None, "zipf:1.5"))
    assert not any("chosen by" in note for note in even.documents["plan"]["notes"])
    (note,) = [note for note in skewed.documents["plan"]["notes"] if "chosen by" in note]
    assert note.startswith("experts chosen by zipf:1.5, seed 0: of one layer a rank gets up to ")
    assert skewed.documents["summary"]["step_time_s"] > even.documents["summary"]["step_time_s"]
    built = build_scenario(scenario(mesh, more, "zipf:1.5"))
    device = built.cluster.device(0)
    spans = skewed.spans
    operators = [index for index, name in enumerate(spans.names["operator"]) if name.endswith(".experts.up")]
    named = np.isin(spans["operator"], operators)
    slowest = []
    for rank in range(4):
        mine = named & (spans["class"] == built.classes.of_rank[rank])
        took = sorted((spans["end"] - spans["start"])[mine].tolist())
        part = built.program.parts[built.program.part_of(rank)]
        wanted = sorted(
            device.price(each.works, 0.0).total_ns
            for run in part.executions
            for each in built.program.codes[run.code].instructions
            if each.name == "mlp.experts.up"
        )
        # Beside the shared expert's communication they are slowed a little.
        assert took == pytest.approx(wanted, rel=0.1)
        slowest.append(max(took))
    assert max(slowest) > 2 * min(slowest)


def test_a_law_that_nothing_follows_is_refused():
    dense = {"model": {"experts": None}}
    with pytest.raises(
        (PlanError, ScenarioError), match="no layer has experts whose number of tokens varies"
    ):
        build_scenario(scenario({"expert": 4}, dense, "zipf:1"))


@pytest.mark.parametrize(
    ("routing", "said"),
    [
        ("zipf", "zipf needs a number"),
        ("pareto:1", "is not a known distribution"),
        ({"histogram": [1, 2, 3]}, "3 numbers; layers.1 has 8 experts"),
        ({"histogram": [0] * 8}, "is ever chosen"),
        ({"histogram": [[1] * 8] * 1 + [[2] * 8] * 0, "law": "zipf:1"}, "histogram or a law"),
    ],
)
def test_wrong_laws_are_told(routing, said):
    with pytest.raises((PlanError, ScenarioError), match=said):
        build_scenario(scenario({"expert": 4}, {}, routing))


def test_a_histogram_of_too_few_layers_is_told():
    rows = {"histogram": [[1] * 8, [2] * 8, [1] * 8]}
    build_scenario(scenario({"expert": 4}, {}, rows))
    with pytest.raises((PlanError, ScenarioError), match="2 rows, but more layers have experts"):
        build_scenario(
            scenario({"expert": 4}, {"model": {"layers": 5}}, {"histogram": rows["histogram"][:2]})
        )


def test_who_gathers_unequally_much_pads_to_the_most():
    mesh, more = PLANS["experts over tensor too"]
    program = build_scenario(scenario(mesh, more, {"histogram": [4, 1, 2, 2, 1, 1, 1, 1]})).program
    gathers = {}
    for part in program.parts:
        for run in part.executions:
            code = program.codes[run.code]
            for each in code.instructions:
                if each.name == "mlp.experts.down.all_gather":
                    (before,), (after,) = each.reads, each.writes
                    held = code.slots[before].num_bytes, code.slots[after].num_bytes
                    gathers.setdefault(each.num_bytes, set()).add(held)
    # Of pairs of experts with 2 x (20, 6), (10, 10) ... rows each gathers twice the larger part.
    assert len(gathers) > 1
    for num_bytes, held in gathers.items():
        assert num_bytes == 2 * max(before for before, _ in held)
        assert {after for _, after in held} == {sum(before for before, _ in held) * (2 // len(held))}


def test_unequal_shares_of_the_batch_are_refused():
    more = {"training": {"batch_shares": {"data": [3, 1]}}}
    with pytest.raises((PlanError, ScenarioError), match="unequal shares of the batch"):
        build_scenario(scenario({"data": 2, "expert": 2}, more, "zipf:1"))


@given(
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda each: sum(each) > 0),
    once=st.integers(1, 40),
    part=st.floats(0, 1),
)
def test_counts_are_what_is_chosen(shares, once, part):
    """All choices, none of them twice; who is more popular gets no less."""
    by = np.array(shares) / sum(shares)
    rows = int(part * once * len(by))
    found = expert_counts(by, rows, once)
    assert found.sum() == rows
    assert found.min() >= 0
    assert found.max() <= once
    order = np.argsort(by)
    assert (np.diff(found[order]) >= -1).all()
    free = found[(found < once) & (found > 0)]
    if len(free) == len(by):
        assert found == pytest.approx(by * rows, abs=1)


@st.composite
def lonely_experts(draw):
    """Mixtures of which some ranks get nothing: few tokens, favourites, or fewer experts than ranks."""
    ways, top_k = draw(st.sampled_from([2, 4])), draw(st.integers(1, 2))
    count = draw(st.integers(top_k, 8))
    weights = draw(st.lists(st.sampled_from([0, 0, 1, 7]), min_size=count, max_size=count).filter(sum))
    experts = {"count": count, "top_k": top_k, "ffn": 32}
    if draw(st.booleans()):
        experts |= {"capacity_factor": 1.5, "padded": False}
    mesh = {"expert": ways} if draw(st.booleans()) else {"context": 2, "expert": ways}
    more = {
        "framework": draw(st.sampled_from(["ideal", "megatron-core"])),
        "model": {"layers": 1, "experts": experts},
        "training": {"seq_len": draw(st.sampled_from([8, 16]))},
        "parallel": {"uneven": "pad", "redistribution": draw(st.sampled_from(["shortest", "mindspore"]))},
        "batches": 1,
    }
    law = draw(st.sampled_from(["zipf:1.2", "normal:0.3", {"histogram": weights}, None]))
    return scenario(mesh, more, law)


FEWER_EXPERTS_THAN_RANKS = scenario(
    {"context": 2, "expert": 4},
    {
        "model": {"experts": {"count": 2, "top_k": 1, "ffn": 16, "capacity_factor": 1.5, "padded": False}},
        "parallel": {"uneven": "pad"},
    },
)
NOBODY_CHOOSES = scenario(
    {"expert": 4},
    {"parallel": {"redistribution": "mindspore"}},
    {"histogram": [1, 1, 0, 0, 1, 1, 1, 1]},
)
"""Experts are sliced out of what all ranks gather: a kernel that copies no row."""


@settings(max_examples=3)
@example(FEWER_EXPERTS_THAN_RANKS)
@example(NOBODY_CHOOSES)
@given(lonely_experts())
def test_a_rank_that_gets_nothing_takes_its_time(made):
    """It launches its kernels as all others do, in a time that a device of these could take."""
    built = build_scenario(made)
    codes = [[built.program.codes[run.code] for run in part.executions] for part in built.program.parts]
    launched = [
        [(each.name, len(each.works)) for code in found for each in code.instructions] for found in codes
    ]
    assert all(each == launched[0] for each in launched)
    device = built.cluster.device(0)
    assert all(
        device.price(each.works).total_ns < 1e9
        for found in codes
        for code in found
        for each in code.instructions
    )


def test_verify_lets_the_router_decide():
    found = verify(
        scenario({"data": 2, "expert": 4}, {"parallel": {"optimizer_sharding": {"zero": 1}}}, "zipf:1.2")
    )
    assert found.agrees, found.first_difference
    assert ("experts chosen by", "zipf:1.2, seed 0", "the router") in found.changes
