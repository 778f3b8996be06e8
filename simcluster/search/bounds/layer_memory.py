"""What every instance of a model's blocks holds on a rank: parameters, gradients, states, and what is kept.

All plans that split layers alike share these numbers, as they share costs in time (``layer_costs``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model import MemoryPlace, Phase
from simcluster.number_arrays import Ints
from simcluster.program import Category, Scope, StageProgram
from simcluster.search.bounds.few_layers import FewLayers
from simcluster.search.bounds.small_plan import TIMED, SmallPlan


@dataclass(frozen=True, eq=False)
class LayerMemory:
    """Bytes by instance of a block, in the order of the forward pass."""

    names: tuple[str, ...]
    """The instances."""
    layer_places: Ints
    """Which of them are layers, that stages share."""
    kept: Ints
    """Bytes that a micro-batch keeps from the forward of an instance to its backward."""
    parameters: Ints
    """Bytes of parameters that a rank holds of it, without optimizer sharding."""
    gradients: Ints
    """Bytes of gradients, likewise."""
    states: Ints
    """Bytes of optimizer states and master copies, likewise."""

    @classmethod
    def of(cls, small: SmallPlan, layers: FewLayers) -> LayerMemory:
        """What a plan of one stage of the smaller model of ``layers`` holds of all layers."""
        names = tuple(dict.fromkeys(run.instance for run in small.first_executions[Phase.FORWARD]))
        whole, rows = layers.rows_of(names)
        is_layer = dict(zip(layers.names, layers.is_layer, strict=True))
        parameters, gradients, states = _persistent(small.part, names)
        return cls(
            names=whole,
            layer_places=np.flatnonzero([is_layer[name] for name in whole]),
            kept=_kept(small, names)[rows],
            parameters=parameters[rows],
            gradients=gradients[rows],
            states=states[rows],
        )

    def between(self, larger: LayerMemory, above: int, below: int) -> LayerMemory:
        """The same for a micro-batch so many samples ``above`` this one's and ``below`` that of a larger one,
        whose plan holds the same buffers: what is kept is linear in the samples.
        """
        return replace(self, kept=(self.kept * below + larger.kept * above) // (above + below))


def _kept(small: SmallPlan, names: Sequence[str]) -> Ints:
    """Bytes on the device that forwards book and backwards release, by the instance whose forward it is."""
    program, part, by_phase = small.program, small.part, small.first_executions
    released: set[str] = set()
    for phase in TIMED[1:]:
        for execution in by_phase[phase]:
            code = program.codes[execution.code]
            released |= {part.buffer(execution.instance, code.slots[slot].name) for slot in code.dropped}
    kept = dict.fromkeys(names, 0)
    for execution in by_phase[Phase.FORWARD]:
        code, routed = program.codes[execution.code], small.routed_slots.get(execution.instance, ())
        for index in code.books:
            slot = code.slots[index]
            if (
                slot.scope is Scope.MICRO_BATCH
                and slot.place is MemoryPlace.DEVICE
                and index not in code.dropped
                and slot.name not in routed
                and part.buffer(execution.instance, slot.name) in released
            ):
                kept[execution.instance] += slot.num_bytes
    return np.array([kept[name] for name in names], dtype=np.int64)


def _persistent(part: StageProgram, names: Sequence[str]) -> tuple[Ints, Ints, Ints]:
    """Bytes of parameters, gradients and optimizer states on the device, by instance."""
    sums: defaultdict[Category, Counter[str]] = defaultdict(Counter)
    for buffer in part.residents:
        if buffer.place is MemoryPlace.DEVICE:
            sums[buffer.category][buffer.name] += buffer.num_bytes
    place = {name: index for index, name in enumerate(names)}
    columns = []
    for category in (Category.PARAMETERS, Category.GRADIENTS, Category.OPTIMIZER):
        column = np.zeros(len(names), dtype=np.int64)
        for name, num_bytes in sums[category].items():
            owner = _owner(name, place)
            if owner is not None:
                column[owner] += num_bytes
        columns.append(column)
    return columns[0], columns[1], columns[2]


def _owner(name: str, place: Mapping[str, int]) -> int | None:
    """The instance that a buffer belongs to: that whose name it begins with."""
    end = name.find(".")
    while end >= 0:
        if name[:end] in place:
            return place[name[:end]]
        end = name.find(".", end + 1)
    return None
