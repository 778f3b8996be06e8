"""What a framework profile changes against the ideal one, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simcluster import units
from simcluster.plan.conduct import Buckets, Conduct


def told(changes: Mapping[str, Any]) -> list[str]:
    """A phrase for every change, as ``FrameworkSpec.changes`` gives them."""
    said = dict(changes)
    if "reduction.limit" in said:
        said.pop("reduction.bucket", None)
    return [phrase(key, value) for key, value in said.items()]


def fusion_told(conduct: Conduct) -> list[str]:
    """What the scenario says about fusion, in words; nothing if the profile decides."""
    if conduct.apart:
        return ["no collectives fused"]
    said = []
    for name, what in (("all_reduce", "all-reduces"), ("reduce_scatter", "reduce-scatters")):
        buckets = getattr(conduct.fusion, name, None)
        if buckets is not None and buckets.searched:
            said.append(f"{what} of gradients as a search found best, {_found(buckets)}")
        elif buckets is not None and buckets.ends:
            said.append(f"{what} of gradients up to {', '.join(map(str, buckets.ends))} and the rest")
        elif buckets is not None:
            first = f", the first to {units.size(buckets.first)}" if buckets.first else ""
            said.append(f"{what} of gradients fused to {units.size(buckets.limit)}{first}")
    gathers = conduct.fusion.all_gather if conduct.fusion is not None else None
    if gathers is not None:
        said.append(f"all-gathers of weights fused to {units.size(gathers.limit or 0)}")
    if said and conduct.fusion is not None and conduct.fusion.ids:
        numbers = sorted(set(conduct.fusion.ids.values()))
        said.append(f"{len(conduct.fusion.ids)} parameters with fusion id {', '.join(map(str, numbers))}")
    return said


def _found(buckets: Buckets) -> str:
    """Which of its candidates a search chose."""
    if buckets.behind:
        return f"cut behind {len(buckets.behind)} gradients"
    if buckets.limit is None:
        return "in one bucket"
    return "each by itself" if buckets.limit == 1 else f"fused to {units.size(buckets.limit)}"


def phrase(key: str, value: Any) -> str:
    """What a key of a profile means with this value."""
    return _PHRASES[key](value)


def _fuse(pairs: list[list[str]]) -> str:
    listed = ", ".join("+".join(pair) for pair in pairs)
    return f"fuses only {listed}" if listed else "fuses no operators"


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


_PHRASES: Mapping[str, Callable[[Any], str]] = {
    "attention": {
        "flash": "attention in one kernel",
        "unfused": "attention in kernels of their own",
    }.__getitem__,
    "logits": {"fp32": "fp32 logits", "compute": "logits in the compute format"}.__getitem__,
    "fuse": _fuse,
    "accumulate": _accumulate,
    "optimizer": {
        "together": "multi-tensor updates",
        "one_by_one": "one update kernel per parameter",
    }.__getitem__,
    "prefetch": "gathers up to {} kernels ahead".format,
    "dispatch": "host dispatch x {:g}".format,
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
    "layer_collectives": {
        "overlapped": "kernels beside collectives of activations",
        "blocking": "kernels wait for collectives of activations",
    }.__getitem__,
    "p2p": "p2p {}".format,
    "p2p_scatter": {True: "scatter-gather p2p", False: "whole p2p"}.__getitem__,
    "vocabulary_multiple": _vocabulary,
}
