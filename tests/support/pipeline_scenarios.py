"""Small scenarios of every kind of schedule."""

from __future__ import annotations

import math

from simcluster.document import validate_data
from simcluster.errors import PlanError
from simcluster.plan.spec.schedule_spec import ScheduleSpec, schedule_kinds
from simcluster.scenario import Scenario

FOLDED = "F0 F1 F0c1 B0c1 F1c1 B1c1 B0 B1\nF0 F0c1 F1 F1c1 B0c1 B0 B1c1 B1"
SLICES = "F0 F0s1 F1 F1s1 I0s1 I0 W0 B1s1 W0s1 B1\nF0 F0s1 F1 F1s1 B0s1 B0 I1s1 B1 W1s1"
WRITTEN = {
    "text": [
        {"kind": "text", "text": "F1 F0 F1c1 F0c1 B1c1 B0c1 B1 B0\nF1 F0 F1c1 B1c1 F0c1 B0c1 B1 B0"},
        {"kind": "text", "text": FOLDED, "placement": "folded"},
        {"kind": "text", "text": SLICES},
    ]
}
"""Of schedules that must be told more than their kind; these are of two stages and two micro-batches."""
MODELS = {
    "llama": {"hidden": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocab": 64},
    "gpt, tied": {
        "family": "gpt",
        "hidden": 16,
        "heads": 4,
        "ffn": 32,
        "vocab": 64,
        "positions": "learned",
        "max_positions": 8,
        "tied": True,
        "dropout": 0.1,
    },
    # The encoder's output crosses every stage of the decoder, and so comes to a stage for each of its chunks.
    "t5": {
        "family": "t5",
        "hidden": 16,
        "heads": 2,
        "head_dim": 8,
        "ffn": 32,
        "vocab": 64,
        "tied": True,
    },
}
OPTIONS = {
    "stages": [2, 3, 4],
    "micro_batches": [1, 2, 3, 8],
    "model": sorted(MODELS),
    "sharding": [None, {"zero": 1}, {"zero": 2}, {"zero": 3}, {"fsdp": {"reshard_after_forward": False}}],
    "recompute": [{}, {"layers": "all"}, {"operators": ["{,*.}layers.*.mlp.activation"]}],
    "beside": [{}, {"data": 2}, {"tensor": 2}],
    "p2p": ["overlapped", "blocking"],
    "clip": [None, 0.05],
    "fusion": [{}, {"all_reduce": {"mode": "index", "config": [3, 10]}}],
    "precision": ["fp32", "bf16"],
}
KINDS = sorted(schedule_kinds().keys() - WRITTEN.keys())
SLICED = [kind for kind in KINDS if schedule_kinds()[kind]().num_slices > 1]


def accepted(schedule, row) -> int:
    """The micro-batches of a row, or the next number that the schedule accepts."""

    first, stages = row["micro_batches"], row["stages"]
    return next((count for count in range(first, first + stages) if runs(schedule, stages, count)), first)


def runs(schedule, stages, count) -> bool:
    """Whether a schedule runs on so many stages with so many micro-batches."""
    try:
        return bool(validate_data(schedule, ScheduleSpec).build().timetable(stages, count))
    except PlanError:
        return False


def possible(row) -> dict:
    """The row, with more stages if its schedule does not run on so many, and a model that has slices."""
    kind = row["schedule"]
    for stages in (row["stages"], 2, 4):
        if runs({"kind": kind}, stages, accepted({"kind": kind}, row | {"stages": stages})):
            break
    # Of tied parameters, copies on one stage are refused where what is moved for micro-batches is sharded.
    without = ("t5", "gpt, tied") if stages == 1 else ("t5",)
    model = "llama" if kind in SLICED and row["model"] in without else row["model"]
    return row | {"stages": stages, "model": model}


def p2p_of(schedule, row) -> str:
    """The transfers of a row, or those that are the only ones possible."""
    overlaps = validate_data(schedule, ScheduleSpec).build().overlaps(row["stages"])
    return "overlapped" if overlaps else row["p2p"]


def layers_of(model, count) -> dict[str, int]:
    """So many layers of a model."""
    if model == "t5":
        return {"encoder_layers": count // 2, "decoder_layers": count - count // 2}
    return {"layers": count}


def scenario(schedule, row) -> Scenario:
    """A small scenario of a row of options: a layer for every chunk of its schedule, two at least."""
    mesh = {"pipeline": row["stages"], **row["beside"]}
    ranks, chunks = (
        math.prod(mesh.values()),
        len(validate_data(schedule, ScheduleSpec).build().chain(row["stages"])),
    )
    sharding = row["sharding"] if "data" in mesh else None
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "pipeline",
            "cluster": {"host": {"use": "dgx-h100", "devices": ranks, "network": {"nics": 1}}, "hosts": 1},
            "model": MODELS[row["model"]] | layers_of(row["model"], max(2, chunks)),
            "training": {
                "global_batch": accepted(schedule, row) * 2 * mesh.get("data", 1),
                "micro_batch": 2,
                "seq_len": 8,
                "precision": row["precision"],
                "optimizer": {"kind": "adamw", "clip": row["clip"]},
            },
            "parallel": {
                "mesh": mesh,
                "schedule": {"p2p": p2p_of(schedule, row), **schedule},
                "optimizer_sharding": sharding,
                "recompute": row["recompute"],
                "fusion": row["fusion"] if "data" in mesh and sharding in (None, {"zero": 1}) else {},
            },
        }
    )


def label(row) -> str:
    return "-".join(str(value) for value in row.values())
