"""The figures of an inference: when tokens come, and how well prefill and decode steps use the devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simcluster.model import Flops, Generation
from simcluster.number_arrays import Floats
from simcluster.program import COMPUTE, Category, PlacedProgram
from simcluster.trace import LazyRecording, Recording, Table
from simcluster.work import DType

INFERENCE_METRICS = (
    "ttft_s",
    "ttft_s_max",
    "tpot_s",
    "tpot_first_s",
    "tpot_last_s",
    "latency_s",
    "prefill_mfu",
    "decode_mbu",
)
"""The figures that are one number and that only an inference has: what ``expect`` and ``check`` may bound."""


def inference_figures(
    placed: PlacedProgram,
    recording: Recording | LazyRecording,
    gaps: Table | None,
    asked: Generation,
    *,
    global_batch: int,
    num_micro_batches: int,
    chunks: Mapping[str, int],
    prefill: Flops,
    matmul: DType,
) -> dict[str, Any]:
    """The figures of an inference, in place of a training's throughput; SI units.

    ``chunks`` has the chunk, which is the number of the pass, of every action of the schedule.

    ``ttft_s``: until sequences have their first token, the mean over micro-batches. ``tpot_s``: per further
    token, the mean over all decode steps, of which the first and the last are ``tpot_first_s`` and
    ``tpot_last_s``; without any it is 0. ``latency_s``: until the last sequence has its last token.
    ``tokens_per_s`` counts generated tokens only. ``prefill_mfu`` is the model's FLOPs of all prefills over
    the time until the last is done, at the peak of all devices; ``decode_mbu`` the bytes of weights, and of
    what caches hold in the mean, over the time per token, at the memory bandwidth of all devices.
    ``decode_steps`` has the number of the token that a simulated step makes, and its seconds: those are as
    exact as everything; steps between two of them take what lies on the line between these.
    ``prefill_parts_s`` cut the time until the last first token, ``decode_parts_s`` that of a simulated decode
    step in the mean, into kernels (dispatch among them) and what these waited for, means over ranks; both are
    empty without the table of ``gaps``.
    """
    ends = _ends(placed, recording, chunks, (asked.num_passes, num_micro_batches))
    first = ends[0]
    # The last micro-batch tells: between two of its tokens all others have had theirs.
    timed = np.diff(ends[:, -1])
    between = np.interp(np.arange(1, asked.tokens), asked.steps, timed) if asked.steps else np.zeros(0)
    per_token = float(between.mean()) if len(between) else 0.0
    latency = float(first.max() + between.sum())
    sizes, groups = np.array(placed.classes.sizes, dtype=np.float64), placed.cluster.groups
    peak = sum(group.num_devices * group.host.device.peak[matmul] for group in groups)
    bandwidth = sum(group.num_devices * group.host.device.memory_bandwidth for group in groups)
    throughput = global_batch * asked.tokens / latency
    return {
        "ttft_s": float(first.mean()),
        "ttft_s_max": float(first.max()),
        "tpot_s": per_token,
        "tpot_first_s": float(between[0]) if len(between) else 0.0,
        "tpot_last_s": float(between[-1]) if len(between) else 0.0,
        "latency_s": latency,
        "tokens_per_s": throughput,
        "tokens_per_s_per_device": throughput / placed.num_ranks,
        "samples_per_s": global_batch / latency,
        "prefill_mfu": prefill.counted / (peak * float(first.max())),
        "decode_mbu": _decode_bytes(placed, asked) / (bandwidth * per_token) if per_token else 0.0,
        "prefill_parts_s": _parts(sizes, gaps, 0.0, float(first.max())),
        "decode_parts_s": {
            name: seconds / len(timed)
            for name, seconds in _parts(sizes, gaps, float(ends[0, -1]), float(ends[-1, -1])).items()
        },
        "decode_steps": [[token, float(seconds)] for token, seconds in zip(asked.steps, timed, strict=True)],
    }


def _ends(
    placed: PlacedProgram,
    recording: Recording | LazyRecording,
    chunks: Mapping[str, int],
    shape: tuple[int, int],
) -> Floats:
    """When every simulated pass of every micro-batch has made its tokens, in seconds [pass, micro-batch]."""
    program, ends = placed.program, np.zeros(shape)
    for index, stage in enumerate(placed.stages):
        if stage != program.num_stages - 1:
            continue
        spans = recording.spans(index)
        kernels = spans["stream"] == spans.index("stream", COMPUTE)
        passes = np.array([chunks.get(action, 0) for action in spans.names["action"]])[spans["action"]]
        places = passes[kernels], spans["micro_batch"][kernels]
        np.maximum.at(ends, places, spans["end"][kernels] * 1e-9)
    return ends


def _parts(sizes: Floats, gaps: Table | None, begin: float, end: float) -> dict[str, float]:
    """What ranks do from one time to another, seconds, means over ranks; they add up to what lies between."""
    if gaps is None or end == begin:
        return {}
    inside = np.minimum(gaps["end"] * 1e-9, end) - np.maximum(gaps["start"] * 1e-9, begin)
    lost = np.maximum(inside, 0.0) * (sizes / sizes.sum())[gaps["class"]]
    waited = {
        cause: float(lost[gaps["cause"] == number].sum()) for number, cause in enumerate(gaps.names["cause"])
    }
    parts = {"kernels": end - begin - sum(waited.values())}
    return parts | {cause: waited[cause] for cause in sorted(waited) if waited[cause]}


def _decode_bytes(placed: PlacedProgram, asked: Generation) -> float:
    """Bytes of weights and of filled caches on all ranks, at the mean of all decode steps."""
    read = asked.prompt + asked.tokens / 2
    shares: Mapping[Category, float] = {
        Category.PARAMETERS: 1.0,
        Category.KV_CACHE: read / asked.capacity,
    }
    total = 0.0
    for part, size in zip(placed.parts, placed.classes.sizes, strict=True):
        residents = placed.program.parts[part].residents
        total += size * sum(resident.num_bytes * shares.get(resident.category, 0.0) for resident in residents)
    return total
