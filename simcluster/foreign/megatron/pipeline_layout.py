"""Stages that Megatron's layout lists, and MindSpeed's layers that compute nothing.

A layout is text such as ``Et*3|(tt|)*29,m|L``: E the embedding, t a layer, m one of multi-token prediction,
L the loss, with ``|`` between stages (``PipelineParallelLayerLayout`` of Megatron-Core, from memory).
"""

from __future__ import annotations

import re
from typing import Any

from simcluster.foreign.assembly import virtual_chunks
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Facts

_LAYOUT, _NOOP = "layout", "noop layers"
_STAGES = "parallel.schedule.stages"
_REPEATED = re.compile(r"\(([^()]*)\)\*(\d{1,4})|([A-Za-z|])\*(\d{1,4})")
_MOST = 4096
_NAMES = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
_FOLDED = ("zb_v", "dualpipe_v", "v_half")
_OTHERS = (_LAYOUT, "stage_layers", "first_layers", "last_layers", "embedding_counts", "loss_counts")
"""Facts that decide on the layers of stages besides."""


def read_layout(facts: Facts, flag: Flag) -> None:
    """The stages of the model, as text or as lists of the names of their parts."""
    if flag.missing:
        facts.leave_open(_STAGES, flag)
    elif flag.value in (None, "null", "None", ["None"]):
        facts.effectless(flag, "off")
    elif (stages := _parsed(flag.value)) is None:
        facts.wrong(flag, "expected the parts of every stage, such as Et*3|(tt|)*29,m|L")
    else:
        facts.say(_LAYOUT, stages, flag)


def _parsed(value: Any) -> list[str] | None:
    """The parts of every stage, as letters; None if that is no layout."""
    if isinstance(value, list) and all(isinstance(stage, list) for stage in value):
        stages = ["".join(_NAMES.get(str(part), "?") for part in stage) for stage in value]
    else:
        text = "".join(map(str, value)) if isinstance(value, list) else str(value)
        text = re.sub(r"[\s,'\"]", "", text)
        while (repeated := _REPEATED.search(text)) and len(text) < _MOST:
            part, count = (repeated[1], repeated[2]) if repeated[2] else (repeated[3], repeated[4])
            text = text[: repeated.start()] + part * int(count) + text[repeated.end() :]
        stages = text.split("|")
    parts = "".join(stages)
    return stages if len(parts) < _MOST and re.fullmatch("E[tm]*L", parts) else None


def state_layout(facts: Facts) -> None:
    """States the stages of a layout, and in how many chunks every device has them."""
    if _LAYOUT not in facts.known:
        return
    stages, parts, flag = facts.get("pipeline", 1), facts.get(_LAYOUT), facts.drop(_LAYOUT)
    sizes, layers = [part.count("t") for part in parts], facts.get("model.layers")
    if stages <= 1:
        facts.effectless(flag, "without a pipeline")
    elif len(parts) % stages:
        facts.wrong(flag, f"{len(parts)} parts do not spread over {stages} stages")
    elif layers and sum(sizes) != layers:
        facts.wrong(flag, f"it has {sum(sizes)} layers, the model {layers}")
    else:
        chunks = len(parts) // stages
        if _fill(sizes):
            facts.unsupported(
                flag, "a stage with multi-token prediction only gets a layer of the stage before it"
            )
        if chunks > 1:
            facts.replace("chunks", chunks, flag)
        facts.say(_STAGES, _rows(sizes, stages, chunks, folded=False), flag)
        if any("m" in part for part in parts[:-1]):
            facts.unsupported(flag, "multi-token prediction is on the last stage")


def _fill(sizes: list[int]) -> bool:
    """Gives stages between others that have no layer one of the nearest stage before that has two."""
    filled = False
    for part in range(1, len(sizes) - 1):
        donor = next((before for before in range(part - 1, -1, -1) if sizes[before] > 1), None)
        if not sizes[part] and donor is not None:
            sizes[donor] -= 1
            sizes[part] += 1
            filled = True
    return filled


def read_noop_layers(facts: Facts, flag: Flag) -> None:
    """Layers, counted from 0, that let everything through: ``61,62,63``."""
    text = ",".join(flag.value) if isinstance(flag.value, list) else str(flag.value)
    if re.fullmatch(r"\d{1,4}(,\d{1,4})*", text):
        facts.say(_NOOP, sorted({int(layer) for layer in text.split(",")}), flag)
    else:
        facts.wrong(flag, "expected the numbers of layers, such as 61,62,63")


def state_noop_layers(facts: Facts) -> None:
    """Takes layers that compute nothing out of the model, and of the stages that they fill up.

    Call it when experts and recomputation are stated.
    """
    if _NOOP not in facts.known:
        return
    empty, flag, layers = facts.get(_NOOP), facts.drop(_NOOP), facts.get("model.layers")
    stages, kind = facts.get("pipeline", 1), facts.get("schedule", "1f1b")
    chunks = 2 if kind in _FOLDED else virtual_chunks(facts)[0]
    dense = facts.get("model.experts", {}).get("dense_layers", 0)
    parts = stages * chunks
    fits = layers and empty[-1] < layers and empty[0] >= dense and layers % parts == 0
    if not fits or any(name in facts.known for name in _OTHERS):
        facts.unsupported(flag, "all layers compute")
        return
    size = layers // parts
    sizes = [size - sum(layer // size == part for layer in empty) for part in range(parts)]
    if min(sizes[1:-1], default=1) < 1:
        facts.unsupported(flag, "all layers compute")
        return
    facts.replace("model.layers", layers - len(empty), flag)
    facts.remark(f"{flag}: {layers} - {len(empty)} = {layers - len(empty)} layers, as these compute nothing")
    if stages <= 1:
        return
    if "layers_per_chunk" in facts.known:
        facts.replace("chunks", chunks, facts.drop("layers_per_chunk"))
    rows = _rows(sizes, stages, chunks, folded=kind in _FOLDED)
    facts.say(_STAGES, rows, flag)
    _recompute_at_most(facts, rows)


def _rows(sizes: list[int], stages: int, chunks: int, *, folded: bool) -> list[int] | list[list[int]]:
    """The layers of every stage, or of every chunk of them; chunks of V-shaped schedules run back."""
    if chunks == 1:
        return sizes
    rows = [sizes[chunk * stages : (chunk + 1) * stages] for chunk in range(chunks)]
    return [row[::-1] if folded and chunk % 2 else row for chunk, row in enumerate(rows)]


def _recompute_at_most(facts: Facts, rows: list[int] | list[list[int]]) -> None:
    """No stage recomputes more layers than it has."""
    path = "parallel.recompute"
    choice = facts.get(path)
    said = choice.candidates[0] if choice is not None else {}
    counts = said.get("layers")
    if not isinstance(counts, list):
        return
    least: list[Any] = []
    for count, row in zip(counts, rows, strict=True):
        least.append([min(pair) for pair in zip(count, row, strict=True)] if isinstance(row, list) else row)
    facts.replace(path, type(choice)(({**said, "layers": least},)), facts.flag(path))
