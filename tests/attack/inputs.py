"""Broken inputs of every kind that is read, by a seed: scenarios, configs, tables, networks, saved files."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from simcluster.baseline.record import Record, save
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.attack.damage import HOSTILE, TAG, of_bytes, of_data, of_text
from tests.attack.text import data_of, yaml_of
from tests.support.foreign_samples import SAMPLES, text_of
from tests.support.scenario_texts import SMALL, but

ROOT = Path(__file__).parents[2]
MODEL = "{layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 128, vocab: 256}"
OUTPUTS = ("--out", "out", "--json", "result.json")


@dataclass(frozen=True)
class Case:
    """Files by name and a command line that reads them; ``named``: what a refusal must name one of."""

    kind: str
    files: dict[str, bytes]
    arguments: tuple[str, ...]
    named: tuple[str, ...]


def case(seed: int) -> Case:
    """The broken input of a seed."""
    rng = random.Random(f"input {seed}")
    return rng.choice(KINDS)(rng)


# -- scenarios ------------------------------------------------------------------------------------------

RICH = {
    "simcluster": 1,
    "name": "rich",
    "cluster": {"host": {"use": "dgx-h100", "devices": 2, "network": {"nics": 2}}, "hosts": 4,
                "changes": [{"device": 1, "compute": 0.9}, {"link": "host 0.network", "bandwidth": 0.5}]},
    "framework": "megatron-core",
    "model": {"layers": 4, "hidden": 16, "heads": 4, "ffn": 24, "vocab": 50,
              "experts": {"count": 4, "top_k": 2, "ffn": 8, "dense_layers": 1, "capacity_factor": 1.5}},
    "training": {"global_batch": 16, "micro_batch": 1, "seq_len": 8, "precision": {"compute": "bf16"},
                 "optimizer": {"kind": "adamw", "clip": 1.0, "groups": [{"match": "head*", "kind": "lamb"}]}},
    "data": {"strategy": "data_parallel", "sample": "1 KB", "decode": "1 ms", "workers": 2, "prefetch": 2},
    "parallel": {"mode": "semi_auto", "mesh": {"pipeline": 2, "data": 2, "tensor": 2},
                 "roles": {"batch": ["data"]}, "recipe": "megatron_sp",
                 "strategies": [{"match": "layers.*.mlp.router", "split": {"batch": "data"}}],
                 "schedule": {"kind": "interleaved", "stages": "auto", "p2p": "overlapped"},
                 "optimizer_sharding": {"zero": 1}, "recompute": {"layers": [1, 1]},
                 "offload": {"optimizer_states": {"to": "host", "match": ["layers.*"]}},
                 "overlap": {"tensor": 2},
                 "fusion": {"all_reduce": {"mode": "index", "config": [3, 10]}}},
    "collectives": {"algorithm": "ring", "overrides": [{"match": "layers.*", "algorithm": "tree"}]},
    "run": {"steps": 1, "seed": 3},
    "expect": {"mfu": {"min": 0.0}, "step_time": {"max": 10.0}},
}  # fmt: skip
"""A scenario that says something in most of its sections."""

SERVES = {
    "simcluster": 1,
    "name": "serves",
    "cluster": {"use": "dgx-h100", "hosts": 1},
    "model": {"family": "gpt", "layers": 2, "hidden": 16, "heads": 8, "vocab": 50, "max_positions": 32},
    "inference": {"batch": 4, "prompt": 8, "tokens": 4, "cache": "fp8", "decode_steps": "all"},
    "parallel": {"mesh": {"tensor": 8}},
}


def scenario(rng: random.Random) -> Case:
    """A scenario whose words or values are damaged."""
    base = rng.choice([data_of(SMALL), RICH, RICH, SERVES])
    if rng.random() < 0.6:
        content = yaml_of(of_data(base, rng)).encode(errors="replace")
    else:
        content = of_text(rng.choice([SMALL, yaml_of(base)]), rng)
    command = rng.choice(
        [("lint",), ("lint",), ("run", "--quiet", *OUTPUTS), ("verify",), ("layouts",), ("topology",)]
    )
    return Case(
        "scenario", {"broken.yaml": content}, (command[0], "broken.yaml", *command[1:]), ("broken.yaml",)
    )


def option(rng: random.Random) -> Case:
    """``--set`` with a text of any kind."""
    keys = [
        *("parallel.mesh.tensor", "training.global_batch", "cluster.hosts", "name", "model", "model.layers"),
        *("parallel.schedule.kind", "framework", "", "parallel..mesh", "nothing", "training.optimizer.clip"),
        *("parallel.strategies.0", "expect", "cluster", "[", "model.hf", "collectives.algorithm"),
    ]
    value = rng.choice(
        [*HOSTILE, TAG, "[1, 2", "{a: 1", "a: b: c", "!!python/none", "- - -", "&a [*a]", "1, 2"]
    )
    text = value if isinstance(value, str) else json.dumps(value)
    sign = rng.choice(["=", "=", "=", "=", "", "=="])
    text = text.replace("\x00", "")  # no shell hands that over
    return Case(
        "--set",
        {"small.yaml": SMALL.encode()},
        ("lint", "small.yaml", "--set", f"{rng.choice(keys)}{sign}{text}"),
        ("small.yaml", "--set"),
    )


# -- models ---------------------------------------------------------------------------------------------

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 256,
    "hidden_act": "silu", "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "rope_scaling": None, "attention_bias": False,
}  # fmt: skip
MIXTRAL = LLAMA | {
    "model_type": "mixtral",
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "sliding_window": None,
}
DEEPSEEK = LLAMA | {
    "model_type": "deepseek_v3", "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "first_k_dense_replace": 1, "kv_lora_rank": 16, "q_lora_rank": 16,
    "n_group": 2, "topk_group": 1,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "scoring_func": "sigmoid",
    "routed_scaling_factor": 2.5, "norm_topk_prob": True, "topk_method": "noaux_tc", "num_key_value_heads": 8,
}  # fmt: skip


def config(rng: random.Random) -> Case:
    """A config.json whose bytes or values are damaged."""
    data = rng.choice([LLAMA, MIXTRAL, DEEPSEEK])
    if rng.random() < 0.6:
        content = json.dumps(of_data(data, rng), indent=1).encode()
    else:
        content = of_text(json.dumps(data, indent=1), rng)
    files = {"config.json": content, "small.yaml": but(MODEL, "{hf: config.json}").encode()}
    return Case("config.json", files, ("lint", "small.yaml"), ("config.json", "small.yaml"))


@cache
def network_file() -> bytes:
    """A small network as ONNX, or nothing where that is not installed."""
    try:
        from tests.support.onnx_networks import mlp
    except BaseException:  # pytest's way to skip is no Exception
        return b""
    with tempfile.TemporaryDirectory() as folder:
        return mlp(Path(folder) / "network.onnx").read_bytes()


def network(rng: random.Random) -> Case:
    """A network whose bytes are damaged."""
    scenario = {
        "simcluster": 1, "name": "network", "cluster": {"use": "cpu-server", "hosts": 1},
        "model": {"onnx": "network.onnx"}, "parallel": {"mesh": {"data": 2}},
        "training": {"global_batch": 8, "micro_batch": 4, "seq_len": 1, "precision": "fp32"},
    }  # fmt: skip
    files = {
        "network.onnx": of_bytes(network_file() or b"none", rng),
        "small.yaml": yaml_of(scenario).encode(),
    }
    return Case("ONNX", files, ("lint", "small.yaml"), ("network.onnx", "small.yaml"))


# -- tables ---------------------------------------------------------------------------------------------


@cache
def lines_of(name: str) -> str:
    """The titles and a few rows of a table of measurements."""
    lines = (ROOT / "tests" / "accuracy" / name).read_text().split("\n")
    return "\n".join([lines[0], *lines[1:40:13]]) + "\n"


def table(rng: random.Random) -> Case:
    """A table of measured collectives or runs whose cells or lines are damaged."""
    text = lines_of("collectives.csv" if rng.random() < 0.8 else "memory.csv")
    if rng.random() < 0.6:
        rows = [line.split(",") for line in text.split("\n")]
        for _ in range(rng.choice([1, 2])):
            row = rng.choice(rows)
            row[rng.randrange(len(row))] = str(
                rng.choice([each for each in HOSTILE if not isinstance(each, (list, dict))])
            )
        content = "\n".join(",".join(row) for row in rows).encode(errors="replace")
    else:
        content = of_text(text, rng)
    return Case(
        "CSV",
        {"table.csv": content},
        ("accuracy", "table.csv", *rng.choice([(), ("--csv",)])),
        ("table.csv",),
    )


def parts(rng: random.Random) -> Case:
    """A file of unequal parts of an exchange."""
    text = "\n".join(",".join(str(rng.randrange(5)) for _ in range(2)) for _ in range(2)) + "\n"
    arguments = (
        "collective",
        "all_to_all_v",
        "--cluster",
        "cpu-server",
        "--sizes",
        "1KiB",
        "--parts",
        "parts.csv",
    )
    return Case("parts", {"parts.csv": of_text(text, rng)}, arguments, ("parts.csv",))


def timetable(rng: random.Random) -> Case:
    """A schedule written as text."""
    text = "F0 F1 F2 B0 B1 B2\nF0 B0 F1 I1 F2 B2 W1\n"
    return Case("schedule", {"mine.txt": of_text(text, rng)}, ("schedule", "mine.txt"), ("mine.txt",))


# -- files of other tools -------------------------------------------------------------------------------


def foreign(rng: random.Random) -> Case:
    """A script or a configuration of another framework."""
    name = rng.choice(sorted(SAMPLES))
    kind, given = SAMPLES[name]
    arguments = ["import", kind, name, "--cluster", given.cluster, "-o", "made.yaml"]
    arguments += ["--hosts", str(given.hosts)] if given.hosts else []
    arguments += ["--model", given.model] if given.model else []
    for key, value in given.settings:
        arguments += ["--set", f"{key}={value}"]
    text = text_of(name)
    data = json.loads(text) if name.endswith(".json") else data_of(text) if name.endswith(".yaml") else None
    if data is not None and rng.random() < 0.6:
        dumped = json.dumps(of_data(data, rng)) if name.endswith(".json") else yaml_of(of_data(data, rng))
        content = dumped.encode(errors="replace")
    else:
        content = of_text(text, rng)
    return Case("import", {name: content}, tuple(arguments), (name, "--"))


# -- what was saved -------------------------------------------------------------------------------------


@cache
def saved_run() -> bytes:
    """The small scenario's run as a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.simrun"
        simulate(Scenario.of(data_of(SMALL))).save(path)
        return path.read_bytes()


def saved(rng: random.Random) -> Case:
    """A saved run whose bytes, tables or documents are damaged."""
    content = rebuilt(saved_run(), rng) if rng.random() < 0.6 else of_bytes(saved_run(), rng)
    files = {"whole.simrun": saved_run(), "broken.simrun": content}
    return Case("saved run", files, ("compare", "whole.simrun", "broken.simrun"), ("broken.simrun",))


def rebuilt(content: bytes, rng: random.Random) -> bytes:
    """An archive of which one member is damaged, is lost, or holds a pickle; its checksums are right."""
    import io
    import pickle
    import zipfile

    import numpy as np

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    way = rng.choice(["bytes", "bytes", "lose", "pickle", "data"])
    if way == "lose":
        del members[name]
    elif way == "pickle" and name.endswith(".npz"):
        buffer = io.BytesIO()
        np.savez(buffer, start=np.array([Executes()], dtype=object))
        members[name] = buffer.getvalue()
    elif way == "pickle":
        members[name] = pickle.dumps(Executes())
    elif way == "data" and name.endswith(".json"):
        members[name] = json.dumps(of_data(json.loads(members[name]), rng)).encode(errors="replace")
    else:
        members[name] = of_bytes(members[name], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for each, inner in members.items():
            archive.writestr(each, inner)
    return buffer.getvalue()


class Executes:
    """Whose pickle makes the file that says that something was executed."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, ...]]:
        import os

        from tests.attack.damage import EXECUTED

        return os.system, (f"touch {EXECUTED}",)


@cache
def baseline_file() -> bytes:
    """The small scenario's baseline."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "small.yaml").write_text(SMALL)
        path = Path(folder) / "baseline.json"
        scenario = Scenario.load(Path(folder) / "small.yaml")
        save(path, {"small.yaml": Record.of(simulate(scenario))})
        return path.read_bytes()


def baseline(rng: random.Random) -> Case:
    """A baseline whose bytes or figures are damaged."""
    if rng.random() < 0.6:
        content = json.dumps(of_data(json.loads(baseline_file()), rng)).encode(errors="replace")
    else:
        content = of_text(baseline_file().decode(), rng)
    files = {"baseline.json": content, "small.yaml": SMALL.encode()}
    return Case("baseline", files, ("check", "small.yaml", "--baseline", "baseline.json"), ("baseline.json",))


KINDS: tuple[Callable[[random.Random], Case], ...] = (
    *(scenario, scenario, scenario, option, config, config, network),
    *(table, parts, timetable, foreign, foreign, saved, baseline),
)
"""Every kind of input, some of them more often."""
