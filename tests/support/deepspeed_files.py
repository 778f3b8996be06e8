"""DeepSpeed files with offload as they are read."""

from __future__ import annotations

import json

from simcluster.foreign import UserAdditions, importer, translate_file

CPU, NVME = {"device": "cpu"}, {"device": "nvme"}
ON_HOST = {"host": ["*.update"]}
CASES = {
    "states, zero 1": (1, {"offload_optimizer": CPU}, ON_HOST),
    "states and gradients, zero 2": (
        2,
        {"offload_optimizer": CPU},
        ON_HOST | {"offload": {"gradients": "host"}},
    ),
    "legacy": (2, {"cpu_offload": True}, ON_HOST | {"offload": {"gradients": "host"}}),
    "weights": (3, {"offload_param": CPU}, {"offload": {"parameters": "host"}}),
    "legacy weights": (3, {"cpu_offload_params": True}, {"offload": {"parameters": "host"}}),
    "everything on drives": (
        3,
        {"offload_optimizer": NVME, "offload_param": NVME},
        ON_HOST | {"offload": {"optimizer_states": "disk", "gradients": "host", "parameters": "disk"}},
    ),
    "not pinned": (
        3,
        {"offload_optimizer": CPU | {"pin_memory": False}},
        ON_HOST | {"offload": {"gradients": "host", "pinned": False}},
    ),
    "off": (3, {"offload_optimizer": {"device": "none"}, "offload_param": {}, "cpu_offload": False}, {}),
}


def read(stage, zero=None, *, cluster="dgx-a100", **more):
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 2,
        "zero_optimization": {"stage": stage, **(zero or {})},
        "bf16": {"enabled": True},
        **more,
    }
    given = UserAdditions(cluster, 1, "gpt3-1.3b", (("training.seq_len", "512"),))
    return translate_file(importer("deepspeed"), json.dumps(config, indent=1), "ds.json", given)
