"""Adapters and frozen weights of a small plan: of short rank, in the layers that are left."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from simcluster.document import matches
from simcluster.model import Graph
from simcluster.plan import Task, TrainingSpec, adapter_targets, is_target

SHORT_RANK = 4
"""The rank of small adapters, or a multiple of it."""


def small_fine_tuning(task: Task, graph: Graph, ways: Callable[[str, int], int]) -> dict[str, Any]:
    """The keys of fine-tuning for a small model's forward graph; none where all weights are trained.

    A pattern of layers that are gone is one of all layers.
    """
    if not isinstance(task, TrainingSpec) or not task.frozen_patterns:
        return {}
    small: dict[str, Any] = {}
    if task.frozen is not None:
        names = [name for name, _ in graph.parameters()]
        small["frozen"] = tuple(
            pattern if any(matches(pattern, name) for name in names) else _of_all_layers(pattern)
            for pattern in task.frozen
        )
    if task.lora is not None:
        rank = min(task.lora.rank, ways("rank", SHORT_RANK))
        scale = task.lora.build().alpha / task.lora.rank
        targets = _targets(task.lora.targets, list(adapter_targets(graph)))
        lora = task.lora.model_copy(update={"rank": rank, "alpha": scale * rank, "targets": targets})
        small["lora"] = lora
    return small


def _targets(targets: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        target if any(is_target(target, name) for name in names) else _of_all_layers(target)
        for target in targets
    )


def _of_all_layers(pattern: str) -> str:
    return re.sub(r"(?<=layers\.)[^.]*", "*", pattern)
