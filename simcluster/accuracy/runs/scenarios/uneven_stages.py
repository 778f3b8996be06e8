"""The layers of each pipeline stage, where a row's notes say that they are not spread evenly."""

from __future__ import annotations

import math
import re

from simcluster.accuracy.runs.rows import MeasuredRun

_IDLE = re.compile(r"noop-layers=([0-9,]+)")
_LISTED = re.compile(r"num-layer-list=([0-9]+(?:,[0-9]+)+)")
"""Layers of every stage, as MindSpeed's option of this name has them."""
_BALANCED = "method redis"
_FOLDED = ("dualpipe", "dualpipev")
"""Schedules whose second chunks lie on the stages in the order of a V: the last layers on the first stage."""


def idle_layers(run: MeasuredRun) -> tuple[int, ...]:
    """The layers of a run that only fill a stage and do nothing (MindSpeed's noop-layers), from 0 on."""
    match = _IDLE.search(run.words.get("notes", ""))
    return tuple(int(number) for number in match[1].split(",") if number) if match else ()


def stage_layers(run: MeasuredRun) -> list[int] | list[list[int]] | None:
    """Layers of every stage, with several chunks a list for each of these; None: spread as usual."""
    stages, chunks = run.count("pipeline"), run.count("virtual_pipeline")
    idle, layers = idle_layers(run), run.counts["layers"]
    folded = run.words["schedule"] in _FOLDED
    if folded:
        chunks = 2
    if stages == 1:
        return None
    if idle:
        size = layers // (stages * chunks)
        filled = [number // size for number in idle]
        counts = [size - filled.count(place) for place in range(stages * chunks)]
        by_chunk = [counts[first : first + stages] for first in range(0, len(counts), stages)]
        if folded:
            by_chunk[1].reverse()
        return by_chunk if chunks > 1 else by_chunk[0]
    if (listed := _LISTED.search(run.words.get("notes", ""))) and chunks == 1:
        return [int(count) for count in listed[1].split(",")]
    if _BALANCED in run.words.get("notes", "") and {"hidden", "vocab"} <= run.counts.keys():
        return balanced_layers(layers, stages, _head_in_layers(run))
    return None


def multi_token_stages(run: MeasuredRun) -> list[int] | list[list[int]] | None:
    """Layers of every stage where the last one has layers of multi-token prediction too: every other one the
    same number, the last ones what is left; None if nothing is left uneven.

    So NVIDIA's recipes of DeepSeek-V3 have it: 8 x 7 + 5 on 8 stages, 4 x 15 + 1 on 16, and DeepSeek's own
    run: 30 x 2 + 1 + 0 in the 32 halves of 16 stages (from memory).
    """
    stages, chunks, layers = run.count("pipeline"), run.count("virtual_pipeline"), run.counts["layers"]
    folded = run.words["schedule"] in _FOLDED
    if folded:
        chunks = 2
    places = stages * chunks
    size = math.ceil(layers / places)
    if stages == 1 or not size * (places - 2) < layers < size * places:
        return None
    counts = [min(size, max(0, layers - size * place)) for place in range(places)]
    by_chunk = [counts[first : first + stages] for first in range(0, places, stages)]
    if folded:
        by_chunk[1].reverse()
    return by_chunk if chunks > 1 else by_chunk[0]


def _head_in_layers(run: MeasuredRun) -> float:
    """The FLOPs of the head over those of a layer (arXiv 2104.04473, appendix): 2 h V and 24 h^2 + 4 h s."""
    hidden, vocab, tokens = (run.counts[name] for name in ("hidden", "vocab", "seq_len"))
    return 2 * hidden * vocab / (24 * hidden**2 + 4 * hidden * tokens)


def balanced_layers(layers: int, stages: int, head: float) -> list[int]:
    """Layers of every stage such that the slowest has least to do; the last does ``head`` layers' besides.

    Of several such choices the one whose last stage has most layers, the others as even as they can be, more
    of them on later stages, which hold fewer micro-batches.
    """
    choices = []
    for last in range(layers + 1):
        most = math.ceil((layers - last) / (stages - 1))
        if (layers - last) // (stages - 1):
            choices.append((max(most, last + head), -last))
    last = -min(choices)[1]
    whole, extra = divmod(layers - last, stages - 1)
    return [*(whole + (stage >= stages - 1 - extra) for stage in range(stages - 1)), last]
