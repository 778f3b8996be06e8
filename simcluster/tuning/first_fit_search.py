"""The first plan that fits into memory, by a short rule.

Tensor parallelism grows up to the devices of a host, then the pipeline grows; if nothing fits, the same
again with every layer recomputed. What is left is data parallelism with ZeRO-1, or with FSDP under profiles
of PyTorch's FSDP, and micro-batches of one sequence, or of many pictures; experts lie over as many
data-parallel ranks as divide them. Each candidate is first held against a bound on its memory, and simulated
if it could fit. This is a plan to begin with, not the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from simcluster.analysis import MemoryUse, MemoryVerdict, deciding_verdict, headroom
from simcluster.cluster import Cluster, ClusterSpec
from simcluster.deferred_dataclass import dataclass
from simcluster.document import validate_data
from simcluster.engine import RunSpec
from simcluster.errors import PlanError, ScenarioError
from simcluster.model import Model, ModelSpec, Routed
from simcluster.plan import IDEAL, FrameworkSpec
from simcluster.scenario import Scenario
from simcluster.trace import Run
from simcluster.tuning.searches import try_in_order
from simcluster.work import DType

TOKENS = 4 * 2**20
"""Tokens of a step that nobody asked for otherwise: what large language models are commonly trained with."""

SEQUENCE = 4096
"""Tokens of a sequence where neither the user nor a table of positions says it."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What a user asks for: names of the catalogs, and sizes where the usual ones will not do.

    ``framework`` is the profile that plans are tried with: ideal gives a bound of what is needed.
    """

    model: str
    cluster: str
    hosts: int
    seq_len: int | None = None
    global_batch: int | None = None
    framework: str = IDEAL


@dataclass(frozen=True, slots=True)
class Attempt:
    """One candidate: its scenario as plain data, and what became of it.

    ``use`` is that of the device that decides (at least that, if not ``simulated``); ``refused`` says why the
    plan is impossible, if it is.
    """

    data: Mapping[str, Any]
    use: MemoryUse
    simulated: bool
    refused: str = ""

    @property
    def fits(self) -> bool:
        """Whether it was simulated and every device has the memory it needs, and its headroom."""
        return self.simulated and self.use.verdict is MemoryVerdict.FITS

    @property
    def plan(self) -> str:
        """The plan in a few words."""
        mesh = " x ".join(f"{axis} {size}" for axis, size in self.data["parallel"]["mesh"].items())
        again = self.data["parallel"]["recompute"]["layers"] == "all"
        return f"{mesh}, recomputing all layers" if again else mesh


@dataclass(frozen=True)
class FirstFit:
    """Every candidate that was looked at, in order; the last one fits if any does."""

    attempts: tuple[Attempt, ...]

    @property
    def chosen(self) -> Attempt | None:
        """The plan that fits."""
        return next((attempt for attempt in self.attempts if attempt.fits), None)

    @property
    def nearest(self) -> Attempt | None:
        """Of those that were simulated, else of all possible ones, the one that lacks least."""
        possible = [attempt for attempt in self.attempts if not attempt.refused]
        simulated = [attempt for attempt in possible if attempt.simulated]
        return min(simulated or possible, key=lambda attempt: attempt.use.lacking, default=None)


def search_first_fit(
    start: SearchRequest, simulate: Callable[[Scenario], Run], watch: Callable[[Attempt], None] | None = None
) -> FirstFit:
    """Tries candidates with ``simulate`` until one fits; ``watch`` is called with each attempt.

    Raises ScenarioError for names or sizes that are wrong.
    """
    search = _Search(start, simulate)
    return FirstFit(tuple(try_in_order(map(search.attempt, search.candidates()), watch)))


class _Search:
    def __init__(self, start: SearchRequest, simulate: Callable[[Scenario], Run]) -> None:
        self.start, self.simulate = start, simulate
        cluster = {"use": start.cluster, "hosts": start.hosts}
        self.cluster: Cluster = _checked("--cluster", cluster, ClusterSpec).build()
        self.model: Model = _checked("--model", {"use": start.model}, ModelSpec).build(Path())
        self.headroom = headroom(_checked("--framework", {"use": start.framework}, FrameworkSpec), RunSpec())
        longest = self.model.max_seq_len
        self.seq_len = start.seq_len or self.model.fixed_seq_len or min(SEQUENCE, longest or SEQUENCE)
        if longest is not None and self.seq_len > longest:
            raise ScenarioError(f"--seq-len {self.seq_len}: {start.model} has {longest} positions")
        refusal = self.model.seq_len_error(self.seq_len)
        if refusal:
            raise ScenarioError(f"--seq-len {self.seq_len}: {refusal}")
        self.fully_sharded = FrameworkSpec.root(start.framework) == "fsdp"
        peak = self.cluster.host.device.peak
        self.precision = next(dtype for dtype in (DType.BF16, DType.FP16, DType.FP32) if dtype in peak)

    def candidates(self) -> Iterator[dict[str, Any]]:
        """Scenarios in the order of the rule."""
        devices = self.cluster.num_devices
        # Without heads there is nothing that tensor parallelism is known to split.
        heads = self.model.dimensions.get("heads", 1)
        widest = [
            size
            for size in range(1, self.cluster.host.num_devices + 1)
            if devices % size == 0 and heads % size == 0
        ]
        deepest = [size for size in range(2, self.model.num_layers + 1) if devices // widest[-1] % size == 0]
        sizes = [(tensor, 1) for tensor in widest] + [(widest[-1], stages) for stages in deepest]
        possible = [(tensor, stages, self.batch(tensor, stages)) for tensor, stages in sizes]
        for layers in ("none", "all"):
            for tensor, stages, batch in possible:
                hopeless = self.least(tensor, stages) + self.headroom > self.cluster.host.device.memory
                if batch and not (hopeless and layers == "all"):
                    yield self.scenario(tensor, stages, batch, layers)
        if not any(batch for _, _, batch in possible):
            ways = devices // widest[-1]
            raise ScenarioError(
                f"--global-batch {self.start.global_batch}: no plan divides it; {devices} devices / tensor "
                f"{widest[-1]} leave {ways} data-parallel ways",
                hint=f"give a multiple of {ways}",
            )

    def batch(self, tensor: int, stages: int) -> int:
        """Samples of a step: as asked, else as usual, mostly by their tokens; 0 if that cannot be divided.

        Every data-parallel rank has at least as many samples as there are stages.
        """
        ways = self.cluster.num_devices // tensor // stages
        if self.start.global_batch is None and self.model.samples:
            return self.model.samples * stages * ways
        if self.start.global_batch is None:
            return max(-(-TOKENS // self.seq_len // ways), stages) * ways
        count, left = divmod(self.start.global_batch, ways)
        return 0 if left or count < stages else self.start.global_batch

    def scenario(self, tensor: int, stages: int, batch: int, recomputed: str) -> dict[str, Any]:
        """A candidate as plain data."""
        start = self.start
        ways = self.cluster.num_devices // tensor // stages
        expert = self.spread(ways)
        mesh = {"pipeline": stages, "data": ways // expert, "expert": expert, "tensor": tensor}
        parallel: dict[str, Any] = {
            "mesh": {axis: size for axis, size in mesh.items() if size > 1 or axis == "data"},
        }
        if tensor > 1:
            parallel["recipe"] = "megatron_sp" if self.seq_len % tensor == 0 else "megatron"
        if stages > 1:
            parallel["schedule"] = {"kind": "1f1b"}
        sharding = "fsdp" if self.fully_sharded else {"zero": 1}
        parallel |= {"optimizer_sharding": sharding, "recompute": {"layers": recomputed}}
        count = self.cluster.num_devices
        samples, left = divmod(batch // ways, stages)
        return {
            "simcluster": 1,
            "name": f"{start.model} on {count} {self.cluster.host.device.name}",
            "cluster": {"use": start.cluster, "hosts": start.hosts},
            "framework": start.framework,
            "model": {"use": start.model},
            "training": {
                "global_batch": batch,
                "micro_batch": samples if self.model.samples and not left else 1,
                "seq_len": self.seq_len,
                "precision": str(self.precision),
                "optimizer": "adamw",
            },
            "parallel": parallel,
        }

    def attempt(self, data: dict[str, Any]) -> Attempt:
        """The candidate with what it needs: by the bound, and if it could fit by simulation."""
        capacity = self.cluster.host.device.memory
        mesh = data["parallel"]["mesh"]
        least = self.least(mesh.get("tensor", 1), mesh.get("pipeline", 1))
        bound = MemoryUse(least, 0, capacity, self.headroom)
        if bound.verdict is not MemoryVerdict.FITS:
            return Attempt(data, bound, simulated=False)
        try:
            summary = self.simulate(Scenario.of(data)).documents["summary"]
        except PlanError as error:
            return Attempt(data, bound, simulated=False, refused=error.problems[0].message)
        return Attempt(data, deciding_verdict(summary), simulated=True)

    def least(self, tensor: int, stages: int) -> int:
        """A lower bound on the bytes of the fullest device: parameters, gradients and states, evenly spread.

        What tensor ranks hold in common, embeddings on the end stages, activations and buffers come on top.
        """
        ways = self.cluster.num_devices // tensor // stages
        whole = self.model.num_parameters
        if self.fully_sharded:  # shards of fp32 parameters, of two fp32 moments, and of gradients
            return whole * (12 + self.precision.itemsize) // self.cluster.num_devices
        experts = self.model.num_expert_parameters if isinstance(self.model, Routed) else 0
        held = whole - experts + experts / self.spread(ways)
        weight = self.precision.itemsize
        states = 8 + (4 if weight < 4 else 0)  # two fp32 moments, and the fp32 master copy of shorter weights
        return int((held * 2 * weight + whole * states / ways) / (tensor * stages))

    def spread(self, ways: int) -> int:
        """Over how many data-parallel ranks the experts lie."""
        routed = isinstance(self.model, Routed) and self.model.num_experts
        return math.gcd(ways, routed) if routed else 1


def _checked(option: str, data: dict[str, Any], section: Any) -> Any:
    """A section from options; ScenarioError that names the option instead of a key path."""
    try:
        return validate_data(data, section)
    except ScenarioError as error:
        problem = error.problems[0]
        shown = data["hosts"] if problem.path == "hosts" else data["use"]
        name = "--hosts" if problem.path == "hosts" else option
        raise ScenarioError(f"{name} {shown}: {problem.message}", hint=problem.hint) from None
