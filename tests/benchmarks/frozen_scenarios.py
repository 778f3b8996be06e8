"""The scenarios that the engine is measured on, with hosts, models and framework profiles as they once were.

The files in ``frozen`` are entries of the catalogs, written out without their sources: later changes of these
move no figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FROZEN = Path(__file__).parent / "frozen"
BF16_GRADIENTS = {"compute": "bf16", "gradients": "bf16"}
MEGATRON = {"recipe": "megatron", "optimizer_sharding": {"zero": 1}}
SEQUENCES = {"recipe": "megatron_sp", "optimizer_sharding": {"zero": 1}}
DIFFERENT = [{"devices": "all", "compute": {"normal": [1.0, 0.05]}}]
ONE_SLOW = [{"device": 21, "compute": 0.9}]
SHARED = {"kind": "leaf_spine", "hosts_per_leaf": 8, "oversubscription": 4}
RECOMPUTED_BY_DEEPSEEK = [
    "layers.*.{attention,mlp}.norm*",
    "layers.*.attention.{query*,kv*,latent*,core.out.cast}",
    "layers.*.mlp.{,shared.,experts.}activation*",
]


@cache
def entry(file: str, name: str) -> Any:
    """An entry of one of the files."""
    # Whoever only starts processes stays small: what it holds in memory would count for them.
    from simcluster.document import Document

    return Document.parse((FROZEN / f"{file}.yaml").read_text(), file).data[name]


def training(batch: int, seq_len: int, precision: Any = "bf16", **more: Any) -> dict[str, Any]:
    """The training section, of micro-batches of one sample unless told otherwise."""
    return {
        "global_batch": batch,
        "micro_batch": 1,
        "seq_len": seq_len,
        "precision": precision,
        "optimizer": "adamw",
        **more,
    }


def plan(
    host: tuple[str, int],
    model: str,
    trained: Mapping[str, Any],
    parallel: Mapping[str, Any],
    framework: str = "ideal",
    **cluster: Any,
) -> dict[str, Any]:
    """A scenario."""
    name, hosts = host
    return {
        "simcluster": 1,
        "name": f"{model} on {hosts} {name}",
        "cluster": {"host": entry("hosts", name), "hosts": hosts, **cluster},
        "framework": entry("frameworks", framework),
        "model": entry("models", model),
        "training": dict(trained),
        "parallel": dict(parallel),
    }


def llama_405b(replicas: int, **cluster: Any) -> dict[str, Any]:
    """16 stages of 8 ranks, so many times."""
    mesh = {"pipeline": 16, "data": replicas, "tensor": 8}
    batch = training(16 * replicas, 8192, BF16_GRADIENTS)
    return plan(("dgx-h100", 16 * replicas), "llama3-405b", batch, {"mesh": mesh, **SEQUENCES}, **cluster)


def llama_70b(host: str, replicas: int, micro_batches: int, **cluster: Any) -> dict[str, Any]:
    """4 stages of 8 ranks, so many times."""
    mesh = {"pipeline": 4, "data": replicas, "tensor": 8}
    batch = training(micro_batches * replicas, 8192)
    return plan((host, 4 * replicas), "llama3-70b", batch, {"mesh": mesh, **SEQUENCES}, **cluster)


def megatron_1t(schedule: str) -> dict[str, Any]:
    """On 2,048 H200."""
    mesh = {"pipeline": 16, "data": 16, "tensor": 8}
    parallel = {"mesh": mesh, **SEQUENCES, "schedule": {"kind": schedule, "p2p": "overlapped"}}
    batch = training(1024, 2048, optimizer="adam")
    return plan(("dgx-h200", 256), "megatron-1t", batch, parallel, "megatron-core")


def deepseek() -> dict[str, Any]:
    """The plan of the authors."""
    precision = {"matmul": "fp8", "fp8": {"communication": "fp8"}}
    parallel = {
        "mesh": {"pipeline": 16, "data": 2, "expert": 64},
        "schedule": "dualpipe_v",
        "optimizer_sharding": {"zero": 1},
        "recompute": {"operators": RECOMPUTED_BY_DEEPSEEK},
    }
    batch = training(15_360, 4096, precision, optimizer={"kind": "adamw", "states": "bf16"})
    return plan(("hgx-h800", 256), "deepseek-v3", batch, parallel)


def gpt3() -> dict[str, Any]:
    """Every layer recomputed."""
    parallel = {
        "mesh": {"pipeline": 8, "data": 16, "tensor": 8},
        **MEGATRON,
        "schedule": {"kind": "1f1b", "p2p": "blocking"},
        "recompute": {"layers": "all"},
    }
    batch = training(1024, 2048, "fp16", optimizer="adam", micro_batch=2)
    return plan(("dgx-a100", 128), "gpt3-175b", batch, parallel)


def gpt3_of_many_micro_batches() -> dict[str, Any]:
    """One replica, which has the whole batch to itself."""
    parallel = {"mesh": {"pipeline": 16, "tensor": 8}, **MEGATRON}
    batch = training(1536, 2048, optimizer="adam")
    return plan(("dgx-a100", 16), "gpt3-175b", batch, parallel, "megatron-core")


def seqpipe() -> dict[str, Any]:
    """Long sequences in eight slices."""
    parallel = {
        "mesh": {"pipeline": 8, "tensor": 8},
        "recipe": "megatron_sp",
        "schedule": {"kind": "seqpipe", "slices": 8},
    }
    return plan(("dgx-h100", 8), "llama3-70b", training(8, 32_768), parallel, "megatron-core")


def tensor_overlap() -> dict[str, Any]:
    """Gathers and matmuls in four chunks."""
    parallel = {
        "mesh": {"pipeline": 4, "data": 2, "tensor": 8},
        **SEQUENCES,
        "schedule": {"kind": "interleaved", "chunks": 5},
        "overlap": {"tensor": 4},
    }
    return plan(("dgx-h100", 8), "llama3-70b", training(64, 8192), parallel, "nemo")


def turing(batch_size: int = 1920) -> dict[str, Any]:
    """A deep pipeline folded to its stages: a million entries with the whole batch."""
    mesh = {"pipeline": 35, "data": 8, "tensor": 8}
    parallel = {"mesh": mesh, **MEGATRON, "recompute": {"layers": "all"}}
    batch = training(batch_size, 2048, optimizer="adam")
    return plan(("selene", 280), "turing-nlg-530b", batch, parallel, "megatron-deepspeed")


def qwen() -> dict[str, Any]:
    """Experts that are chosen unequally often: every rank has a program of its own."""
    parallel = {"mesh": {"data": 128, "expert": 8}, "optimizer_sharding": {"zero": 1}}
    batch = training(8192, 4096, routing="zipf:1.2")
    return plan(("dgx-h100", 128), "qwen3-30b-a3b", batch, parallel)


def tenants() -> dict[str, Any]:
    """Three trainings, two of which share the trunks of their leaves."""
    small = plan(
        ("dgx-h100", 72), "llama3-8b", training(256, 4096), {"mesh": {"data": 256}, "recipe": "fsdp"}
    )
    small["cluster"] |= {"network": SHARED, "own_hosts": _spread(0)}
    small["run"] = {"steps": 20}
    large = llama_70b("dgx-h100", 8, 32)
    alone = {
        "model": entry("models", "llama3-8b"),
        "training": training(128, 8192),
        "parallel": {
            "mesh": {"data": 64},
            "optimizer_sharding": {"zero": 1},
            "recompute": {"layers": "all"},
        },
    }
    shared = {key: large[key] for key in ("framework", "model", "training", "parallel")}
    small["tenants"] = [
        {"name": "large", "hosts": _spread(4), "scenario": shared},
        {"name": "alone", "hosts": "64-71", "scenario": {"framework": entry("frameworks", "ideal"), **alone}},
    ]
    return small


def _spread(first: int) -> list[int]:
    """Four hosts of each of eight leaves."""
    return [host + 8 * leaf for host in range(first, first + 4) for leaf in range(8)]
