"""Everything that composes: the choices of a plan, and small scenarios of them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from simcluster.document import validate_data
from simcluster.errors import PlanError
from simcluster.plan.pipeline.schedule import Schedule
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.plan.spec.schedule_spec import ScheduleSpec, schedule_kinds
from simcluster.scenario import Scenario
from tests.support.covering import Row
from tests.support.hosts import figure, host
from tests.support.scenarios import under

SIZES = {"hidden": 16, "heads": 4, "kv_heads": 4, "vocab": 32}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {**SIZES, "ffn": 24},
    "llama, tied": {**SIZES, "kv_heads": 2, "ffn": 24, "tied": True},
    "gpt, dropout": {
        "family": "gpt",
        "hidden": 16,
        "heads": 4,
        "ffn": 24,
        "vocab": 30,
        "max_positions": 8,
        "dropout": 0.1,
        "attention_dropout": 0.1,
    },
    "mixture": {
        **SIZES,
        "ffn": 16,
        "experts": {"count": 4, "top_k": 2, "ffn": 8, "shared": 1, "dense_layers": 1},
    },
    "mixture, uneven": {
        **SIZES,
        "ffn": 16,
        "experts": {"count": 4, "top_k": 2, "ffn": 8, "capacity_factor": 1.5, "padded": False},
    },
}
MIXTURES = {"mixture": "uniform", "mixture, uneven": "zipf:1.2"}
"""How many tokens the experts of a model get."""

ULYSSES = {"match": "layers.*.attention.core", "split": {"heads": "ulysses"}}
AXES: dict[str, dict[str, Any]] = {
    "data 4": {"mesh": {"data": 4}},
    "pipeline 4": {"mesh": {"pipeline": 4}},
    "data 2, pipeline 2, replica 2": {
        "mesh": {"data": 2, "pipeline": 2, "replica": 2},
        "roles": {"batch": ["data", "replica"]},
    },
    "pipeline 2, data 2, tensor 2": {"mesh": {"pipeline": 2, "data": 2, "tensor": 2}, "recipe": "megatron"},
    "pipeline 3, tensor 2 sp": {"mesh": {"pipeline": 3, "tensor": 2}, "recipe": "megatron_sp"},
    "tensor 2 sp, data 2, pipeline 2": {
        "mesh": {"tensor": 2, "data": 2, "pipeline": 2},
        "recipe": "megatron_sp",
        "overlap": {"tensor": 2},
    },
    "pipeline 2, data 2, context 2": {"mesh": {"pipeline": 2, "data": 2, "context": 2}},
    "ring 2, pipeline 2, tensor 2": {
        "mesh": {"context": 2, "pipeline": 2, "tensor": 2},
        "recipe": "megatron",
        "context": "ring",
    },
    "pipeline 2, ring 2, ulysses 2": {
        "mesh": {"pipeline": 2, "ring": 2, "ulysses": 2},
        "roles": {"sequence": ["ring", "ulysses"]},
        "strategies": [ULYSSES],
        "context": "ring",
    },
    "pipeline 2, data 2, expert 2": {"mesh": {"pipeline": 2, "data": 2, "expert": 2}},
    "pipeline 2, expert 2, tensor 2 sp": {
        "mesh": {"pipeline": 2, "expert": 2, "tensor": 2},
        "recipe": "megatron_sp",
    },
}
"""Meshes of up to 8 ranks with what makes use of their axes."""

SHARDINGS: dict[str, Any] = {
    "nothing": {"zero": 0},
    "zero 1": {"zero": 1},
    "zero 2": {"zero": 2},
    "whole parameters": {"states": True, "split": "parameters"},
    "in groups of 2, some whole": {
        "zero": 3,
        "shard_size": 2,
        "whole": ["embedding.*", "layers.*.norm.weight"],
    },
    "fsdp": "fsdp",
    "fsdp, kept": {"fsdp": {"reshard_after_forward": False}},
    "level 1, accumulated in shards": {
        "mindspore": "level1",
        "gradient_accumulation_shard": True,
        "min_bytes": "0 B",
    },
    "level 3, groups of 2": {"mindspore": "level3", "shard_size": 2, "min_bytes": "0 B"},
    "gathered once, flat": {
        "states": True,
        "weights": True,
        "gradients": True,
        "regather": False,
        "gather_once": True,
        "keep_cast": True,
    },
}
CORE = "layers.*.attention.core*"
RECOMPUTE: dict[str, Any] = {
    "nothing": {},
    "all": {"layers": "all"},
    "one of each stage": {"layers": 1},
    "of the first stage": {"layers": "first"},
    "by name": {"layers": ["layers.{0,1}"]},
    "selective": {"operators": [CORE]},
    "one, and operators of the others": {"layers": 1, "operators": ["layers.*.mlp.{norm,activation}"]},
    "not collectives": {"layers": "all", "collectives": False},
    "slices": {"layers": "all", "slice": True},
    "weights gathered again": {"layers": "all", "gathers": True},
}
OFFLOAD: dict[str, dict[str, Any]] = {
    "nothing": {},
    "states": {"optimizer_states": "host"},
    "states on disk, gradients": {"optimizer_states": "disk", "gradients": "host"},
    "weights": {"parameters": {"to": "host", "prefetch": 2}},
    "half of activations": {"activations": {"to": "host", "fraction": 0.5}},
    "everything": {
        "parameters": "disk",
        "gradients": "disk",
        "optimizer_states": {"to": "host", "match": ["layers.*"]},
        "activations": "disk",
    },
}
HOSTED = {"nothing": [], "updates": ["*.update*"], "lookups": ["embedding.*"]}
"""What runs on the processors of hosts."""

PRECISIONS: dict[str, Any] = {
    "fp32": "fp32",
    "bf16": "bf16",
    "bf16 alone": {"compute": "bf16", "gradients": "bf16", "master": "none"},
    "fp8": {"compute": "bf16", "matmul": "fp8", "fp8": {"communication": "fp8"}},
}
OVERLAP: dict[str, dict[str, Any]] = {
    "everything": {},
    "nothing": {
        "reduction": {"overlap": False, "bucket": "whole", "copies": True},
        "gather": "exposed",
        "layer_collectives": "blocking",
        "prefetch": 0,
    },
    "in buckets": {
        "reduction": {
            "bucket": "whole",
            "limit": {"bytes": "2 KiB", "elements": None, "elements_per_rank": 0},
        },
        "prefetch": 2,
        "weights": "cast_twice",
        "recompute": "needed",
        "attention": "unfused",
        "p2p_scatter": True,
    },
}
FRAMEWORKS: dict[str, tuple[str, ...]] = {
    "ideal": ("ideal",),
    "ddp": ("ddp",),
    "deepspeed-zero": ("deepspeed-zero",),
    "fsdp": ("fsdp", "llm-foundry", "torchtitan"),
    "megatron-lm-2021": ("megatron-lm-2021", "megatron-deepspeed"),
    "megatron-lm-2022": ("megatron-lm-2022",),
    "megatron-core": ("megatron-core", "megatron-core-local", "nemo"),
    "mindspeed-llm": ("mindspeed-llm",),
    "mindformers": ("mindformers",),
    "mindspore-graph": ("mindspore-graph",),
    "mindspore-pynative": ("mindspore-pynative",),
}
"""Profiles, each with those that are another one of it in detail."""

UNFUSED = {name for name in FrameworkSpec.entries() if FrameworkSpec.load(name).attention.value == "unfused"}

MAIN: dict[str, list[Any]] = {
    "schedule": sorted(schedule_kinds()),
    "sharding": [*SHARDINGS],
    "recompute": [*RECOMPUTE],
    "offload": [*OFFLOAD],
    "axes": [*AXES],
}
"""What a plan is made of."""

COMMON: dict[str, list[Any]] = MAIN | {
    "sharding": [
        "nothing",
        "zero 1",
        "zero 2",
        "in groups of 2, some whole",
        "fsdp",
        "level 1, accumulated in shards",
    ],
    "recompute": ["nothing", "all", "one of each stage", "by name", "selective"],
    "offload": ["nothing", "states", "states on disk, gradients", "weights", "half of activations"],
}
"""What all combinations are made of: of every kind those that are not another one in detail."""

DETAILS: dict[str, list[Any]] = {
    "model": [*MODELS],
    "precision": [*PRECISIONS],
    "overlap": [*OVERLAP],
    "framework": [*FRAMEWORKS],
    "variant": [0, 1, 2],
    "layers": ["even", "uneven"],
    "micro_batches": [1, 3],
    "copies": [1, 2],
    "p2p": ["overlapped", "blocking"],
    "clip": [None, 0.05],
    "fusion": [{}, {"all_reduce": {"mode": "index", "config": [3, 10]}}],
    "optimizer": ["adamw", "lamb", "momentum", "muon"],
    "host": [*HOSTED],
}


CONSTANTS = {"eps": 1e-3, "learning_rate": 0.01, "weight_decay": 0.01}
"""Of optimizers, as ``verify`` has them: no update vanishes or is made of rounding errors, such as
those of biases of keys, whose gradients are nothing."""


def scenario(row: Row) -> Scenario:
    """The small scenario of a row of choices."""
    parallel = AXES[row["axes"]]
    mesh = parallel["mesh"]
    ranks, stages = math.prod(mesh.values()), stages_of(row)
    batch = parallel.get("roles", {}).get("batch", ["data", "expert"])
    ways = math.prod(mesh.get(axis, 1) for axis in batch)
    section, micro_batches = scheduled(row["schedule"], stages, row["micro_batches"])
    layers = layers_of(built(section), stages, row["layers"])
    recompute = dict(RECOMPUTE[row["recompute"]])
    if recompute.get("layers") == "first":
        recompute["layers"] = [1] + [0] * (stages - 1)
    which = Scenario.of(
        {
            "simcluster": 1,
            "name": "composition",
            "cluster": {
                "host": host(
                    2, cores=2, use="dgx-h100", reduction=figure({"row": "1 us", "bandwidth": "1 GB/s"})
                )
                | {"network": {"nics": 1}},
                "hosts": ranks // 2,
            },
            "model": {**MODELS[row["model"]], "layers": sum(map(sum, layers))},
            "training": {
                "global_batch": 2 * micro_batches * ways,
                "micro_batch": 2,
                "seq_len": 8,
                "precision": PRECISIONS[row["precision"]],
                "optimizer": {"kind": row["optimizer"], "clip": row["clip"], **CONSTANTS},
                "routing": MIXTURES.get(row["model"], "uniform"),
            },
            "parallel": {
                **parallel,
                "copies": row["copies"],
                "schedule": {**section, "p2p": row["p2p"], "stages": layers if layers[1:] else layers[0]},
                "optimizer_sharding": SHARDINGS[row["sharding"]],
                "recompute": recompute,
                "offload": OFFLOAD[row["offload"]],
                "fusion": row["fusion"],
                "host": HOSTED[row["host"]],
            },
        }
    )
    (profile,) = profiles_of(row)
    return under(which, **{"use": profile, **OVERLAP[row["overlap"]]})


def profiles_of(row: Row) -> list[str]:
    """The profiles that a row may be under: one as soon as it is complete."""
    named = [FRAMEWORKS[row["framework"]]] if "framework" in row else FRAMEWORKS.values()
    variants = [row["variant"]] if "variant" in row else [0, 1, 2]
    return sorted({each[variant % len(each)] for each in named for variant in variants})


def unfused(row: Row) -> bool:
    """Whether products, softmax and their gradients are kernels of their own, whatever else is chosen."""
    return row.get("overlap") == "in buckets" or set(profiles_of(row)) <= UNFUSED


def axes_of(row: Row) -> dict[str, Any]:
    """The mesh of a row and what makes use of it, or nothing as long as it has none."""
    return AXES[row["axes"]] if "axes" in row else {"mesh": {}}


def alike(row: Row) -> int:
    """How many ranks hold the same weights, whatever parts of the batch or of sequences they work on."""
    sizes = axes_of(row)["mesh"].items()
    return math.prod(size for axis, size in sizes if axis not in ("pipeline", "tensor"))


WHOLE_WEIGHTS = ("nothing", "zero 1", "zero 2", "whole parameters")
"""Shardings under which weights are whole."""


def shards_weights(row: Row) -> bool:
    """Whether weights lie in parts: MindSpore's levels take tensor ranks, too."""
    levels = str(row["sharding"]).startswith("level") and "tensor" in axes_of(row)["mesh"]
    return row["sharding"] not in WHOLE_WEIGHTS and (alike(row) > 1 or levels)


def sliced(row: Row) -> bool:
    """Whether sequences go through the model slice by slice."""
    return str(row.get("schedule")).startswith("seq")


def stages_of(row: Row) -> int:
    """The stages of a row's pipeline."""
    return int(AXES[row["axes"]]["mesh"].get("pipeline", 1))


def built(section: dict[str, Any]) -> Schedule:
    """The schedule of a section."""
    return validate_data(section, ScheduleSpec).build()


def layers_of(schedule: Schedule, stages: int, how: str) -> list[list[int]]:
    """The layers of every chunk on every stage: one each, two where the model begins if they are uneven."""
    chain = schedule.chain(stages)
    counts = [1 if stages > 1 and how == "even" else 2, *[1] * (len(chain) - 1)]
    return [list(each) for each in chain.by_chunk(counts)]


@cache
def overlaps(kind: str, stages: int) -> bool:
    """Whether a schedule on so many stages moves activations while it computes."""
    return built(scheduled(kind, 2, 1)[0]).overlaps(stages)


@cache
def scheduled(kind: str, stages: int, micro_batches: int) -> tuple[dict[str, Any], int]:
    """The section of a schedule, and the number of micro-batches or the next one that it accepts."""
    if kind == "text":
        return {"kind": kind, "text": written(stages, micro_batches)}, micro_batches
    section = {"kind": kind}

    def runs(count: int) -> bool:
        try:
            return bool(built(section).timetable(stages, count))
        except PlanError:
            return False

    counts = range(micro_batches, micro_batches + stages + 1)
    return section, next((count for count in counts if runs(count)), micro_batches)


def written(stages: int, micro_batches: int) -> str:
    """A schedule that no rule gives: the last micro-batch first, every other backward in halves."""
    order = range(micro_batches)[::-1]
    forward = [f"F{each}" for each in order]
    halves = [f"I{each}" if each % 2 else f"B{each}" for each in order]
    late = [f"W{each}" for each in order if each % 2]
    return "\n".join(" ".join([*forward, *halves, *late]) for _ in range(stages))


USUAL: Row = {name: values[0] for name, values in DETAILS.items()} | {
    "schedule": "1f1b",
    "sharding": "nothing",
    "recompute": "nothing",
    "offload": "nothing",
    "axes": "pipeline 4",
}
"""A row of which some choices are made otherwise."""

ONCE_WRONG: dict[str, Row] = {
    "what several streams add up is there when all have": {
        "schedule": "zb_h1",
        "micro_batches": 3,
        "clip": 0.05,
        "host": "lookups",
    },
    "gradients that are made on the host stay there": {
        "offload": "states on disk, gradients",
        "host": "lookups",
    },
    "one parameter of a stage lies in one place": {
        "schedule": "dualpipe_v",
        "model": "llama, tied",
        "host": "lookups",
    },
    "slices of a sequence are worked on in one place": {"schedule": "seqpipe", "host": "lookups"},
    "gradients are copied into buckets where they are sent": {
        "axes": "data 4",
        "overlap": "nothing",
        "host": "lookups",
    },
    "activations that are made on the host are not brought there": {
        "schedule": "dualpipe_v",
        "recompute": "not collectives",
        "offload": "half of activations",
        "model": "gpt, dropout",
        "host": "lookups",
    },
    "room on the host is waited for in turn": {
        "sharding": "fsdp",
        "axes": "data 4",
        "offload": "states on disk, gradients",
        "optimizer": "lamb",
        "clip": 0.05,
        "host": "updates",
    },
    "gathered weights that are copied are still gathered weights": {
        "schedule": "zb_v",
        "sharding": "fsdp, kept",
        "axes": "pipeline 2, data 2, expert 2",
        "model": "llama, tied",
        "precision": "bf16",
        "host": "lookups",
    },
    "terms that slices have for one sum on a disk are added one after another": {
        "schedule": "seqvpp",
        "sharding": "level 3, groups of 2",
        "offload": "everything",
        "axes": "tensor 2 sp, data 2, pipeline 2",
        "framework": "mindformers",
    },
    "a bucket has gradients that are made on the host, behind their sum": {
        "sharding": "level 1, accumulated in shards",
        "offload": "everything",
        "axes": "pipeline 3, tensor 2 sp",
        "framework": "mindspeed-llm",
        "host": "lookups",
    },
    "what halves of a backward share is booked alike": {
        "schedule": "text",
        "recompute": "by name",
        "axes": "pipeline 2, ring 2, ulysses 2",
        "model": "gpt, dropout",
        "precision": "fp8",
        "micro_batches": 3,
    },
}
"""What random rows have found, with what is true now."""
