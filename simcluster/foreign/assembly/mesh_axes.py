"""The mesh of a foreign file: the sizes of its axes, and what tensor, context and expert axes are for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from simcluster.foreign.assembly.pipeline_stages import Put
from simcluster.foreign.translation import Facts
from simcluster.plan import WHOLE_EXPERTS, expert_axes, ulysses_entry

_CHUNKS = 4
"""Chunks of Transformer Engine's pipelined overlap if no configuration says otherwise (from memory)."""


def state_mesh(facts: Facts, put: Put, devices: int, hosts: int) -> int:
    """Writes the axes, outermost first, and the recipe of tensor parallelism.

    Gives the data-parallel ways: what pipeline, context and tensor leave of ``devices``; 0, and a problem
    among the facts, if that is no whole number. ``hosts``: of the file, 0 where the user says how many.
    """
    axes = ("pipeline", "context", "tensor", "expert", "expert_tensor")
    if impossible := [axis for axis in axes if facts.get(axis, 1) < 1]:
        for axis in impossible:
            facts.wrong(facts.flag(axis), "expected a number of ranks, at least 1")
        return 0
    model = {axis: facts.get(axis, 1) for axis in ("pipeline", "context", "tensor")}
    ways: int
    ways, left = divmod(devices, math.prod(model.values()))
    shown = " x ".join(f"{axis} {size}" for axis, size in model.items() if size > 1)
    if left or not ways:
        flags = [facts.flag(axis) for axis, size in model.items() if size > 1]
        needed = math.prod(model.values())
        message = f"{devices} devices do not divide by {shown} = {needed}"
        facts.wrong(flags[0], message, _more_hosts(hosts, devices, needed))
        return 0
    if shown:
        facts.remark(f"data parallel: {devices} devices / ({shown}) = {ways}")
    said = facts.get("data")
    if said is not None and said != ways:
        facts.remark(f"{facts.flag('data')}: the cluster has devices for {ways} data-parallel ways")
    experts = _expert_ranks(facts, put, ways, model, hosts)
    sizes = {
        "pipeline": model["pipeline"],
        "data": ways // experts,
        "expert": experts,
        "context": model["context"],
        "tensor": model["tensor"],
    }
    for axis, size in sizes.items():
        if size > 1 or axis == "data":
            put(f"parallel.mesh.{axis}", size, facts.flag(axis) if axis in facts.known else None)
    if model["context"] > 1:
        _state_context(facts, {axis: model[axis] for axis in ("tensor", "context")})
    _state_recipe(facts, put, model["tensor"])
    _state_chunks(facts, put, model["tensor"])
    return ways


def _state_context(facts: Facts, sizes: Mapping[str, int]) -> None:
    """How attention gets along with parts of sequences: by heads over these axes, or with all keys."""
    if facts.get("context_kind") == "heads":
        heads = facts.get("model.heads", math.prod(sizes.values()))
        sparse = "sparse" in facts.get("model.latent", {})
        entry = ulysses_entry(sizes, heads, 1 if sparse else facts.get("model.kv_heads", heads))
        if entry is None:
            facts.unsupported(facts.flag("context_kind"), "heads do not divide: keys are gathered instead")
        else:
            before = facts.get("parallel.strategies", [])
            facts.replace("parallel.strategies", [*before, entry], facts.flag("context_kind"))
    elif facts.get("context_kind", "ring") == "ring":
        masked = facts.get("context_mask") == "general"
        facts.say("parallel.context", "ring_masked" if masked else "ring", facts.flag("context"))


def _more_hosts(hosts: int, devices: int, needed: int) -> str:
    """How many hosts a plan needs, where the file has some that have too few devices."""
    if not hosts or devices >= needed:
        return ""
    return f"the file says hosts: {hosts}; give --hosts {-(-needed * hosts // devices)} or more"


def _expert_ranks(facts: Facts, put: Put, ways: int, model: Mapping[str, int], hosts: int) -> int:
    """How many of the ranks that split the batch share the experts of a layer.

    Ranks that share experts are neighbours: they fill the tensor axis first, where experts stay whole,
    then the context axis, then that of the batch.
    """
    tensor, context, model_ranks = model["tensor"], model["context"], math.prod(model.values())
    ranks, expert_tensor = facts.get("expert", 1), facts.get("expert_tensor", tensor)
    if ranks <= 1:
        return 1
    ranks, axes = expert_axes(ranks, tensor, context, whole=expert_tensor == 1)
    flag = facts.flag("expert_tensor" if "tensor" in axes else "expert")
    if "tensor" not in axes and expert_tensor != tensor:
        other = facts.flag("expert_tensor")
        facts.unsupported(other, f"experts are split over {tensor} tensor ranks, as everything else")
    if ways % ranks:
        over = f" x {context} of the context axis" if context > 1 else ""
        message = f"{ways} data-parallel ways{over} / {facts.get('expert')}"
        hint = _more_hosts(hosts, ways * model_ranks, ranks * model_ranks)
        facts.wrong(facts.flag("expert"), f"{message} = {ways * context / facts.get('expert'):g}", hint)
        return 1
    if axes:
        put("parallel.roles.experts", ["expert", *axes] if ranks > 1 else [*axes], flag)
    if "tensor" in axes:
        facts.replace("parallel.strategies", [*facts.get("parallel.strategies", []), WHOLE_EXPERTS], flag)
    return int(ranks)


def _state_recipe(facts: Facts, put: Put, tensor: int) -> None:
    if facts.get("parallel.mode") == "auto":
        return  # a recipe would leave nothing to search
    if tensor > 1:
        split = bool(facts.get("sequence_parallel"))
        flag = facts.flag("sequence_parallel") if "sequence_parallel" in facts.known else None
        put("parallel.recipe", "megatron_sp" if split else "megatron", flag)
    elif facts.get("sequence_parallel"):
        facts.effectless(facts.flag("sequence_parallel"), "without tensor parallelism")


def _state_chunks(facts: Facts, put: Put, tensor: int) -> None:
    """Transformer Engine's overlap of what sequence parallelism gathers and scatters."""
    if not facts.get("tensor_chunks"):
        return
    flag = facts.flag("tensor_chunks")
    if tensor == 1 or not facts.get("sequence_parallel"):
        facts.effectless(flag, "without sequence parallelism")
        return
    whole = {"gathers": "whole_gathers", "reductions": "whole_scatters"}
    without = {key: "none" for key, name in whole.items() if facts.get(name)}
    if len(without) == len(whole):
        facts.effectless(flag, "neither gathers nor scatters overlap")
        return
    put("parallel.overlap.tensor", {"chunks": _CHUNKS, **without}, flag)
