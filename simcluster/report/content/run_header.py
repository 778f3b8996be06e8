"""What was simulated, in a few labelled lines: the same in the terminal and in a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from simcluster import units
from simcluster.report.content.inference_figures import formats_text, prompts_text
from simcluster.report.content.search_figures import search_text
from simcluster.report.content.statements import rate_unit
from simcluster.trace import RunDocument

IDEAL = "ideal"
"""The framework profile that wastes nothing."""


def header_rows(documents: RunDocument) -> list[tuple[str, str]]:
    """(label, text) for model, cluster, plan, batch, numbers, and what the framework changes."""
    plan, topology = documents["plan"], documents["topology"]
    rows = [
        ("model", _model(plan)),
        ("cluster", _cluster(topology)),
        ("plan", _plan(plan)),
        *([("search", search_text(plan["search"]))] if "search" in plan else []),
        ("batch", _batch(plan)),
        ("numbers", _numbers(plan)),
    ]
    if "inputs" in plan:
        rows.append(("data", _inputs(plan["inputs"])))
    if "parameter_broadcast" in plan:
        rows.append(("start", _start(plan["parameter_broadcast"])))
    changes = plan.get("framework_changes", [])
    return [*rows, ("framework", f"{plan['framework']}: {'; '.join(changes)}")] if changes else rows


def short_header_rows(documents: RunDocument) -> list[tuple[str, str]]:
    """The same; of several changes by the framework how many there are, and the option that tells them."""
    plan = documents["plan"]
    changes = len(plan.get("framework_changes", []))
    short = ("framework", f"{plan['framework']} makes {changes} changes; -v lists them")
    rows = header_rows(documents)
    return [short if label == "framework" and changes > 1 else (label, text) for label, text in rows]


def _model(plan: RunDocument) -> str:
    parameters = f"{units.count(plan['parameters'])} parameters"
    if "active_parameters" in plan:
        parameters += f", {units.count(plan['active_parameters'])} active"
    if "trained_parameters" in plan:
        parameters += f", {units.count(plan['trained_parameters'])} trained"
    return f"{plan['model']}, {parameters}; {_profile(plan['framework'])}"


def _profile(name: str) -> str:
    """The framework profile; of ideal, and of changes of it, that it is a bound."""
    bound = " (a bound, not an estimate)" if name.partition(",")[0] == IDEAL else ""
    return f"framework profile {name}{bound}"


def _counted(number: int, noun: str, plural: str = "s") -> str:
    """``1 layer``, ``2,048 layers``."""
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def _cluster(topology: RunDocument) -> str:
    whole = "; ".join(_hosts(group) for group in topology.get("groups", [topology]))
    return whole + (f"; {_changed(topology['changed'])}" if "changed" in topology else "")


def _hosts(group: RunDocument) -> str:
    """``32 x dgx-h100 = 256 x h100-sxm of 80 GiB``, or ``32 of 72 x ...`` where others have the rest."""
    hosts, per_host = group["hosts"], group["devices_per_host"]
    memory = units.size(group["device_memory_bytes"])
    part = f" of {group['of_hosts']:,}" if "of_hosts" in group else ""
    devices = group.get("devices", hosts * per_host)  # of those that ranks run on, where that is not all
    equal = "=" if devices == hosts * per_host else "with"
    return f"{hosts:,}{part} x {group['host']} {equal} {devices:,} x {group['device']} of {memory}"


def _changed(changed: RunDocument) -> str:
    """``1 device changed: compute x 0.9``, or the range of the factors where they differ."""
    count = changed["devices"]
    ranges = [(name, *changed[name]) for name in ("compute", "memory_bandwidth") if name in changed]
    factors = [
        f"{name.replace('_', ' ')} x {low:.4g}" + (f" to {high:.4g}" if high != low else "")
        for name, low, high in ranges
    ]
    return f"{count:,} device{'s' if count > 1 else ''} changed: {', '.join(factors)}"


def _strategies(plan: RunDocument) -> str:
    """Where strategies come from."""
    if "search" in plan:
        return f"strategies by {plan['search']['search_mode']}"
    return f"recipe {plan['recipe']}" if plan["recipe"] else "written by hand"


def _plan(plan: RunDocument) -> str:
    mesh = " x ".join(f"{axis} {size}" for axis, size in plan["mesh"].items()) or "one device"
    parts = [mesh]
    if len(plan["layers_per_stage"]) > 1:
        count = len(plan.get("layers_per_chunk", ()))
        chunks = f" with {count} chunks a stage" if count > 1 else ""
        parts.append(f"{plan['schedule']['kind']}{chunks}, {_summed(plan['layers_per_stage'])} layers")
    parts.append(_strategies(plan))
    parts += _recomputed(plan["recompute"])
    # Files of earlier versions say nothing about it.
    parts += plan.get("fusion", [])
    parts += _offloaded(plan.get("offload", {}))
    parts += [f"{', '.join(plan['host'])} on the host"] if plan.get("host") else []
    return "; ".join(parts)


def _offloaded(rules: RunDocument) -> Iterator[str]:
    """``gradients, half of optimizer states to the host``, and so on, by place."""
    for place in dict.fromkeys(rule["to"] for rule in rules.values()):
        named = []
        for name, rule in rules.items():
            if rule["to"] != place:
                continue
            share = "" if rule["fraction"] == 1 else f"{units.percent(rule['fraction'])} of "
            some = "" if rule["match"] == ["*"] else f" of {', '.join(rule['match'])}"
            named.append(f"{share}{name.replace('_', ' ')}{some}")
        yield f"{', '.join(named)} to the {place}"


def _recomputed(again: RunDocument) -> Iterator[str]:
    """``recompute all layers``, and so on; nothing if everything is kept."""
    layers = again["layers"]
    text = ""
    if isinstance(layers, int):
        text = f"recompute {_counted(layers, 'layer')} of each stage"
    elif isinstance(layers, str) and layers != "none":
        text = f"recompute {layers} layers"
    elif isinstance(layers, list):
        counted = all(isinstance(entry, int) for entry in layers)
        named = ", ".join(map(str, layers))
        text = f"recompute {_summed(layers)} layers of the stages" if counted else f"recompute {named}"
    # Files of earlier versions know neither of these.
    how = "" if again.get("collectives", True) else ", not their collectives"
    if text:
        sliced = ", keeping slices of their inputs" if again.get("slice") else ""
        gathered = ", gathering their weights again" if again.get("gathers") else ""
        yield f"{text}{how}{gathered}{sliced}"
    if again["operators"]:
        kept = ", ".join(map(_operators, again.get("keep_outputs", ())))
        keeping = f", keeping what others read of {kept}" if kept else ""
        yield f"recompute {', '.join(map(_operators, again['operators']))}{'' if text else how}{keeping}"


def _operators(pattern: str) -> str:
    """Operators by pattern; of many layers, or other parts, that are listed one by one their number."""
    listed = re.fullmatch(r"(\w+)\.\{([\d,]+)\}\.(.*)", pattern)
    if listed is None or listed[2].count(",") < 4:
        return pattern
    return f"{listed[3]} of {listed[2].count(',') + 1} {listed[1]}"


def _summed(counts: Sequence[int]) -> str:
    """Numbers in order: ``4 x 20``, or ``7 + 14 x 8 + 7`` where they differ."""
    runs = [(count, len(list(run))) for count, run in groupby(counts)]
    return " + ".join(f"{times} x {count}" if times > 1 else str(count) for count, times in runs)


def _batch(plan: RunDocument) -> str:
    """The global batch, and how it is divided: data-parallel ways, accumulated micro-batches, samples."""
    tokens = plan["global_batch"] * plan["seq_len"]
    ways, micro_batches, samples = plan["data_parallel_ways"], plan["micro_batches"], plan["micro_batch"]
    each_way = f"{_counted(micro_batches, 'micro-batch', 'es')} x {samples:,}"
    divided = f"{_counted(ways, 'data-parallel way')} x {each_way}"
    if "batch_shares" in plan:
        shares = plan["batch_shares"]
        counts, axis = shares["micro_batches"], shares["axis"]
        others = f"{ways // len(counts):,} x " if ways > len(counts) else ""
        divided = f"{others}({_summed(counts)}) micro-batches along {axis} x {samples:,}"
    if "inference" in plan:
        return f"{prompts_text(plan)} = {divided}"
    whole = _counted(plan["global_batch"], "sample")
    if rate_unit(plan) == "tokens":
        whole += f" of {_counted(plan['seq_len'], 'token')} ({units.count(tokens)})"
    return f"{whole} = {divided}"


def _inputs(inputs: RunDocument) -> str:
    """Where samples come from, what they take on the way, and how long an epoch is."""
    parts = [f"from {inputs['source']}"]
    if inputs["sample_bytes"] is not None:
        parts[0] += f", {units.volume(inputs['sample_bytes'])} a sample"
    if inputs["decode_s"]:
        parts.append(
            f"{units.seconds(inputs['decode_s'])} of a core to decode one, {inputs['workers']} workers"
        )
    parts.append(f"{inputs['prefetch']} micro-batches ahead")
    text = ", ".join(parts)
    if isinstance(inputs["strategy"], str):
        text += f"; {inputs['strategy']}"
    if "epoch" not in inputs:
        return text
    epoch = inputs["epoch"]
    again = f", {_counted(epoch['repeated'], 'row')} read twice" if epoch["repeated"] else ""
    return (
        f"{text}; {epoch['rows']:,} rows in {epoch['num_shards']:,} shards: {epoch['steps']:,} steps{again}"
    )


def _start(broadcast: RunDocument) -> str:
    """What comes before the first step."""
    what = f"{units.volume(broadcast['bytes'])} of parameters in {broadcast['broadcasts']:,} broadcasts"
    return f"{what}, {units.seconds(broadcast['seconds'])} before the first step"


def _numbers(plan: RunDocument) -> str:
    if "inference" in plan:
        return formats_text(plan)
    precision = plan["precision"]
    master = "" if precision["master"] == "none" else f", {precision['master']} master weights"
    compute, matmul = precision["compute"], precision["matmul"]
    formats = compute if matmul == compute else f"{compute} with {matmul} matmuls"
    sharded = _sharded(plan["optimizer_sharding"])
    states = f", {_states(precision['optimizer_states'], plan['optimizer'])}{sharded}"
    limit = plan["gradient_clip"]
    clipped = "" if limit is None else f" clipped to norm {limit:g}"
    return f"{formats}, {precision['gradients']} gradients{clipped}{master}{states}"


def _states(formats: str, optimizer: str) -> str:
    """``fp32 adamw states``, or every state by its name where they differ."""
    if not formats:
        return f"{optimizer} without states"
    return f"{optimizer} with {formats}" if " " in formats else f"{formats} {optimizer} states"


def _sharded(sharding: RunDocument) -> str:
    """What lies sharded over which axes, and how weights are gathered."""
    axes = " and ".join(sharding["axes"])
    if not sharding["states"]:
        return ""
    if sharding["split"] == "parameters":
        return f", those of a parameter on one rank along {axes}"
    if not sharding["gradients"] and not sharding["weights"]:
        return f" sharded over {axes}"
    what = [name for name in ("weights", "gradients") if sharding[name]]
    text = f"; {', '.join(what)} and states sharded over {axes}"
    if sharding["weights"]:
        text += (
            ", gathered in forward and again in backward"
            if sharding["regather"]
            else ", gathered once for forward and backward"
        )
    return text
