"""Where the time of large runs goes: ``pytest tests/benchmarks/bench_engine.py -s``.

Planning, lowering, pricing with linking, the compiled loop and what follows it, apart, with the reference
beside it where it takes less than a minute. The plans are written down here, on the profile ``ideal``, so
that changes of shipped scenarios and profiles do not move them. Nothing is asserted but that both give the
same times.
"""

from __future__ import annotations

import time

import pytest

from simcluster.engine import Implementation, Progress, run_together
from simcluster.engine.communication.coalesced_links import coalesce_links
from simcluster.engine.compiled import run_compiled
from simcluster.engine.pricing.priced_classes import PricedClasses
from simcluster.program import build
from simcluster.scenario import Scenario
from simcluster.simulation.compose.build import build_scenario, plan_scenario, workload_of
from simcluster.simulation.run_scenario import run_built


def plan(name, cluster, hosts, model, batch, seq_len, mesh, **parallel):
    """A scenario of dense training in bf16."""
    return {
        "simcluster": 1,
        "name": name,
        "cluster": {"use": cluster, "hosts": hosts},
        "model": {"use": model},
        "training": {
            "global_batch": batch,
            "micro_batch": 1,
            "seq_len": seq_len,
            "precision": "bf16",
            "optimizer": "adamw",
        },
        "parallel": {"mesh": mesh, "recipe": "megatron_sp", "optimizer_sharding": {"zero": 1}, **parallel},
    }


DEEP = {"pipeline": 32, "data": 8, "tensor": 8}
NLG = {"pipeline": 35, "data": 8, "tensor": 8}
PLANS = [
    plan(
        "Llama 3 405B on 16,384",
        *("dgx-h100", 2048, "llama3-405b", 2048, 8192),
        {"pipeline": 16, "data": 128, "tensor": 8},
    ),
    plan("Megatron 1T on 2,048, 1F1B", "dgx-h100", 256, "megatron-1t", 2048, 2048, DEEP),
    plan(
        "Megatron 1T on 2,048, ZB-V",
        *("dgx-h100", 256, "megatron-1t", 2048, 2048),
        DEEP,
        schedule={"kind": "zb_v"},
    ),
    plan(
        "Turing-NLG 530B on 2,240",
        *("selene", 280, "turing-nlg-530b", 1920, 2048),
        NLG,
        recompute={"layers": "all"},
    ),
    plan(
        "GPT-3 175B on 128, 1,536 micro-batches",
        *("selene", 16, "gpt3-175b", 1536, 2048),
        {"pipeline": 16, "tensor": 8},
    ),
]


@pytest.mark.parametrize("data", PLANS, ids=lambda data: data["name"])
def test_parts(data):
    seconds = {}

    def timed(name, function):
        began = time.perf_counter()
        result = function()
        seconds[name] = time.perf_counter() - began
        return result

    planned = timed("planning", lambda: plan_scenario(Scenario.of(data)))
    timed("lowering", lambda: build(planned))
    built = build_scenario(Scenario.of(data))
    workload = workload_of(built)
    classes = timed("pricing and linking", lambda: PricedClasses(workload))
    links = coalesce_links(workload.fabric.links)
    timing = timed("loop", lambda: run_compiled([classes], links, Progress()))[0]
    timed("reference", lambda: run_together([workload], None, Implementation.REFERENCE))
    whole = Scenario.of(data)
    timed("simulate", lambda: run_built(build_scenario(whole)))
    rate = timing.num_events / seconds["loop"] / 1e6
    print(f"\n{data['name']}: {timing.num_events:,} entries, loop {rate:.2f} M/s")
    print("  " + ", ".join(f"{name} {spent:.2f} s" for name, spent in seconds.items()))
