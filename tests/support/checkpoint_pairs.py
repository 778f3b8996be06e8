"""Random pairs of plans of one small model: what one saved, the other goes on with."""

from __future__ import annotations

import random

from simcluster.errors import PlanError
from simcluster.job import SourceSlices
from simcluster.program import build
from simcluster.scenario import Scenario
from simcluster.simulation.checkpoints import content_of
from simcluster.simulation.checkpoints.saved_training import SavedRun, samples_of_step, train_run
from simcluster.simulation.checkpoints.tensor_parts import parts_of_rank
from simcluster.simulation.compose import plan_scenario
from simcluster.simulation.verification.shrink_scenario import ShrunkScenario
from simcluster.simulation.verification.value_run import ShrunkPlan

MODELS = (
    {"layers": 4, "hidden": 16, "heads": 4, "kv_heads": 4, "ffn": 32, "vocab": 64},
    {"family": "gpt", "layers": 4, "hidden": 16, "heads": 4, "vocab": 50, "max_positions": 8},
    {"layers": 4, "hidden": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocab": 64}
    | {"experts": {"count": 4, "top_k": 2, "ffn": 8}},
)
OPTIMIZERS = (
    {"kind": "adamw", "eps": 1e-3, "learning_rate": 0.01},
    {"kind": "momentum", "learning_rate": 0.01},
    {"kind": "sgd", "learning_rate": 0.01},
)
SHARDINGS = (None, {"zero": 1}, {"zero": 2}, {"zero": 3}, {"mindspore": "level1"}, {"mindspore": "level3"})


def random_pair(seed: int) -> tuple[Scenario, Scenario]:
    """Two scenarios of one model, optimizer and precision, with plans of their own."""
    draw = random.Random(seed)
    common = {
        "model": draw.choice(MODELS),
        "optimizer": draw.choice(OPTIMIZERS),
        "precision": draw.choice(["fp32", "bf16"]),
        "framework": draw.choice(["ideal", "ideal", "megatron-core"]),
    }
    first, second = (random_plan(draw, **common) for _ in range(2))
    return first, second


def random_plan(draw: random.Random, model, optimizer, precision, framework) -> Scenario:
    """A scenario on at most eight ranks whose plan can be made."""
    while True:
        axes = {"pipeline": draw.choice([1, 2, 4]), "data": draw.choice([1, 2, 4])}
        axes["tensor"] = draw.choice([1, 2, 4])
        if "experts" in model and draw.random() < 0.5:
            axes["expert"] = 2
        ranks = 1
        for size in axes.values():
            ranks *= size
        if not 2 <= ranks <= 8:
            continue
        order = list(axes)
        draw.shuffle(order)
        mesh = {axis: axes[axis] for axis in order if axes[axis] > 1}
        micro_batches = draw.choice([1, 2]) * axes["pipeline"]
        ways = axes["data"] * axes.get("expert", 1)
        schedule = draw.choice(["1f1b", "gpipe", "interleaved"]) if axes["pipeline"] == 2 else "1f1b"
        parallel = {"mesh": mesh}
        if schedule != "1f1b":
            chunks = {"chunks": 2} if schedule == "interleaved" else {}
            parallel["schedule"] = {"kind": schedule, **chunks}
        if sharding := draw.choice(SHARDINGS):
            parallel["optimizer_sharding"] = {**sharding, "min_bytes": "0 B"}
        made = Scenario.of(
            {
                "simcluster": 1,
                "name": "pair",
                "framework": framework,
                "cluster": {
                    "host": {"use": "cpu-server", "devices": 2, "network": {"nics": 2}},
                    "hosts": ranks // 2,
                },
                "model": model,
                "training": {
                    "global_batch": micro_batches * ways,
                    "micro_batch": 1,
                    "seq_len": 4,
                    "precision": precision,
                    "optimizer": optimizer,
                },
                "parallel": parallel,
            }
        )
        try:
            plan_scenario(made)
        except PlanError:
            continue
        return made


def as_it_is(scenario: Scenario) -> ShrunkPlan:
    """The plan of a scenario that is small already."""
    shrunk = ShrunkScenario(scenario, scenario.model, scenario.cluster, ())
    return ShrunkPlan(shrunk, plan_scenario(scenario))


def assert_resumes(first: Scenario, second: Scenario) -> None:
    """Two steps under one plan, two under the other, and one device that was never interrupted."""
    one, two = as_it_is(first), as_it_is(second)
    before = SavedRun(first, one, 2, 0)
    verification, replay = train_run(before, (), None, 0, "float64")
    verification.check()
    held = {}
    for rank, name, _, array in replay.saved():
        held.setdefault(rank, {})[name] = array
    content = content_of(build(two.plan), two.plan.vocab)
    slices = SourceSlices(content_of(replay.program, one.plan.vocab), content)
    opened = {}

    def read(rank: int) -> dict:
        opened[rank] = held[rank]
        return held[rank]

    restored = {}
    for rank in range(two.plan.mesh.num_ranks):
        opened.clear()
        restored[rank] = parts_of_rank(slices, rank, read)
        assert sorted(opened) == slices.rank_list(rank)
    after = SavedRun(second, two, 2, 2 * samples_of_step(one.plan))
    verification, _ = train_run(after, (before,), restored, 0, "float64")
    verification.check()
