"""Random Programs on random links, from a seed: schedules, groups, slowed kernels, host queues, faults, other
traffic.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from simcluster.cluster.device.communication_kernels import CommunicationKernels
from simcluster.engine import Fabric
from simcluster.engine.communication import Background, CapacityChange, FlowPhase, Links, Transfer, Vectors
from simcluster.engine.communication.fabric import Late
from simcluster.plan.spec import FrameworkSpec
from simcluster.scenario import Scenario
from simcluster.simulation.compose.build import build_scenario, workload_of
from tests.support.event_equality import flow
from tests.support.scenarios import TINY, TINY_GPT, scenario

GB = 1e9
MESHES = [
    {"data": 4},
    {"pipeline": 2},
    {"pipeline": 2, "data": 2},
    {"pipeline": 4, "data": 2},
    {"pipeline": 2, "data": 2, "tensor": 2},
    {"pipeline": 3, "data": 2, "tensor": 2},
]
JITTER = {"devices": "all", "compute": {"normal": [1.0, 0.2]}, "memory_bandwidth": {"normal": [1.0, 0.1]}}
GREEDY = CommunicationKernels(inside=0.6, network=0.3, copied=4.0, added=6.0)
SHARDINGS = [{"zero": 0}, {"zero": 1}, {"zero": 3}, {"fsdp": {"reshard_after_forward": False}}]
LATES = [
    (),
    (),
    (Late(0, None, 300),),
    (Late(100_000, 200_000, 900),),
    (Late(0, None, 300), Late(100_000, 110_000, 7_000), Late(105_000, None, 20_000)),
]


def random_workload(seed):
    """A workload for the engine."""
    draw = np.random.default_rng(seed)

    def one_of(choices):
        return choices[draw.integers(len(choices))]

    hosts = one_of(["cpu-server", "dgx-h100", "atlas-800t-a2", "dgx-h100"])
    mesh = one_of(MESHES)
    which = scenario(
        mesh,
        host=hosts,
        devices=one_of([2, min(4, math.prod(mesh.values()))]),
        model=one_of([TINY, TINY_GPT]),
        training={"seq_len": 16},
        micro_batches=int(draw.integers(1, 6)),
        schedule={"kind": one_of(["gpipe", "1f1b"]), "p2p": one_of(["overlapped", "blocking"])},
        optimizer_sharding=one_of(SHARDINGS),
        recompute={"layers": one_of(["none", "all"])},
        run={"steps": int(draw.integers(1, 3)), "seed": int(draw.integers(10))},
        changes=one_of([[], [JITTER], [{"device": 0, "compute": 0.5}]]),
    )
    framework = FrameworkSpec.load(one_of(["ideal", "torchtitan", "mindspore-pynative"]))
    which = Scenario(which.spec.model_copy(update={"framework": framework}), None, which.folder)
    built = build_scenario(which, unfold=bool(draw.integers(2)))
    if hosts == "dgx-h100" and draw.integers(2):
        shares, traffic = draw.random(2), 50 * draw.random(2)
        built = giving_way(built, CommunicationKernels(*shares.tolist(), *traffic.tolist()))
    workload = workload_of(built)
    return replace(workload, fabric=_crowded(built, draw, one_of)) if draw.integers(3) else workload


def giving_way(built, communication=GREEDY):
    """The same on devices without launches, whose kernels give way to communication."""
    (group,) = built.cluster.groups
    device = replace(group.host.device, launch=0.0, dispatch=0.0, communication=communication)
    host = replace(group.host, device=device)
    return replace(built, cluster=replace(built.cluster, groups=(replace(group, host=host),)))


def _crowded(built, draw, one_of):
    """Few links for all transfers: each uses some of them in one phase and others in another."""
    count = int(draw.integers(2, 8))
    rate = one_of([0.05, 1, 100]) * GB
    loads = [0.25, 0.5, 1.0, 1.0, 2.0]
    rows = [
        [
            (int(link), one_of(loads))
            for link in draw.permutation(count)[: draw.integers(1, min(4, count) + 1)]
        ]
        for _ in range(12)
    ]
    capacity = rate * draw.choice([0.5, 1.0, 1.0, 3.0], count)
    times = np.unique(draw.integers(0, 400_000, draw.integers(4))).tolist()
    links = Links(
        capacity,
        Vectors.of(rows),
        tuple(CapacityChange(time, int(draw.integers(count)), one_of([0.2, 3]) * rate) for time in times),
        tuple(
            Background(int(draw.integers(len(rows))), rate / 10, begin, one_of([None, begin + 50_000]))
            for begin in draw.integers(0, 300_000, draw.integers(3)).tolist()
        ),
    )
    latency, lates = one_of([0, 500, 30_000]), one_of(LATES)
    numbers, caps = {}, [rate / 2, rate, np.inf]

    def transfer(index, instruction):
        number = numbers.setdefault(flow(built, index, instruction), len(numbers))
        size = float(instruction.num_bytes)
        phases = FlowPhase(number % 12, size, caps[number % 3]), FlowPhase((number + 5) % 12, size / 4, rate)
        return Transfer(latency, phases, lates)

    return Fabric(links, transfer)
