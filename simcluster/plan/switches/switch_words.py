"""What keys of framework profiles mean with their values, where that takes more than a phrase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def prefetch_words(count: int) -> str:
    """How far ahead weights are gathered."""
    if not count:
        return "gathers nothing ahead"
    return f"gathers up to {count} kernel{'s' * (count > 1)} ahead"


def fusion_words(pairs: Sequence[Sequence[str]] | None) -> str:
    """Which families of operators join in a kernel."""
    listed = ", ".join("+".join(pair) for pair in pairs or ())
    return f"fuses only {listed}" if listed else "fuses no operators"


def passes_words(families: Sequence[str]) -> str:
    """Which families run as the passes they are made of."""
    listed = ", ".join(family.replace("_", " ") for family in families)
    return f"{listed} split into separate passes" if listed else "every norm in one kernel"


def accumulation_words(families: str | Sequence[str]) -> str:
    """Which kernels add a parameter's gradient to its buffer."""
    if families == "all":
        return "every kernel accumulates its weight gradient itself"
    but = f", except for {', '.join(families)}" if families else ""
    return f"weight gradients accumulated by separate kernels{but}"


def gradient_words(formats: str | Mapping[str, str]) -> str:
    """The number format of gradients, or that for each compute format."""
    if isinstance(formats, str):
        return "fp32 gradients" if formats == "fp32" else "gradients in the compute format"
    shown = {compute: compute if format == "compute" else format for compute, format in formats.items()}
    return "gradients " + ", ".join(f"{format} for {compute}" for compute, format in shown.items())


def limit_words(size: Mapping[str, Any] | None) -> str:
    """How large buckets of gradients are."""
    if not size:
        return "buckets without limit"
    if size.get("bytes") == "1 B":
        return "every gradient reduced by itself"
    if "bytes" in size:
        first = f", the first of {size['first_bytes']}" if "first_bytes" in size else ""
        return f"gradient buckets of {size['bytes']}{first}"
    least = f" or {size['elements_per_rank']:,} per data rank" if "elements_per_rank" in size else ""
    return f"gradient buckets of {size['elements']:,} elements{least}"


def scratch_words(families: Mapping[str, float] | None) -> str:
    """What kernels hold besides what they read and write."""
    listed = ", ".join(f"{factor:g} x the operand of {name}" for name, factor in (families or {}).items())
    return f"scratch memory of kernels: {listed or 'none'}"


def traffic_words(times: Mapping[str, float] | None) -> str:
    """How often kernels pass over memory."""
    listed = ", ".join(f"{name.replace('_', ' ')} x {count:g}" for name, count in (times or {}).items())
    return f"bytes moved: {listed}" if listed else "every byte moved once"


def calls_words(times: Mapping[str, float] | None) -> str:
    """What costs the host more or less than one operator."""
    listed = ", ".join(f"{name.replace('_', ' ')} as {count:g}" for name, count in (times or {}).items())
    if not listed:
        return "every operator takes the host equally long"
    return f"host time as that of several operators: {listed}"


def host_waits_words(names: Sequence[str]) -> str:
    """What the host waits for."""
    listed = ", ".join(name.replace("_", " ") for name in names)
    return f"the host waits for {listed}" if listed else "the host waits for nothing"


def implementation_words(names: Sequence[str]) -> str:
    """Whose kernels there are."""
    return f"memory-bound kernels of {', '.join(names)}" if names else "perfect memory-bound kernels"


def workspace_words(size: str | None) -> str:
    """How large a workspace of the matmul library is."""
    return "workspaces of the device's size" if size is None else f"workspaces of {size}"


def latent_heads_words(multiple: int) -> str:
    """To what size heads of latent attention are filled."""
    return f"latent attention on heads filled to a multiple of {multiple}" if multiple else ""


def headroom_words(figure: str | Mapping[str, Any] | None) -> str:
    """What is to be left free: a figure of a profile, or one that a scenario gives in its place."""
    if not figure:
        return "no headroom"
    return f"{figure if isinstance(figure, str) else figure['value']} of headroom"
