"""What is imported can be planned, and verified where experts or offload make it particular."""

from __future__ import annotations

import pytest

from simcluster.document import Document
from simcluster.foreign import UserAdditions, importer, translate_file, translated_text
from simcluster.model import MemoryPlace
from simcluster.model.operators.optimizer import OptimizerOperator
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from tests.support import deepspeed_files, megatron_launches, mindformers_files, nemo_files
from tests.support.covering import quick
from tests.support.expert_files import EXPERTS_OF_MEGATRON, EXPERTS_OF_MINDFORMERS
from tests.support.foreign_samples import SAMPLES, text_of


def plan_of(found):
    return build_scenario(Scenario.of(found.data)).plan


@pytest.mark.parametrize("name", quick(SAMPLES, *[*SAMPLES][::3]))
def test_samples_load_from_their_text_and_are_planned(name, tmp_path):
    kind, given = SAMPLES[name]
    found = translate_file(importer(kind), text_of(name), name, given)
    text = translated_text(found, importer(kind), name)
    (tmp_path / "s.yaml").write_text(text)
    scenario = Scenario.load(tmp_path / "s.yaml")
    assert build_scenario(scenario).plan.mesh.num_ranks == scenario.cluster.num_devices
    assert Document.parse(text).data == found.data
    assert text.startswith("# yaml-language-server: $schema=./scenario.schema.json\n# Imported from " + name)
    assert "\nsimcluster: 1" in text


def mindformers_prediction():
    sizes = (("inference.prompt", "1024"), ("inference.tokens", "128"))
    given = UserAdditions("atlas-800t-a2", None, None, sizes)
    return translate_file(importer("mindformers"), mindformers_files.PREDICTION, "m.yaml", given)


def megatron_inference():
    line = megatron_launches.LINE.replace("pretrain_gpt.py", "tools/run_text_generation_server.py")
    sizes = [("inference.batch", "32"), ("inference.prompt", "1024"), ("inference.tokens", "64")]
    return megatron_launches.read(line + "--tensor-model-parallel-size 8", options=sizes)


def experts_over_context_and_tensor():
    line = megatron_launches.LINE + "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 1024 "
    line += "--expert-model-parallel-size 8 --context-parallel-size 2 --tensor-model-parallel-size 2"
    return megatron_launches.read(line + " --sequence-parallel --expert-tensor-parallel-size 1", hosts=4)


def experts_beyond_data_parallel_ranks():
    return mindformers_files.read(
        moe_config__expert_num=8, moe_config__num_experts_chosen=2, parallel_config__expert_parallel=8
    )


IMPORTED = {
    "Megatron's BERT": lambda: megatron_launches.read(megatron_launches.BERT),
    "Megatron's T5": lambda: megatron_launches.read(megatron_launches.T5),
    "Megatron's vision transformer": lambda: megatron_launches.read(megatron_launches.VISION),
    "Megatron's inference": megatron_inference,
    "experts over context and tensor": experts_over_context_and_tensor,
    "NeMo's BERT": lambda: nemo_files.read(nemo_files.BERT),
    "NeMo's T5": lambda: nemo_files.read(nemo_files.T5),
    "MindFormers' prediction": mindformers_prediction,
    "MindFormers' experts": experts_beyond_data_parallel_ranks,
}


@pytest.mark.parametrize("imported", quick(IMPORTED, *[*IMPORTED][::3]))
def test_other_families_and_tasks_are_planned(imported):
    found = IMPORTED[imported]()
    assert plan_of(found).mesh.num_ranks == Scenario.of(found.data).cluster.num_devices


@pytest.mark.parametrize("case", quick(deepspeed_files.CASES, *[*deepspeed_files.CASES][::3]))
def test_updates_run_where_deepspeed_offloads_them(case):
    stage, zero, expected = deepspeed_files.CASES[case]
    plan = plan_of(deepspeed_files.read(stage, zero))
    updates = {node.place for _, node in plan.graph.nodes() if isinstance(node.operator, OptimizerOperator)}
    assert updates == {MemoryPlace.HOST if "host" in expected else MemoryPlace.DEVICE}
    named = expected.get("offload", {})
    assert {name: str(rule.place) for name, rule in plan.offload.rules.items()} == {
        name: place for name, place in named.items() if name != "pinned"
    }
    assert all(rule.rates.pinned is named.get("pinned", True) for rule in plan.offload.rules.values())


def test_requests_to_drives_have_the_rate_of_aio():
    aio = {"block_size": 262144, "queue_depth": 32, "thread_count": 1}
    found = deepspeed_files.read(3, {"offload_optimizer": deepspeed_files.NVME}, aio=aio)
    (rates,) = {rule.rates for rule in plan_of(found).offload.rules.values()}
    assert rates.disk == pytest.approx(32 * 262144 / 100e-6)


def test_states_are_offloaded_where_the_device_updates():
    found = deepspeed_files.read(3, {"offload_optimizer": deepspeed_files.CPU}, cluster="dgx-spark")
    assert set(plan_of(found).offload.rules) == {"optimizer_states", "gradients"}


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ("--optimizer-cpu-offload", MemoryPlace.HOST),
        ("--cpu-offloading-num-layers 2", MemoryPlace.DEVICE),
        ("--swap-optimizer", MemoryPlace.DEVICE),
    ],
)
def test_updates_run_where_megatron_offloads_them(arguments, place):
    graph = plan_of(megatron_launches.offloading(arguments)).graph
    assert {node.place for _, node in graph.nodes() if node.name.endswith(".update")} == {place}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("", marks=pytest.mark.thorough),
        pytest.param("--expert-model-parallel-size 8", marks=pytest.mark.thorough),
        pytest.param("--expert-model-parallel-size 2", marks=pytest.mark.thorough),
        pytest.param(
            "--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 2",
            marks=pytest.mark.thorough,
        ),
        "--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 4"
        " --expert-tensor-parallel-size 1",
    ],
)
def test_experts_of_megatron_give_the_values_of_one_device(arguments):
    given = UserAdditions("dgx-h100")
    found = translate_file(importer("megatron"), EXPERTS_OF_MEGATRON + arguments, "run.sh", given)
    assert verify(Scenario.of(found.data)).agrees


def test_experts_over_context_give_the_values_of_one_device():
    found = megatron_launches.read(megatron_launches.EXPERTS_OVER_CONTEXT)
    assert verify(Scenario.of(found.data)).agrees


def test_experts_of_mindformers_give_the_values_of_one_device():
    given = UserAdditions("atlas-800t-a2", 1)
    found = translate_file(importer("mindformers"), EXPERTS_OF_MINDFORMERS, "m.yaml", given)
    assert verify(Scenario.of(found.data)).agrees


@pytest.mark.parametrize("sharding", ["", "--use-distributed-optimizer "])
def test_overlapped_gradients_of_megatron_are_exposed_less(sharding):
    """--overlap-grad-reduce alone, without --overlap-param-gather."""

    def exposed(arguments):
        found = megatron_launches.read(megatron_launches.LINE + "--use-mcore-models " + sharding + arguments)
        return simulate(Scenario.of(found.data)).documents["summary"]["exposed_communication_s"]["data"]

    assert exposed("--overlap-grad-reduce") < 0.8 * exposed("")
