"""How weights lie on the devices of an inference, as a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.draw import Column, render_text, screen_width, text_table

_NUMBERED = re.compile(r"(.*?\.)(\d+)(\..*)")


def weights_text(
    weights: Mapping[str, Mapping[str, Any]], *, width: int | None = None, colour: bool = False
) -> str:
    """What ``infer_predict_layout`` found, a line per weight; layers in which it lies alike share one."""
    alike: dict[tuple[str, str, str], tuple[list[int], Mapping[str, Any]]] = {}
    for name, entry in weights.items():
        layer = _NUMBERED.fullmatch(name)
        before, number, behind = layer.groups() if layer else (name, "", "")
        numbers, _ = alike.setdefault((before, behind, str(entry)), ([], entry))
        numbers += [int(number)] if number else []
    rows = [
        [
            f"{before}{_numbers(numbers)}{behind}",
            " ".join(map(str, entry["stages"])),
            f"{entry['dtype']} {_listed(entry['shape'])}",
            _listed(entry["slice_shape"]),
            _listed(entry["tensor_map"]),
        ]
        for (before, behind, _), (numbers, entry) in alike.items()
    ]
    # The ranks of all stages have one device matrix.
    matrix = next((_listed(entry["device_matrix"]) for entry in weights.values()), "")
    columns = [Column("Weight"), *map(Column, ("stage", "shape", "slice", "tensor map"))]
    text = render_text(text_table(columns, rows), width=screen_width(width), colour=colour)
    return f"device matrix of a stage: {matrix}\n\n{text}"


def _numbers(numbers: Sequence[int]) -> str:
    """``0..79``, or a list of such runs: ``{0..3,8..11}``."""
    edges = [index for index in range(1, len(numbers)) if numbers[index] != numbers[index - 1] + 1]
    runs = [numbers[a:b] for a, b in zip([0, *edges], [*edges, len(numbers)], strict=True) if a < b]
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs]
    return texts[0] if len(texts) == 1 else f"{{{','.join(texts)}}}" if texts else ""


def _listed(numbers: Sequence[int | Sequence[int]]) -> str:
    """Numbers as MindSpore prints them: ``(8, 1)``; several places of one dim in brackets of their own."""
    texts = [str(number) if isinstance(number, int) else _listed(number) for number in numbers]
    return f"({', '.join(texts)}{',' * (len(texts) == 1)})"
