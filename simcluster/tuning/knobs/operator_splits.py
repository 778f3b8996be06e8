"""Which dim of which operator is split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster.scenario import Scenario
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun
from simcluster.tuning.knobs.tensor_collectives import exposed_tensor

_PAIRED = ("megatron", "megatron_sp")
"""Recipes that split the first matmul of a pair by its columns and the second by its rows."""


class OperatorSplitKnob(Knob):
    """The first matmul of a pair split by columns, the second by rows."""

    kind = "operator splits"
    serves = frozenset({KnobPurpose.SPEED})
    about = "tensor"
    source = "MindSpore's sharding propagation: ((2,1),(1,4)), then ((2,4),(4,1)) redistribute nothing"

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Transformers as Megatron splits them; operators that nobody configured as their neighbours are."""
        spec = scenario.spec.parallel
        if plan["mesh"].get("tensor", 1) == 1 or spec.mode != "semi_auto" or spec.shard:
            return
        attends = "heads" in scenario.model.dimensions
        if attends and (spec.strategies or spec.propagate or plan["recipe"] not in _PAIRED):
            changes = {"parallel.strategies": "[]"} if spec.strategies else {}
            changes |= {"parallel.propagate": "false"} if spec.propagate else {}
            for recipe in _PAIRED:
                yield (("parallel.recipe", recipe), *changes.items())
        if spec.strategies and spec.recipe is None and not spec.propagate:
            yield (("parallel.propagate", "true"),)

    def reason(self, present: PresentRun) -> str:
        """Communication inside of layers is exposed."""
        why = exposed_tensor(present)
        return why and f"{why}: a split along what the next operator sums over needs none in between"
