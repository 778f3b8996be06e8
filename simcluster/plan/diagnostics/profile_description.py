"""What a framework profile changes against the ideal one, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simcluster import units
from simcluster.plan.execution import Buckets, ExecutionPolicy


def describe_profile(changes: Mapping[str, Any]) -> list[str]:
    """A phrase for every change, as ``FrameworkSpec.changes`` gives them."""
    said = dict(changes)
    if "reduction.limit" in said:
        said.pop("reduction.bucket", None)
    return [describe_switch(key, value) for key, value in said.items()]


def describe_fusion(conduct: ExecutionPolicy) -> list[str]:
    """What the scenario says about fusion, in words; nothing if the profile decides."""
    if conduct.no_fusion:
        return ["no collectives fused"]
    if conduct.fusion is None:
        return []
    said = [
        f"{what} {_buckets(conduct, name)}"
        for name, what in _TRAVELLING.items()
        if name in conduct.fusion.searched or conduct.fusion.of_operation(name) is not None
    ]
    if said and conduct.fusion.ids:
        numbers = sorted(set(conduct.fusion.ids.values()))
        said.append(f"{len(conduct.fusion.ids)} parameters with fusion id {', '.join(map(str, numbers))}")
    return said


_TRAVELLING = {
    "all_reduce": "all-reduces of gradients",
    "reduce_scatter": "reduce-scatters of gradients",
    "all_gather": "all-gathers of weights",
}


def _buckets(conduct: ExecutionPolicy, name: str) -> str:
    """What closes the buckets of an operation."""
    assert conduct.fusion is not None
    buckets = conduct.fusion.of_operation(name)
    if name in conduct.fusion.searched:
        return f"as a search found best, {_closed(buckets)}"
    return _closed(buckets)


def _closed(buckets: Buckets | None) -> str:
    if buckets is None:
        return "as the profile has them"
    if buckets.closed_after:
        return f"cut in {len(buckets.closed_after)} places"
    if buckets.ends:
        return f"up to {', '.join(map(str, buckets.ends))} and the rest"
    if buckets.units is not None:
        return "by layer" if buckets.units == 1 else f"{buckets.units} layers together"
    if buckets.limit is None:
        return "in one bucket"
    first = f", the first to {units.size(buckets.first)}" if buckets.first else ""
    return "each by itself" if buckets.limit == 1 else f"fused to {units.size(buckets.limit)}{first}"


def describe_switch(key: str, value: Any) -> str:
    """What a key of a profile means with this value."""
    return _PHRASES[key](value)


def _ahead(count: int) -> str:
    if not count:
        return "gathers nothing ahead"
    return f"gathers up to {count} kernel{'s' * (count > 1)} ahead"


def _fuse(pairs: list[list[str]]) -> str:
    listed = ", ".join("+".join(pair) for pair in pairs)
    return f"fuses only {listed}" if listed else "fuses no operators"


def _passes(families: list[str]) -> str:
    listed = ", ".join(family.replace("_", " ") for family in families)
    return f"{listed} in passes of their own" if listed else "every norm as a whole"


def _accumulate(families: str | list[str]) -> str:
    if families == "all":
        return "every kernel adds its gradient itself"
    but = f", but for {', '.join(families)}" if families else ""
    return f"gradients added by kernels of their own{but}"


def _gradients(formats: str | Mapping[str, str]) -> str:
    if isinstance(formats, str):
        return "fp32 gradients" if formats == "fp32" else "gradients in the compute format"
    shown = {compute: compute if format == "compute" else format for compute, format in formats.items()}
    return "gradients " + ", ".join(f"{format} for {compute}" for compute, format in shown.items())


def _limit(size: Mapping[str, Any] | None) -> str:
    if not size:
        return "buckets without limit"
    if size.get("bytes") == "1 B":
        return "every gradient reduced by itself"
    if "bytes" in size:
        first = f", the first of {size['first_bytes']}" if "first_bytes" in size else ""
        return f"gradient buckets of {size['bytes']}{first}"
    least = f" or {size['elements_per_rank']:,} per data rank" if "elements_per_rank" in size else ""
    return f"gradient buckets of {size['elements']:,} elements{least}"


def _vocabulary(multiple: int) -> str:
    return (
        f"vocabulary to multiples of {multiple} per rank"
        if multiple > 1
        else "vocabulary padded only to be shared"
    )


def _value(figure: str | Mapping[str, Any]) -> str:
    """A figure of a profile, or one that a scenario gives in its place."""
    return figure if isinstance(figure, str) else str(figure["value"])


def _scratch(families: Mapping[str, float] | None) -> str:
    listed = ", ".join(f"{factor:g} x the operand of {name}" for name, factor in (families or {}).items())
    return f"kernels hold {listed} besides" if listed else "kernels hold nothing besides"


_PHRASES: Mapping[str, Callable[[Any], str]] = {
    "storage.allocator": lambda name: f"memory by the allocator {name}" if name else "no allocator",
    "storage.in_place": lambda names: f"gradients written in place: {', '.join(names) or 'none'}",
    "storage.scratch": _scratch,
    "storage.placeholders": lambda names: f"placeholders of weight gradients: {', '.join(names) or 'none'}",
    "storage.workspaces": "{} workspaces of the matmul library".format,
    "storage.headroom": lambda figure: f"{_value(figure)} of headroom" if figure else "no headroom",
    "storage.whole": lambda names: f"results held as one tensor: {', '.join(names) or 'none'}",
    "attention": {
        "flash": "attention in one kernel",
        "flash_1": "attention by FlashAttention's first release",
        "flash_2": "attention by FlashAttention-2",
        "unfused": "attention in kernels of their own",
    }.__getitem__,
    "logits": {"fp32": "fp32 logits", "compute": "logits in the compute format"}.__getitem__,
    "fuse": _fuse,
    "passes": _passes,
    "accumulate": _accumulate,
    "optimizer": {
        "together": "multi-tensor updates",
        "one_by_one": "one update kernel per parameter",
    }.__getitem__,
    "prefetch": lambda count: _ahead(count),
    "dispatch": "host dispatch x {:g}".format,
    "dispatch_time": "host dispatches an operator in {}".format,
    "graphs.launch": "a graph launched in {:g} x the time of an operator".format,
    "graphs.prefetch": lambda count: f"in graphs {_ahead(count)}",
    "graphs.fuse": lambda pairs: f"in graphs {_fuse(pairs or [])}",
    "collective_call": "host calls for a collective in {}".format,
    "gradients": _gradients,
    "fp8_transposes": {
        False: "casts to fp8 write one copy",
        True: "casts to fp8 write a transposed copy besides",
    }.__getitem__,
    "main_gradients": {
        True: "copied to the master's format for the update",
        False: "updates read gradients as they are",
    }.__getitem__,
    "weights": {
        "copied": "16-bit weights beside the master copy",
        "cast": "fp32 weights, cast per forward",
        "cast_twice": "fp32 weights, cast per forward and per backward",
    }.__getitem__,
    "recompute": {
        "whole": "recomputed layers run their whole forward again",
        "needed": "of a recomputed layer only what the backward needs",
    }.__getitem__,
    "reduction.overlap": {
        True: "gradients reduced beside the backward",
        False: "gradients reduced after the backward",
    }.__getitem__,
    "reduction.bucket": {"layer": "layer by layer", "whole": "in one bucket"}.__getitem__,
    "reduction.limit": _limit,
    "reduction.copies": {True: "copied into buckets", False: "reduced in place"}.__getitem__,
    "reduction.buffers": "{:g} x bucket held as buffers".format,
    "gather": {
        "overlapped": "weights gathered beside the forward",
        "exposed": "sharded weights gathered before the forward",
    }.__getitem__,
    "host_updates": {
        "as_ready": "hosts update as soon as gradients are there",
        "behind_backward": "hosts update behind the whole backward",
    }.__getitem__,
    "layer_collectives": {
        "overlapped": "kernels beside collectives of activations",
        "blocking": "kernels wait for collectives of activations",
    }.__getitem__,
    "p2p": "p2p {}".format,
    "p2p_interleaved": "p2p {} between chunks".format,
    "p2p_scatter": {True: "scatter-gather p2p", False: "whole p2p"}.__getitem__,
    "vocabulary_multiple": _vocabulary,
}
