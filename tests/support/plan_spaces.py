"""Random scenarios small enough to simulate every plan of their search spaces."""

from __future__ import annotations

import random

from simcluster.registry import data_files
from simcluster.scenario import Scenario

ALL_KEYS = (
    "mesh",
    "expert",
    "context",
    "axis_order",
    "micro_batch",
    "schedule",
    "chunks",
    "stages",
    "batch_shares",
    "optimizer_sharding",
    "recompute",
    "offload",
)
SMALL_KEYS = ("mesh", "micro_batch=1,2")


def small_scenario(seed: int = 0, devices: int = 4) -> Scenario:
    """A model of few layers on one host of so many devices, with another model for every seed."""
    draw = random.Random(seed)
    heads = draw.choice([4, 8])
    return Scenario.of(
        {
            "simcluster": 1,
            "name": f"small {seed}",
            "cluster": {
                "host": {
                    "use": draw.choice(["dgx-h100", "dgx-a100", "dgx-h200"]),
                    "devices": devices,
                    "network": {"nics": devices},
                },
                "hosts": 1,
            },
            "framework": draw.choice(["ideal", "megatron-core", "fsdp"]),
            "model": {
                "family": "llama",
                "layers": draw.choice([2, 4]),
                "hidden": 64 * heads * draw.choice([1, 4]),
                "heads": heads,
                "kv_heads": heads,
                "ffn": 128 * heads,
                "vocab": draw.choice([256, 32_000]),
            },
            "training": {
                "global_batch": 8 * draw.choice([1, 2, 4]),
                "micro_batch": 1,
                "seq_len": draw.choice([128, 2048]),
                "precision": "fp16",
                "optimizer": "adamw",
            },
            "parallel": {"mesh": {"data": devices}},
        }
    )


def mixed_scenario(**changes) -> Scenario:
    """A model of few layers on a host of two H100 and one of two Ascend 910B."""
    training = {"global_batch": 64, "micro_batch": 1, "seq_len": 2048, "precision": "bf16"}

    def host(use: str) -> dict[str, object]:
        return {"use": use, "devices": 2, "network": {"nics": 2}}

    return Scenario.of(
        {
            "simcluster": 1,
            "name": "mixed",
            "cluster": {
                "groups": [
                    {"host": host("dgx-h100"), "hosts": 1},
                    {"host": host("atlas-800t-a2"), "hosts": 1},
                ]
            },
            "model": {"layers": 4, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 1024},
            "training": {
                "global_batch": 64,
                "micro_batch": 1,
                "seq_len": 2048,
                "precision": "bf16",
                **training,
            },
            "parallel": {"mesh": {"data": 4}},
        }
    )


def random_scenario(seed: int) -> Scenario:
    """A small model under any framework profile on one to four hosts, with another for every seed."""
    draw = random.Random(seed)
    use, hosts = draw.choice(
        [("dgx-h100", 1), ("dgx-h100", 2), ("dgx-a100", 2), ("atlas-800t-a2", 1), ("dgx-1v", 2)]
    )
    heads = draw.choice([8, 16])
    model = {
        "family": draw.choice(["gpt", "llama"]),
        "layers": draw.choice([4, 6, 8, 12]),
        "hidden": heads * 64,
        "heads": heads,
        "vocab": 1024,
        "max_positions": 1024,
    }
    if model["family"] == "llama":
        model |= {"kv_heads": draw.choice([heads, 4]), "ffn": heads * 128}
        if draw.random() < 0.5:
            model["experts"] = {"count": 8, "top_k": 2, "ffn": 512}
    parallel = {"mesh": {"data": 8 * hosts}}
    if draw.random() < 0.3:
        parallel["schedule"] = {"p2p": draw.choice(["overlapped", "blocking"])}
    return Scenario.of(
        {
            "simcluster": 1,
            "name": f"space {seed}",
            "cluster": {"use": use, "hosts": hosts},
            "framework": draw.choice(sorted(data_files("simcluster.plan.frameworks"))),
            "model": model,
            "training": {
                "global_batch": draw.choice([32, 64, 96]),
                "micro_batch": 1,
                "seq_len": draw.choice([256, 1024]),
                "precision": "fp16",
                "optimizer": draw.choice(["adamw", "sgd", "momentum"]),
            },
            "parallel": parallel,
        }
    )


UNUSUAL = (
    "slices",
    "slices and chunks",
    "pairs",
    "copies",
    "unequal routing",
    "propagation",
    "adapters",
    "whole parameters",
    "piece as a graph",
)
"""What small plans tell less about, or nothing."""


def unusual_scenario(kind: str, seed: int) -> Scenario:
    """A small model on one host whose schedule has slices, whose experts get unequally many tokens, or whose
    operators follow their neighbours.
    """
    draw = random.Random(f"{kind} {seed}")
    heads = draw.choice([4, 8])
    model = {
        "family": "llama",
        "layers": draw.choice([4, 8]),
        "hidden": 64 * heads,
        "heads": heads,
        "kv_heads": heads,
        "ffn": 128 * heads,
        "vocab": 1024,
    }
    training = {
        "global_batch": draw.choice([16, 32]),
        "micro_batch": 1,
        "seq_len": draw.choice([256, 1024]),
        "precision": draw.choice(["bf16", "fp16"]),
        "optimizer": draw.choice(["adamw", "sgd"]),
    }
    parallel: dict[str, object] = {"mesh": {"data": 8}}
    framework = draw.choice(["ideal", "megatron-core", "mindspore-graph"])
    if kind in ("slices", "slices and chunks"):
        schedule = "seqvpp" if kind == "slices and chunks" else "seqpipe"
        parallel |= {
            "mesh": {"pipeline": draw.choice([2, 4]), "data": 2, "tensor": 1},
            "schedule": {"kind": schedule, "slices": 2},
        }
        parallel["mesh"]["tensor"] = 4 // parallel["mesh"]["pipeline"]  # type: ignore[index]
    elif kind == "pairs":
        parallel |= {
            "mesh": {"pipeline": 2, "data": 4},
            "schedule": {"kind": draw.choice(["1f1b", "interleaved"]), "pairs": True},
        }
    elif kind == "copies":
        training["micro_batch"] = 2
        parallel |= {"mesh": {"data": 4, "tensor": 2}, "copies": 2}
    elif kind == "unequal routing":
        model["experts"] = {"count": 8, "top_k": 2, "ffn": 512}
        training["routing"] = draw.choice(["zipf:0.5", "zipf:1.2", "normal:0.3"])
    elif kind == "adapters":
        training["lora"] = {"rank": 8, "targets": draw.choice([["all-linear"], ["layers.1.*"]])}
    elif kind == "whole parameters":
        training["optimizer"] = "muon"
        parallel["optimizer_sharding"] = {"states": True, "split": "parameters"}
    elif kind == "propagation":
        parallel |= {
            "propagate": True,
            "strategies": [{"match": "layers.*.mlp.up*", "split": {"ffn": "tensor"}}],
        }
    else:
        framework = "mindspore-pynative"
        parallel["shard"] = [{"piece": "layers.*.mlp", "in": [[2, 1, 1]]}]
    return Scenario.of(
        {
            "simcluster": 1,
            "name": f"{kind} {seed}",
            "cluster": {"use": draw.choice(["dgx-h100", "atlas-800t-a2"]), "hosts": 1},
            "framework": framework,
            "model": model,
            "training": training,
            "parallel": parallel,
        }
    )
