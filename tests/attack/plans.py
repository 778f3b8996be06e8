"""Random scenarios: a cluster, a small model, a mesh and everything that a plan can say, by a seed.

Most are possible; what is not has to be refused in words. Each is plain data as a YAML file has it.
"""

from __future__ import annotations

import math
import random
from typing import Any

from simcluster.document import validate_data
from simcluster.errors import SimclusterError
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.plan.spec.schedule_spec import ScheduleSpec, schedule_kinds
from tests.attack.models import FAMILIES, USUAL, Section, Wanted, sequence, some
from tests.support.compositions import (
    CONSTANTS,
    CORE,
    HOSTED,
    OFFLOAD,
    RECOMPUTE,
    SHARDINGS,
    ULYSSES,
    scheduled,
)
from tests.support.hosts import host

DEVICES = ("cpu-server", "dgx-h100", "dgx-h100", "dgx-a100", "atlas-800t-a2", "atlas-800")
PROFILES = sorted(FrameworkSpec.entries())
LAWS = ("uniform", "zipf:1.2", "zipf:2.5", "normal:0.3", "normal:1")
PLAIN = ("1f1b", "gpipe")
"""Schedules under which kernels can wait for transfers, whatever the framework."""

MOST_RANKS = (2, 4, 4, 8, 8, 8, 16)


def plan(seed: int) -> dict[str, Any]:
    """The scenario of a seed."""
    return _Draw(random.Random(f"plan {seed}"), seed).scenario()


class _Draw:
    """One scenario in the making: what is drawn first limits what follows."""

    def __init__(self, rng: random.Random, seed: int) -> None:
        self.rng, self.seed = rng, seed
        names = [*FAMILIES, *USUAL, *USUAL]
        self.family = rng.choice(names)
        self.careless = rng.random() < 0.15
        self.infers = rng.random() < (0.25 if self.family == "decoder" else 0.05 * self.careless)
        self.pads = rng.random() < 0.3
        self.mesh = self._mesh()
        self.ranks = math.prod(self.mesh.values())
        self.stages = self.mesh.get("pipeline", 1)

    def scenario(self) -> dict[str, Any]:
        """Everything, in the order in which people write it."""
        rng = self.rng
        self.host = hosts = self._host()
        schedule, micro_batches = self._schedule()
        layers = self.stages * self._chunks(schedule)
        wanted = Wanted(layers, self.mesh.get("tensor", 1), self.mesh.get("expert", 1), self.careless)
        model = FAMILIES[self.family](rng, wanted)
        task = self._inference(micro_batches) if self.infers else self._training(hosts, model, micro_batches)
        return {
            "simcluster": 1,
            "name": f"random plan {self.seed}",
            "cluster": self._cluster(hosts),
            **some(rng, 0.65, framework=rng.choice(PROFILES)),
            "model": model,
            **task,
            **self._data(),
            "parallel": self._parallel(schedule),
            **some(rng, 0.1, collectives={"algorithm": rng.choice(["ring", "tree", "direct", "auto"])}),
            "run": {"steps": 1 if self.infers else rng.choice([1, 1, 2]), "seed": self.seed % 7},
        }

    # -- hardware -------------------------------------------------------------------------------------------

    def _mesh(self) -> dict[str, int]:
        """Axes in some order that make at most so many ranks."""
        rng = self.rng
        chances: dict[str, tuple[float, list[int]]] = {
            "pipeline": (0.6 * (self.family != "wide_deep" or self.careless), [2, 2, 3, 4]),
            "data": (0.6, [2, 2, 3, 4]),
            "tensor": (0.4, [2, 2, 4]),
            "context": (0.2 * (self.family not in ("t5", "vit") or self.careless), [2]),
            "replica": (0.1, [2]),
            "expert": (0.7 if self.family == "mixture" else 0.05, [2, 2, 4]),
        }
        if self.infers and not self.careless:
            chances["context"] = (0.0, [])
        drawn = {
            name: rng.choice(sizes) for name, (chance, sizes) in chances.items() if rng.random() < chance
        }
        most = rng.choice(MOST_RANKS)
        while math.prod(drawn.values()) > most:
            drawn.pop(rng.choice([*drawn]))
        names = [*drawn]
        if rng.random() < 0.5:
            rng.shuffle(names)
        return {name: drawn[name] for name in names} or {"data": 1}

    def _host(self) -> Section:
        """Hosts of some devices of one kind."""
        rng = self.rng
        devices = rng.choice([each for each in (1, 2, 4, 8) if self.ranks % each == 0])
        whole = [each for each in DEVICES if each != "atlas-800" or devices in (4, 8)]
        base = rng.choice(DEVICES if self.careless else whole)
        made = (
            host(devices, cores=2, use=base) if base.startswith("dgx") else {"use": base, "devices": devices}
        )
        return made | {"network": {"nics": rng.choice([1, devices])}}

    def _cluster(self, host: Section) -> Section:
        rng = self.rng
        cluster: Section = {"host": host, "hosts": self.ranks // host["devices"]}
        if cluster["hosts"] > 1 and rng.random() < 0.1:
            first = rng.randrange(1, cluster["hosts"])
            other = {"use": "dgx-a100", "devices": host["devices"]}
            kinds = (({"host": host}, first), ({"host": other}, cluster["hosts"] - first))
            cluster = {"groups": [{**kind, "hosts": count} for kind, count in kinds]}
        elif rng.random() < 0.1:
            cluster["network"] = rng.choice(_NETWORKS)
        if rng.random() < 0.15:
            change = rng.choice([0.5, 0.9, {"normal": [1.0, 0.05]}])
            which = rng.choice([{"device": rng.randrange(self.ranks)}, {"devices": "all"}])
            cluster["changes"] = [{**which, rng.choice(["compute", "memory_bandwidth"]): change}]
        return cluster

    # -- what is done ---------------------------------------------------------------------------------------

    @property
    def ways(self) -> int:
        """Among how many ranks a batch is dealt out."""
        return math.prod(self.mesh.get(axis, 1) for axis in ("data", "expert", "replica"))

    def _training(self, host: Section, model: Section, micro_batches: int) -> dict[str, Section]:
        rng = self.rng
        self.micro_batch = micro_batch = rng.choice([1, 1, 2, 3, 4])
        training: Section = {
            "global_batch": micro_batch * micro_batches * self.ways,
            "micro_batch": micro_batch,
            "seq_len": rng.choice(sequence(self.family, model, pads=self.pads)),
        }
        if "data" in self.mesh and rng.random() < 0.1:
            shares = [rng.choice([1, 1, 2, 3]) for _ in range(self.mesh["data"])]
            training["batch_shares"] = {"data": shares}
            training["global_batch"] = micro_batch * micro_batches * sum(shares) * (self.ways // len(shares))
        training["precision"] = rng.choice(_PRECISIONS[host["use"]])
        kinds = ["sgd", "momentum", "adam", "adamw", "adamw", "lamb"]
        optimizer = {"kind": rng.choice(kinds), **CONSTANTS, **some(rng, 0.3, clip=0.05)}
        training["optimizer"] = optimizer | some(rng, 0.2, weight_decay=0.1)
        if "experts" in model and rng.random() < 0.6:
            training["routing"] = self._routing(model["experts"]["count"])
        return {"training": training}

    def _routing(self, experts: int) -> Any:
        """Who gets how many tokens; some experts may get none."""
        rng = self.rng
        if rng.random() < 0.4:
            return {"histogram": [rng.choice([0, 1, 1, 4]) for _ in range(experts - 1)] + [1]}
        return {
            "law": rng.choice(LAWS),
            "seed": rng.randrange(9),
            "drawn": rng.choice(["layer", "micro_batch"]),
        }

    def _inference(self, micro_batches: int) -> dict[str, Section]:
        rng = self.rng
        sizes = {
            "batch": 2 * micro_batches * self.ways,
            "prompt": rng.choice([4, 8]),
            "tokens": rng.choice([1, 4, 9]),
        }
        asked = {"precision": "bf16", "decode_steps": rng.choice(["all", 2, 3])}
        return {"inference": {**sizes, **asked} | some(rng, 0.4, micro_batch=2)}

    def _data(self) -> dict[str, Section]:
        source = self.rng.choice([{}, {"sample": "1 KB", "decode": "1 ms", "workers": 2}])
        return some(self.rng, 0.08 * self._has_processors, data={"prefetch": 2, **source})

    @property
    def _has_processors(self) -> bool:
        """Whether hosts have a memory and processors that are known, and something to do for them."""
        return self.careless or (not self.infers and self.host["use"].startswith("dgx"))

    # -- the plan -------------------------------------------------------------------------------------------

    def _schedule(self) -> tuple[Section, int]:
        """The section and how many micro-batches it takes."""
        rng = self.rng
        if self.infers:
            return {}, rng.choice([1, 2, 4])
        slices = self.careless or (self.family in ("decoder", "latent") and "context" not in self.mesh)
        kinds = [each for each in sorted(schedule_kinds()) if slices or not each.startswith("seq")]
        kind = rng.choice(kinds if self.stages > 1 or self.careless else PLAIN)
        section, micro_batches = scheduled(kind, self.stages, rng.choice([1, 2, 3, 4]))
        if kind not in PLAIN and not self.careless:
            section["p2p"] = "overlapped"
        else:
            section |= some(rng, 0.2, p2p=rng.choice(["blocking", "overlapped"]))
        return section, micro_batches

    def _chunks(self, schedule: Section) -> int:
        """Pieces of the model on every stage; one where the schedule cannot be."""
        try:
            chain = validate_data(schedule, ScheduleSpec).build().chain(self.stages)
        except SimclusterError:
            return 1
        return max(1, len(chain) // self.stages)

    def _parallel(self, schedule: Section) -> Section:
        rng = self.rng
        parallel: Section = {"mesh": self.mesh}
        if "replica" in self.mesh or "expert" in self.mesh:
            parallel["roles"] = {
                "batch": [each for each in self.mesh if each in ("data", "replica", "expert")]
            }
        recipes = _RECIPES if self.careless or "tensor" not in self.mesh else _RECIPES[:3]
        parallel |= some(rng, 0.6 if "tensor" in self.mesh else 0.1, recipe=rng.choice(recipes))
        if "tensor" in self.mesh and rng.random() < 0.15:
            parallel["overlap"] = {"tensor": 2}
        if "context" in self.mesh:
            attends = self.careless or self.family in ("decoder", "mixture", "latent")
            parallel |= rng.choice(
                [{}, {}, {"context": "ring"}, {"strategies": [_ulysses()]}][: 4 if attends else 2]
            )
        parallel |= {"uneven": "pad"} if self.pads else {}
        parallel |= some(rng, 0.1, redistribution="mindspore")
        parallel |= some(
            rng, 0.05 * ("tensor" in self.mesh or self.careless), propagate=True, recipe=rng.choice(recipes)
        )
        if self.infers:
            return parallel
        parallel["schedule"] = schedule
        parallel |= some(rng, 0.2 * (self.micro_batch % 2 == 0 or self.careless), copies=2)
        parallel |= some(rng, 0.6, optimizer_sharding=rng.choice([*SHARDINGS.values()]))
        parallel |= some(rng, 0.4, recompute=self._recompute())
        parallel |= some(rng, 0.3 * self._has_processors, offload=self._offload(parallel))
        parallel |= some(rng, 0.15 * self._has_processors, host=rng.choice([*HOSTED.values()]))
        return parallel | some(rng, 0.1, gradients_mean=rng.random() < 0.5)

    def _offload(self, parallel: Section) -> Section:
        """Gradients and weights leave devices only where they are sharded."""
        sharded = parallel.get("optimizer_sharding") in [SHARDINGS[name] for name in _IN_PARTS]
        whole = [each for each in OFFLOAD.values() if not {"gradients", "parameters"} & {*each}]
        return self.rng.choice([*OFFLOAD.values()] if sharded or self.careless else whole)

    def _recompute(self) -> Section:
        found = dict(self.rng.choice([*RECOMPUTE.values()]))
        if found.get("layers") == "first":
            found["layers"] = [1] + [0] * (self.stages - 1)
        return found | ({"operators": [CORE]} if "operators" in found else {})


_NETWORKS = (
    {"kind": "leaf_spine", "hosts_per_leaf": 1, "oversubscription": 2},
    {"kind": "leaf_spine", "hosts_per_leaf": 2},
    {"kind": "switch"},
    {"kind": "fat_tree", "hosts_per_leaf": 1, "leaves_per_block": 2, "oversubscription": [1, 2]},
)
_IN_PARTS = ("fsdp", "fsdp, kept", "gathered once, flat")
_RECIPES = ("megatron", "megatron_sp", "megatron_sp", "pangu", "data", "fsdp")
_FP8 = {"compute": "bf16", "matmul": "fp8", "fp8": {"communication": "fp8"}}
_PRECISIONS: dict[str, list[Any]] = {
    "cpu-server": ["fp32", "bf16"],
    "dgx-h100": ["fp32", "bf16", "fp16", "tf32", _FP8],
    "dgx-a100": ["fp32", "bf16", "fp16", "tf32"],
    "atlas-800t-a2": ["bf16", "fp16"],
    "atlas-800": ["fp16"],
}


def _ulysses() -> Section:
    """Heads in place of tokens inside of attention, over the axis of contexts."""
    return {**ULYSSES, "split": {"heads": "context"}}
