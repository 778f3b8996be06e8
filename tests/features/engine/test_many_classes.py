"""Classes beside each other in arrays do what each does by itself, to the nanosecond."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import Device
from simcluster.engine import Implementation, Progress, Workload, run
from simcluster.errors import SimulationError
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.plan.spec import FrameworkSpec
from simcluster.program import Executions, InstructionKind, partition_ranks
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import build_scenario
from tests.support.event_equality import assert_same_times
from tests.support.implementations import WAYS, assert_all_agree, many_from, timed
from tests.support.pipelines import burning_program, quiet_cluster
from tests.support.scenarios import TINY, TINY_GPT, scenario

SCENARIOS = sorted((Path(__file__).parents[3] / "scenarios").glob("*.yaml"))
LONG = {
    "bloom-176b-384-a100",
    "deepseek-v3-2048-h800",
    "gpt3-175b-1024-a100",
    "llama2-13b-8-a100-40-offload",
    "llama2-13b-8-a100-40-recompute",
    "llama3-70b-512-h100",
    "llama3-70b-64-h100-overlap",
    "llama3-70b-64-h100-seqpipe",
    "megatron-1t-2048-h200",
    "megatron-1t-2048-h200-interleaved",
    "megatron-1t-512-h200-from-2048",
    "mt-nlg-530b-2240-a100",
    "pangu-alpha-200b-2048-ascend-910",
    "pangu-alpha-200b-2048-ascend-910-searched",
    "qwen3-30b-a3b-32-h100-skewed",
    "zero-infinity-gpt3-175b-16-v100",
}
"""Those that take a second or more, whose schedules, axes, sharding, offload and routing random plans, random
Programs and the other scenarios have, too.
"""
JITTER = {"devices": "all", "compute": {"normal": [1.0, 0.05]}, "memory_bandwidth": {"normal": [1.0, 0.1]}}
HOSTS = ["cpu-server", "dgx-h100"]
"""Devices whose kernels nothing slows, and whose kernels give way to communication."""

SHARDINGS = [
    {"zero": 0},
    {"zero": 1},
    {"zero": 3},
    {"fsdp": {"reshard_after_forward": False}},
    {"mindspore": "level2", "min_bytes": "0 B"},
]


def num_instructions(built):
    """Of one representative of every class."""
    codes, parts = built.program.codes, built.program.parts
    of_code = [len(code.instructions) for code in codes]
    of_part = [sum(of_code[run.code] for run in part.executions) for part in parts]
    return sum(of_part[built.program.part_of(rank)] for rank in built.classes.representatives)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "path", [path for path in SCENARIOS if path.stem not in LONG][::4], ids=lambda path: path.stem
)
def test_shipped_scenarios(path):
    """Every fourth of those that are not long, in every way; deep ones by the two implementations alone. The
    exhaustive test has the rest.
    """
    built = build_scenario(Scenario.load(path))
    if num_instructions(built) > 40_000:
        assert_same_times(timed(built, Implementation.COMPILED), timed(built, Implementation.REFERENCE))
    else:
        assert_all_agree(built)


@pytest.mark.parametrize("host", [*HOSTS, "atlas-800t-a2"])
@pytest.mark.parametrize("changes", [[], [JITTER]], ids=["equal", "different"])
def test_graphs_of_pieces_beside_operators_by_themselves(host, changes):
    """What an instruction's dispatch costs is the same to all, and to kernels slowed or not."""
    piece = {
        "piece": "layers.*.mlp",
        "in": [["data", 1, 1]],
        "parameter_plan": {"up.up.weight": [1, "tensor"]},
    }
    which = scenario(
        {"data": 2, "tensor": 4},
        host=host,
        devices=8,
        micro_batches=8,
        changes=changes,
        shard=[piece],
        roles={"batch": ["data", "tensor"]},
    )
    spec = which.spec.model_copy(update={"framework": FrameworkSpec.load("mindspore-pynative")})
    built = build_scenario(Scenario(spec, None, which.folder))
    paid = {each.dispatch_cost for code in built.program.codes for each in code.instructions if each.piece}
    assert paid == {0.0, 1.0}
    assert_all_agree(built)


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_all_shipped_scenarios(path):
    """All of them, and with every rank by itself where there are not more than 64 devices."""
    which = Scenario.load(path)
    assert_all_agree(build_scenario(which))
    if which.cluster.num_devices <= 64:
        assert_all_agree(build_scenario(which, unfold=True))


@pytest.mark.thorough
@settings(max_examples=20)
@given(data=st.data())
def test_random_plans(data):
    mesh = {
        "pipeline": data.draw(st.sampled_from([1, 2, 3, 4])),
        "data": data.draw(st.sampled_from([1, 2, 3])),
        "tensor": data.draw(st.sampled_from([1, 2, 4])),
    }
    axes = data.draw(st.permutations(list(mesh)))
    mesh = {axis: mesh[axis] for axis in axes}
    ranks = math.prod(mesh.values())
    devices = data.draw(st.sampled_from([size for size in range(1, min(8, ranks) + 1) if ranks % size == 0]))
    changes = [
        [],
        [JITTER],
        [{"device": 0, "compute": 0.5}],
        [{"device": ranks - 1, "memory_bandwidth": 0.7}],
    ]
    which = scenario(
        mesh,
        devices=devices,
        model=data.draw(st.sampled_from([TINY, TINY_GPT])),
        host=data.draw(st.sampled_from(HOSTS)),
        micro_batches=data.draw(st.integers(1, 5)),
        recipe=data.draw(st.sampled_from(["megatron", "megatron_sp"])),
        schedule={
            "kind": data.draw(st.sampled_from(["gpipe", "1f1b"])),
            "p2p": data.draw(st.sampled_from(["overlapped", "blocking"])),
        },
        optimizer_sharding=data.draw(st.sampled_from(SHARDINGS)),
        recompute={"layers": data.draw(st.sampled_from(["none", "all"]))},
        run={"steps": data.draw(st.sampled_from([1, 2])), "seed": data.draw(st.integers(0, 3))},
        changes=data.draw(st.sampled_from(changes)),
    )
    assert_all_agree(build_scenario(which, unfold=data.draw(st.booleans())))


def test_groups_of_different_sizes():
    """Tensor groups of 3 on hosts of 4: folded, they hold one class or two."""
    model = {**TINY, "heads": 6, "kv_heads": 3, "ffn": 96, "hidden": 48, "head_dim": 8}
    which = scenario({"data": 4, "tensor": 3}, devices=4, model=model, micro_batches=2)
    assert_all_agree(build_scenario(which))


@pytest.mark.parametrize("broken", ["order", "missing"])
def test_a_deadlock_is_told_in_the_same_words(broken):
    program = burning_program([10, 10], [20, 20], OneFOneB().timetable(2, 2))
    stage = program.parts[1]
    receives = [
        index
        for index, execution in enumerate(stage.executions)
        if program.codes[execution.code].instructions[0].action is InstructionKind.RECEIVE
    ]
    gone = receives[-1:] if broken == "order" else receives
    executions = [each for index, each in enumerate(stage.executions) if index not in gone]
    broken = replace(program, parts=(program.parts[0], replace(stage, columns=Executions.of(executions))))
    cluster = quiet_cluster(2)
    told = []
    for method, count in WAYS:
        with many_from(count), pytest.raises(SimulationError, match="deadlock") as caught:
            run(Workload(broken, cluster, partition_ranks(broken, cluster)), implementation=method)
        told.append(str(caught.value))
    assert len(told) == 4
    assert len(set(told)) == 1


@pytest.mark.parametrize("method", Implementation)
def test_many_classes_are_beside_each_other(method):
    mesh = {"pipeline": 2, "data": 4, "tensor": 2}
    few = scenario(mesh, recipe="megatron_sp")
    many = scenario(mesh, recipe="megatron_sp", changes=[JITTER])
    assert not timed(build_scenario(few), method).many
    assert timed(build_scenario(many), method).many
    assert timed(build_scenario(few, unfold=True), method).many


def test_progress_of_many_classes():
    progress = Progress()
    built = build_scenario(
        scenario({"pipeline": 2, "data": 4, "tensor": 2}, recipe="megatron_sp", changes=[JITTER])
    )
    timing = timed(built, Implementation.COMPILED, progress=progress)
    assert timing.many
    assert progress.done == progress.total == timing.num_events
    assert progress.now == pytest.approx(timing.end * 1e-9)


@pytest.mark.combinations
@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("host", ["atlas-800t-a2", "dgx-h100"])
@settings(max_examples=2)
@given(data=st.data())
def test_a_result_is_the_same_however_it_is_timed(fits, host, data):
    """Summaries with peaks, breakdowns and what was alive, and all tables; on too small devices too."""
    which = scenario(
        data.draw(st.sampled_from([{"pipeline": 2, "data": 2, "tensor": 2}, {"data": 4}, {"pipeline": 4}])),
        host=host,
        model=data.draw(st.sampled_from([TINY, TINY_GPT])),
        micro_batches=data.draw(st.integers(1, 5)),
        training={"optimizer": {"kind": "adam", "clip": 1.0}},
        optimizer_sharding=data.draw(st.sampled_from(SHARDINGS[:2])),
        recompute={"layers": data.draw(st.sampled_from(["none", "all"]))},
        run={"steps": data.draw(st.sampled_from([1, 2])), "seed": data.draw(st.integers(0, 3))},
        changes=[JITTER],
    )
    with pytest.MonkeyPatch.context() as patch:
        whole = simulate(which)
        top = max(each["total"] for each in whole.documents["summary"]["peak_memory_bytes"])
        if not fits:
            patch.setattr(Device, "at", small(Device.at, top - 1))
        results = []
        for many in (1, 10**9):
            again = Scenario(which.spec, which.document, which.folder)
            with many_from(many):
                results.append(simulate(again))
    together, apart = results
    for each in results:
        each.documents["summary"].pop("wall_s")
        # In program order nobody looks who shares a link, as long as none is full.
        each.documents["summary"].pop("num_solves")
    assert together.documents == apart.documents
    assert together.documents["summary"]["fits"] == fits
    for name in ("spans", "memory", "waits"):
        ours, theirs = getattr(together, name), getattr(apart, name)
        assert {key: list(found) for key, found in ours.names.items()} == {
            key: list(found) for key, found in theirs.names.items()
        }
        for column in theirs.columns:
            assert np.array_equal(ours[column], theirs[column]), (name, column)


def small(at, memory):
    """Devices at any speed that hold only so many bytes."""
    return lambda device, speed: replace(at(device, speed), memory=memory)
