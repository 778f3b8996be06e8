"""Figures of an inference: time to first token, time per token, and which decode steps were simulated."""

from __future__ import annotations

from simcluster import units
from simcluster.report.content.memory_verdict import memory_figure
from simcluster.report.content.statements import NEGLIGIBLE, throughput_text
from simcluster.trace import RunDocument

_NAMED = ("kernels", "idle", "pipeline wait", "offload", "input")
"""What parts of time are called as they are; others are axes that something travels along."""


def is_inference(documents: RunDocument) -> bool:
    """Whether a run answered prompts; else it trained."""
    return "inference" in documents["plan"]


def quoted_figures(documents: RunDocument) -> tuple[tuple[str, str], ...]:
    """(value, label) of the headline figures: TTFT, TPOT, latency, throughput, peak memory."""
    summary = documents["summary"]
    rate, per_device, _ = throughput_text(documents)
    return (
        (units.seconds(summary["ttft_s"]), "to the first token (TTFT)"),
        (units.seconds(summary["tpot_s"]), "per further token (TPOT)"),
        (units.seconds(summary["latency_s"]), "to the last token"),
        (rate, f"tokens/s, {per_device} per device"),
        memory_figure(summary),
    )


def inference_remarks(documents: RunDocument) -> list[str]:
    """How well prefill and decode steps use the devices, and which decode steps were simulated."""
    summary, asked = documents["summary"], documents["plan"]["inference"]
    lines = [f"prefill at MFU {units.percent(summary['prefill_mfu'])}{_spent(summary['prefill_parts_s'])}"]
    steps, last = asked["decode_steps"], asked["tokens"] - 1
    if not steps:
        return lines
    bandwidth = f"{units.percent(summary['decode_mbu'])} of the memory bandwidth (MBU)"
    lines.append(f"decode at {bandwidth}{_spent(summary['decode_parts_s'])}")
    first, final = (units.seconds(summary[name]) for name in ("tpot_first_s", "tpot_last_s"))
    interpolated = "" if len(steps) == last else ", others interpolated"
    lines.append(
        f"{first} for the second token, {final} for the last; {len(steps):,} of {last:,} decode steps "
        f"simulated{interpolated}"
    )
    return lines


def _spent(parts: RunDocument) -> str:
    """What time is spent on: ``: kernels 8.91 ms, tensor communication 3.42 ms``."""
    names = {name: f"{name} communication" for name in parts} | dict.fromkeys(_NAMED)
    total, most = sum(parts.values()), sorted(parts.items(), key=lambda part: -part[1])
    shown = [
        f"{names[name] or name} {units.seconds(seconds)}"
        for name, seconds in most
        if seconds > NEGLIGIBLE * total
    ]
    return f": {', '.join(shown)}" if shown else ""


def step_title(documents: RunDocument) -> str:
    """The title over the parts of a step, or of the prefill and decode steps that were simulated."""
    if not is_inference(documents):
        return "Where the step goes"
    count = len(documents["plan"]["inference"]["decode_steps"])
    if not count:
        return "Where the prefill goes"
    return f"Where prefill and {count:,} decode step{'s' * (count != 1)} go"


def prompts_text(plan: RunDocument) -> str:
    """``32 prompts of 1,024 tokens, 128 generated after each``."""
    asked = plan["inference"]
    return (
        f"{plan['global_batch']:,} prompts of {asked['prompt']:,} tokens, {asked['tokens']:,} generated "
        "after each"
    )


def formats_text(plan: RunDocument) -> str:
    """Number formats of weights and activations, and of the KV cache."""
    compute, matmul = plan["precision"]["compute"], plan["precision"]["matmul"]
    formats = compute if matmul == compute else f"{compute} with {matmul} matmuls"
    return f"{formats}, {plan['inference']['cache']} KV cache"
