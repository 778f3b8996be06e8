"""Inference: what is generated, when, and from what memory; against one device and closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from simcluster.errors import PlanError, ScenarioError
from simcluster.model import padded
from simcluster.model.operators.kv_cache import CachedAttention, CacheWrite
from simcluster.plan import make_plan
from simcluster.program import build
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.verification.single_device_comparison import compare_values
from simcluster.simulation.views.mindspore_tensor_maps import predict_layouts
from simcluster.work import DType
from tests.support.covering import quick, quick_at
from tests.support.scenarios import shrunk

LLAMA = {"use": "llama3-8b"}


def inference(mesh, *, model=LLAMA, host="dgx-h100", batch=8, prompt=512, tokens=9, **others):
    """A model that answers on one host with as many devices as the mesh has ranks."""
    parallel = others.pop("parallel", {})
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "test",
            "cluster": {"host": {"use": host, "devices": math.prod(mesh.values())}, "hosts": 1},
            "framework": others.pop("framework", "ideal"),
            "model": model,
            "inference": {"batch": batch, "prompt": prompt, "tokens": tokens, **others},
            "parallel": {"mesh": mesh, **parallel},
        }
    )


def summary(scenario, **how):
    return simulate(scenario, **how).documents["summary"]


# -- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "mesh", "others"),
    quick_at(
        [
            ("llama3-8b", {"data": 2, "tensor": 2}, {}),
            ("llama3-8b", {"pipeline": 2, "data": 2, "tensor": 2}, {"micro_batch": 2}),
            ("llama3-8b", {"pipeline": 4}, {"micro_batch": 2}),
            ("llama3-8b", {"pipeline": 2, "tensor": 2}, {"micro_batch": 4, "parallel": {"copies": 2}}),
            ("llama3-8b", {"tensor": 4}, {"parallel": {"overlap": {"tensor": {"chunks": 2}}}}),
            ("llama3-8b", {"pipeline": 2, "tensor": 2}, {"parallel": {"offload": {"parameters": "host"}}}),
            ("llama3-8b", {"pipeline": 2, "tensor": 2}, {"framework": "megatron-core", "micro_batch": 2}),
            ("gpt2", {"pipeline": 2, "tensor": 2}, {}),
            ("mistral-7b", {"pipeline": 2, "tensor": 2}, {}),
            ("bloom-176b", {"tensor": 2}, {}),
            ("qwen3-8b", {"tensor": 2}, {}),
            ("pangu-alpha-2.6b", {"pipeline": 2}, {}),
        ],
        1,
        4,
        7,
        9,
    ),
)
def test_tokens_are_those_of_one_device_without_a_cache(model, mesh, others):
    """Learned, rotary and sloped positions, windows, grouped heads, tied embeddings; every logit of them."""
    found = verify(inference(mesh, **{"model": {"use": model}, **others}))
    assert found.agrees, found.fault or found.first_difference
    tokens = [each for each in found.comparisons if each.what == "token"]
    assert len(tokens) >= 4
    assert len(found.comparisons) == 2 * len(tokens)


def _moved(operator):
    """A cache that is written one place further, or a query that stands one place before its own."""
    if isinstance(operator, CacheWrite) and operator.position:
        return replace(operator, position=operator.position + 1)
    return operator


def _short(operator):
    """Attention that does not see the token of its own query."""
    if isinstance(operator, CachedAttention):
        return replace(operator, position=operator.position - 1)
    return operator


@pytest.mark.parametrize("mutant", [_moved, _short])
def test_a_cache_that_is_off_by_one_is_seen(mutant):
    def mutate(program):
        def changed(call):
            return replace(call, operator=mutant(call.operator))

        codes = tuple(
            replace(
                code,
                instructions=tuple(
                    replace(each, calls=tuple(map(changed, each.calls))) for each in code.instructions
                ),
            )
            for code in program.codes
        )
        return replace(program, codes=codes)

    small = shrunk(inference({"tensor": 2}))
    spec = small.scenario.spec
    plan = make_plan(small.model, spec.task, spec.parallel, spec.framework, small.cluster)
    right, fault = compare_values(plan, small.cluster, "float64", 0, model=small.model)
    assert not fault
    assert all(each.agrees for each in right)
    wrong, _ = compare_values(plan, small.cluster, "float64", 0, mutate(build(plan)), small.model)
    assert not all(each.agrees for each in wrong)
    # The first token comes from the prefill, which reads no cache.
    assert wrong[0].name == "token 0 of micro-batch 0"
    assert wrong[0].agrees


# -- time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "mesh", "batch"),
    quick_at(
        [
            ("dgx-h100", {"data": 1}, 1),
            ("dgx-h100", {"data": 1}, 32),
            ("dgx-h100", {"tensor": 8}, 32),
            ("atlas-800t-a2", {"tensor": 4}, 8),
        ],
        1,
        2,
    ),
)
def test_a_token_takes_as_long_as_memory_needs_for_weights_and_cache(host, mesh, batch):
    """Never less than every weight but the table of tokens, and what the cache holds, take at full bandwidth;
    on one device, where nothing travels, not much more: matmuls of few rows read weights at 0.82 of it.
    """
    scenario = inference(mesh, host=host, batch=batch, prompt=1024, tokens=65)
    found, model = summary(scenario), scenario.model
    ranks = math.prod(mesh.values())
    device = scenario.cluster.groups[0].host.device
    weights = 2 * (model.num_parameters - model.vocab * model.hidden)
    position = 2 * 2 * model.layers * model.kv_heads * model.head_dim * batch
    for tokens, seconds in ((1025, found["tpot_first_s"]), (1024 + 64, found["tpot_last_s"])):
        least = (weights + position * tokens) / ranks / device.memory_bandwidth
        assert seconds > least
        assert ranks > 1 or seconds < 1.45 * least
    assert 0 < found["decode_mbu"] < 1
    assert 0 < found["prefill_mfu"] < 1


def test_an_answer_is_its_first_token_and_the_steps_behind_it():
    found = summary(inference({"tensor": 2}, tokens=7, decode_steps="all"))
    steps = [seconds for _, seconds in found["decode_steps"]]
    assert [token for token, _ in found["decode_steps"]] == [1, 2, 3, 4, 5, 6]
    assert found["latency_s"] == pytest.approx(found["ttft_s"] + sum(steps), rel=1e-12)
    assert found["latency_s"] == pytest.approx(found["step_time_s"], rel=1e-12)
    assert found["tpot_s"] == pytest.approx(sum(steps) / 6, rel=1e-12)
    assert steps == sorted(steps)
    assert found["tokens_per_s"] == pytest.approx(8 * 7 / found["latency_s"], rel=1e-12)


@pytest.mark.parametrize("mesh", quick([{"tensor": 8}, {"pipeline": 2, "tensor": 2}], {"tensor": 8}))
def test_steps_that_are_not_simulated_lie_on_lines(mesh):
    few, every = (
        summary(inference(mesh, tokens=41, micro_batch=8 // mesh.get("pipeline", 1), decode_steps=steps))
        for steps in (3, "all")
    )
    for figure in ("tpot_s", "latency_s", "tokens_per_s", "tpot_first_s", "tpot_last_s"):
        assert few[figure] == pytest.approx(every[figure], rel=2e-4)
    assert few["ttft_s"] == every["ttft_s"]
    assert few["num_events"] < every["num_events"] / 10
    assert few["peak_memory_bytes_max"] == every["peak_memory_bytes_max"]


@pytest.mark.parametrize("mesh", quick_at([{"tensor": 4}, {"pipeline": 2, "data": 2, "tensor": 2}], 1))
def test_time_is_cut_without_remainder(mesh):
    found = summary(inference(mesh, micro_batch=2))
    assert sum(found["prefill_parts_s"].values()) == pytest.approx(found["ttft_s_max"], rel=1e-12)
    steps = [seconds for _, seconds in found["decode_steps"]]
    assert sum(found["decode_parts_s"].values()) == pytest.approx(sum(steps) / len(steps), rel=1e-9)
    assert min(found["decode_parts_s"].values()) > 0
    assert ("pipeline wait" in found["decode_parts_s"]) == ("pipeline" in mesh)


def test_stages_exchange_in_both_directions_with_every_profile():
    """Transfers that wait for each other in training's order would do so for ever here."""
    found = simulate(inference({"pipeline": 2}, framework="megatron-core", micro_batch=2)).documents
    assert found["summary"]["tpot_s"] > 0
    assert "transfers" not in " ".join(found["plan"]["framework_changes"])
    assert "gradients" not in " ".join(found["plan"]["framework_changes"])


def test_one_token_is_a_prefill():
    found = summary(inference({"tensor": 2}, tokens=1))
    assert found["decode_parts_s"] == {}
    assert found["tpot_s"] == found["decode_mbu"] == 0
    assert found["latency_s"] == found["ttft_s"] == pytest.approx(found["step_time_s"], rel=1e-12)


def test_every_rank_by_itself_takes_the_same_time():
    scenario = inference({"pipeline": 2, "data": 2}, micro_batch=4)
    folded, unfolded = summary(scenario), summary(scenario, unfold=True)
    for figure in ("ttft_s", "tpot_s", "latency_s", "decode_mbu", "peak_memory_bytes_max"):
        assert folded[figure] == unfolded[figure]


def test_micro_batches_in_turns_fill_a_pipeline():
    """With one micro-batch a token goes through all stages, one after the other. With as many as stages all
    of them work, each on weights that take as long to read for fewer sequences: a token takes as long, but
    for the last stage, which has the head besides.
    """
    alone, turns = (
        summary(inference({"pipeline": 4}, batch=8, prompt=64, micro_batch=size)) for size in (8, 2)
    )
    assert turns["tpot_s"] < 1.2 * alone["tpot_s"]
    assert turns["ttft_s_max"] < alone["ttft_s_max"]
    waits = [each["pipeline_wait_s"] / each["step_time_s"] for each in (turns, alone)]
    assert waits[0] < 0.5 * waits[1]


# -- memory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mesh", "dtype", "bytes_each"),
    quick_at(
        [
            ({"data": 1}, "bf16", 2),
            ({"tensor": 4}, {"dtype": "fp8"}, 1),
            ({"pipeline": 2, "data": 2, "tensor": 2}, None, 2),
        ],
        1,
        2,
    ),
)
def test_caches_hold_every_token_of_every_sequence(mesh, dtype, bytes_each):
    scenario = inference(mesh, tokens=32, micro_batch=2, cache=dtype or {})
    model, found = scenario.model, summary(scenario)
    total = 2 * model.layers * model.kv_heads * model.head_dim * (512 + 32) * 8 * bytes_each
    for each in found["peak_memory_bytes"]:
        assert each["breakdown"]["kv_cache"] == total // math.prod(mesh.values())
        assert each["breakdown"]["gradients"] == each["breakdown"]["optimizer_states"] == 0


def test_weights_are_held_once_for_all_passes():
    scenario = inference({"data": 1}, tokens=17)
    (each,) = summary(scenario)["peak_memory_bytes"]
    model = padded(scenario.model, 128)
    assert each["breakdown"]["parameters"] == 2 * model.num_parameters


def test_too_long_a_cache_does_not_fit():
    found = summary(inference({"data": 1}, batch=64, prompt=16384, micro_batch=1, tokens=2))
    assert not found["fits"]
    (each,) = found["peak_memory_bytes"]
    assert each["breakdown"]["kv_cache"] > each["capacity"]


# -- plans -----------------------------------------------------------------------------------------------


def test_passes_are_planned_like_the_first():
    """The user's strategies speak of operators of the model; they hold in every pass."""
    own = [{"match": "layers.*.mlp.{up*,activation,down}", "split": {}}]
    plan = build_scenario(inference({"tensor": 2}, parallel={"strategies": own})).plan
    for instance in plan.graph.instances:
        if "layers" in instance.name:
            chosen = plan.strategies.of(instance.name)
            assert not chosen["mlp.up"].axes("ffn")
            assert chosen["attention.qkv"].axes("heads") == ("tensor",)
    assert plan.timetable == (tuple(plan.timetable[0]),)
    assert " ".join(map(str, plan.timetable[0])) == "F0 F0c1 F0c2 F0c3 F0c4 F0c5"


def test_layouts_of_all_weights_are_told():
    scenario = inference({"pipeline": 2, "data": 2, "tensor": 2})
    found = predict_layouts(scenario)
    plan = build_scenario(scenario).plan
    assert set(found) == {name for name, _ in plan.logical.parameters()}
    gate = found["layers.0.mlp.up.gate.weight"]
    assert gate == {
        "stages": [0],
        "shape": [4096, 14336],
        "dtype": str(DType.BF16),
        "device_matrix": [2, 2],
        "tensor_map": [-1, 0],
        "slice_shape": [4096, 7168],
    }
    assert found["layers.31.attention.out.weight"]["tensor_map"] == [0, -1, -1, -1]
    assert found["layers.31.attention.out.weight"]["stages"] == [1]
    for entry in found.values():
        ways = [1 if place == -1 else entry["device_matrix"][-1 - place] for place in entry["tensor_map"]]
        slices = [size // way for size, way in zip(entry["shape"], ways, strict=True)]
        assert slices == entry["slice_shape"]


def test_tied_weights_are_told_once():
    found = predict_layouts(inference({"pipeline": 2, "tensor": 2}, model={"use": "gpt2"}))
    assert "head.logits.weight" not in found
    assert found["embedding.tokens.weight"]["stages"] == [0, 1]


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"model": {"use": "bert-base"}}, "only decoder-only transformers generate tokens"),
        ({"model": {"use": "gpt2"}, "prompt": 1020}, "sequences of 1029 tokens exceed"),
        ({"batch": 9, "micro_batch": 2}, "does not divide into micro-batches of 2"),
    ],
)
def test_what_no_model_or_plan_can_do_is_refused(others, told):
    with pytest.raises(PlanError, match=told):
        build_scenario(inference({"data": 1}, **others))


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"parallel": {"optimizer_sharding": {"zero": 1}}}, "'optimizer_sharding' has no meaning"),
        ({"parallel": {"recompute": {"layers": "all"}}}, "'recompute' has no meaning"),
        ({"parallel": {"schedule": {"kind": "gpipe"}}}, "no backward pass to order"),
        ({"parallel": {"context": "ring"}}, "no sequence to split"),
        ({"parallel": {"schedule": {"p2p": "blocking"}}}, "two stages would wait for each other"),
        ({"decode_steps": 1}, "8 decode steps are not known from one of them"),
    ],
)
def test_what_only_training_has_is_refused(others, told):
    with pytest.raises(ScenarioError, match=told):
        inference({"data": 1}, **others)


def test_a_scenario_trains_or_infers():
    data = inference({"data": 1}).spec.model_dump(mode="json", exclude_unset=True)
    training = {"global_batch": 1, "micro_batch": 1, "seq_len": 8}
    with pytest.raises(ScenarioError, match="trains or infers, not both"):
        Scenario.of({**data, "training": training})
    with pytest.raises(ScenarioError, match="'training' is missing"):
        Scenario.of({name: each for name, each in data.items() if name != "inference"})
    with pytest.raises(ScenarioError, match="but this scenario trains"):
        trained = {name: each for name, each in data.items() if name != "inference"}
        predict_layouts(Scenario.of({**trained, "training": training}))
