"""From a measured run to the scenario that predicts it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from simcluster.accuracy.hardware import HardwareSpec, hardware_of
from simcluster.accuracy.runs.inter_host_rate import host_rate
from simcluster.accuracy.runs.row import MeasuredRun
from simcluster.accuracy.runs.words import FrameworkWords, known_words
from simcluster.accuracy.table import parse_whole
from simcluster.cluster import Host, load_cluster
from simcluster.errors import PlanError
from simcluster.plan import layers_by_block_method, ulysses_entry

_SIZES = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
_NEEDED = ("layers", "hidden", "heads", "vocab", "seq_len", "num_devices", "micro_batch", "global_batch")
_SCHEDULES = {
    **dict.fromkeys(("", "none", "1f1b"), "1f1b"),
    "interleaved-1f1b": "interleaved",
    "gpipe": "gpipe",
    "dualpipev": "dualpipe_v",
    "v-half": "v_half",
}
"""How rows call schedules; 1F1B of several chunks a device is interleaved."""

_BLOCK = re.compile(r"full \(block, (\d+)\)")

_SHARDED = ("fsdp", "torchtitan", "llm-foundry")
"""Profiles whose third ZeRO stage is PyTorch's FSDP."""


def scenario_of(run: MeasuredRun, entry: HardwareSpec | None = None) -> dict[str, Any]:
    """The scenario of a run, as plain data; ``entry`` is its hardware, if not that of the table.

    PlanError with the reason where a row leaves something open, or has what no scenario says.
    """
    _check(run)
    words, notes = known_words(), run.words.get("notes", "")
    if unsaid := words.unsaid(notes, run.words["model"]):
        raise PlanError(unsaid)
    profile = framework_of(run).profile
    precision = words.precision(run.words["precision"], notes)
    if precision is None:
        raise PlanError(f"no number formats are known as '{run.words['precision']}'")
    optimizer = "lamb" if "LAMB" in notes else "adamw"
    return {
        "simcluster": 1,
        "name": run.name,
        "cluster": _cluster(run, entry),
        "framework": profile,
        "model": _model(run),
        "training": {
            "global_batch": run.counts["global_batch"],
            "micro_batch": run.counts["micro_batch"],
            "seq_len": run.counts["seq_len"],
            "precision": precision,
            "optimizer": optimizer,
        },
        "parallel": _parallel(run, profile),
    }


def framework_of(run: MeasuredRun) -> FrameworkWords:
    """What is known of a run's framework; PlanError if nothing is."""
    stated = (run.words.get(name, "") for name in ("framework", "model", "source", "notes"))
    framework = known_words().framework(*stated)
    if framework is None:
        raise PlanError(f"no profile is known for the framework '{run.words['framework']}'")
    return framework


def _check(run: MeasuredRun) -> None:
    lacking = [name for name in _NEEDED if name not in run.counts]
    if lacking:
        raise PlanError(f"the row does not state {', '.join(lacking)}")
    if run.words.get("offload", "") not in ("", "none"):
        raise PlanError("offload")
    _schedule(run)


def _cluster(run: MeasuredRun, entry: HardwareSpec | None) -> dict[str, Any]:
    hardware = run.words["hardware"]
    stated = run.words.get("inter_link", "") if entry is None else ""
    entry = entry or hardware_of(hardware, run.words.get("notes", ""))
    if entry is None:
        raise PlanError(f"no host of the catalog is known to be '{hardware}'")
    devices, host = run.counts["num_devices"], load_cluster(entry.cluster).host
    per_host = min(run.count("devices_per_host", host.num_devices), host.num_devices)
    written: dict[str, Any] = {"use": entry.cluster}
    if entry.device:
        written["device"] = dict(entry.device)
    if devices >= per_host and per_host == host.num_devices:
        if devices % per_host:
            raise PlanError(f"{devices} devices do not fill hosts of {per_host}")
        hosts = devices // per_host
    else:
        hosts = math.ceil(devices / per_host)
        if devices % hosts:
            raise PlanError(f"{devices} devices do not spread evenly over {hosts} hosts")
        written["devices"] = devices // hosts
        written["network"] = {"nics": min(host.network.nics, devices // hosts)}
    if hosts > 1 and (cards := _cards(host, devices // hosts, stated)):
        written["network"] = cards
    if host.pod is not None and (pods := math.ceil(hosts / host.num_hosts_per_pod)) > 1 and hosts % pods == 0:
        # A scheduler gives a job equally many hosts of each (Slurm's --segment): no group of ranks straddles.
        written["pod"] = {"hosts": hosts // pods}
    if set(written) == {"use"}:
        return {"use": entry.cluster, "hosts": hosts}
    return {"host": written, "hosts": hosts}


def _cards(host: Host, num_devices: int, stated: str) -> dict[str, Any]:
    """The network cards of a host as a row states them; nothing where the catalog has as much.

    Fewer or more of the catalog's cards, if these make up the rate; otherwise as many slower or faster ones.
    """
    rate, network = host_rate(stated, num_devices), host.network
    card_rate = network.link.bandwidth * 8
    if rate is None or rate == card_rate * network.nics:
        return {}
    count = rate / card_rate
    if count >= 1 and count.is_integer() and num_devices % count == 0:
        return {"nics": int(count)}
    cards = min(network.nics, num_devices)
    return {"nics": cards, "bandwidth": f"{rate / cards / 1e9:g} Gbps"}


def _model(run: MeasuredRun) -> dict[str, Any]:
    known = known_words().model(run.words["model"], run.words.get("notes", ""))
    if known is None:
        raise PlanError(f"no model is known as '{run.words['model']}'")
    model, sizes = known
    if sizes:
        model |= {name: run.counts[name] for name in _SIZES if name in run.counts}
        if model.get("family") == "gpt" or str(model.get("use", "")).startswith("mpt"):
            longest = max(run.counts["seq_len"], int(model.get("max_positions", 0)))
            if model.get("positions", "learned") == "learned":
                model["max_positions"] = longest
            else:
                model.pop("max_positions", None)
        if model.get("family") == "llama" and "ffn" not in model:
            raise PlanError("the row does not state ffn")
    return model


def _schedule(run: MeasuredRun) -> dict[str, Any]:
    """The pipeline schedule; nothing where it is the usual one. PlanError for one that is not simulated."""
    named, chunks = run.words["schedule"], run.count("virtual_pipeline")
    if named not in _SCHEDULES:
        raise PlanError(f"the schedule {named}")
    kind = _SCHEDULES[named]
    if run.count("pipeline") == 1:
        return {}
    if kind in ("1f1b", "interleaved") and chunks > 1:
        return {"kind": "interleaved", "chunks": chunks}
    if kind == "interleaved" or chunks > (2 if kind in ("dualpipe_v", "v_half") else 1):
        raise PlanError(f"the schedule {named} with {chunks} chunks a device")
    return {} if kind == "1f1b" else {"kind": kind}


def _recomputed(run: MeasuredRun) -> Mapping[str, Any]:
    """What is computed again; ``full (block, n)`` is Megatron's: of every chunk of layers the first n."""
    words = run.words["recompute"]
    if block := _BLOCK.fullmatch(words):
        stages, chunks = run.count("pipeline"), run.count("virtual_pipeline")
        return {"layers": layers_by_block_method(int(block[1]), run.counts["layers"], stages, chunks)}
    again = known_words().computed_again(words)
    if again is None:
        raise PlanError(f"the recomputation '{words or 'not stated'}'")
    return again


def _context(run: MeasuredRun, axes: list[str]) -> dict[str, Any]:
    """How ranks with parts of sequences work together; ``axes`` are those over which heads may be split."""
    algorithm = known_words().context(run.words["framework"], run.words.get("notes", ""))
    if algorithm is None:
        raise PlanError("context parallelism in a way that the row does not state")
    if algorithm == "ring":
        return {"context": "ring"}
    return {"strategies": [ulysses_entry(axes)]}


def _parallel(run: MeasuredRun, profile: str) -> dict[str, Any]:
    tensor, data, experts = run.count("tensor"), run.count("data"), run.count("expert")
    context = run.count("context")
    mesh = {
        "pipeline": run.count("pipeline"),
        "data": data // experts,
        "expert": experts,
        "context": context,
        "tensor": tensor,
    }
    if data % experts:
        raise PlanError(f"{experts} expert ranks do not divide {data} data-parallel ones")
    parallel: dict[str, Any] = {
        "mesh": {axis: size for axis, size in mesh.items() if size > 1 or axis == "data"}
    }
    if tensor > 1:
        split = run.words["sequence_parallel"] == "true"
        parallel["recipe"] = "megatron_sp" if split else "megatron"
        if overlap := known_words().overlap(run.words.get("notes", ""), tensor):
            parallel["overlap"] = {"tensor": overlap}
    if context > 1:
        parallel |= _context(run, [axis for axis in ("tensor", "context") if mesh[axis] > 1])
    stage = parse_whole(run.words["zero_stage"] or "0")
    if stage == 3 and profile in _SHARDED:
        parallel["optimizer_sharding"] = "fsdp"
        if tensor == 1:
            parallel["recipe"] = "fsdp"
            del parallel["optimizer_sharding"]
    elif stage in range(4):
        parallel["optimizer_sharding"] = {"zero": stage}
    else:
        raise PlanError(f"the ZeRO stage '{run.words['zero_stage']}'")
    again = _recomputed(run)
    if schedule := _schedule(run):
        parallel["schedule"] = schedule
    return parallel | ({"recompute": dict(again)} if again else {})
