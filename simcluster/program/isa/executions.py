"""The executions of a part of a Program as columns: a large run needs no object for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints
from simcluster.program.isa.instruction import BlockExecution, Scope

Name = TypeVar("Name")

OF_RUN = -2
"""The micro-batch of an execution in a pattern that takes the first of the pattern's run; one less is the
second, and so on."""


@dataclass(frozen=True, eq=False)
class Executions:
    """Executions in program order, as columns with the meaning of the fields of ``BlockExecution``."""

    pairs: tuple[tuple[int, str], ...]
    """The different (code, instance), in the order of their first."""
    pair: Ints
    """By execution an index of ``pairs``."""
    micro_batch: Ints
    """By execution; -1: once per step."""
    actions: tuple[str, ...]
    """The different actions, in the order of their first."""
    action: Ints
    """By execution an index of ``actions``."""
    wait_for_transfers: NDArray[np.bool_]
    """By execution."""
    weights_of_micro_batch: Ints
    """By execution; -1: none."""
    after_streams: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """By place, of the executions that have any."""
    after: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By place, of the executions that have any."""

    @classmethod
    def of(cls, executions: Iterable[BlockExecution]) -> Executions:
        """The columns of executions."""
        none = np.zeros(1, dtype=np.int64)
        return cls.repeated([list(executions)], none, none[:, None], [""], none)

    @classmethod
    def repeated(
        cls,
        patterns: Sequence[Sequence[BlockExecution]],
        runs: Ints,
        micro_batches: Ints,
        names: Sequence[str],
        named: Ints,
    ) -> Executions:
        """The executions of some runs of patterns, in program order.

        Each of ``runs`` indexes ``patterns`` and has ``micro_batches`` [runs, number of them] and an action,
        as ``named`` indexes ``names``, which those of its executions take that have none.
        """
        flat = [execution for pattern in patterns for execution in pattern]
        lengths = np.array([len(pattern) for pattern in patterns], dtype=np.int64)
        times = lengths[runs]
        run = np.repeat(np.arange(len(runs)), times)
        which = ((np.cumsum(lengths) - lengths)[runs] - (np.cumsum(times) - times))[run] + np.arange(len(run))
        numbers: dict[tuple[int, str], int] = {}
        pair = _column(
            [numbers.setdefault((execution.code, execution.instance), len(numbers)) for execution in flat]
        )
        pairs, pair = _by_first(list(numbers), pair[which])
        own = _column([execution.micro_batch for execution in flat])[which]
        micro_batch = np.where(own > OF_RUN, own, micro_batches[run, np.maximum(OF_RUN - own, 0)])
        others = dict.fromkeys(execution.action for execution in flat)
        place = {name: len(names) + number for number, name in enumerate(others)} | {"": -1}
        action = _column([place[execution.action] for execution in flat])[which]
        actions, action = _by_first([*names, *others], np.where(action < 0, named[run], action))
        bound = _column(
            [number for number, execution in enumerate(flat) if execution.after_streams or execution.after]
        )
        waiting = [(at, flat[which[at]]) for at in np.flatnonzero(np.isin(which, bound)).tolist()]
        return cls(
            pairs,
            pair,
            micro_batch,
            actions,
            action,
            np.array([execution.wait_for_transfers for execution in flat], dtype=np.bool_)[which],
            _column([execution.weights_of_micro_batch for execution in flat])[which],
            {at: execution.after_streams for at, execution in waiting if execution.after_streams},
            {at: execution.after for at, execution in waiting if execution.after},
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Executions) and self.objects == other.objects

    def __len__(self) -> int:
        return len(self.pair)

    @cached_property
    def code(self) -> Ints:
        """The number of the block in the Program, by execution."""
        return np.asarray(_column([code for code, _ in self.pairs])[self.pair])

    def times(self) -> dict[int, int]:
        """Code -> how often it is executed, in the order of their first."""
        count = np.bincount(self.code).tolist()
        return {code: count[code] for code, _ in self.pairs}

    def labels(self, scope: Scope) -> Ints:
        """By execution the micro-batch that tells buffers of one name apart, as ``BlockExecution.label``."""
        if scope is Scope.KEPT:
            return self.weights_of_micro_batch
        return self.micro_batch if scope is Scope.MICRO_BATCH else np.full_like(self.micro_batch, -1)

    @cached_property
    def objects(self) -> tuple[BlockExecution, ...]:
        """The executions one by one."""
        codes, instances = zip(*self.pairs, strict=True) if self.pairs else ((), ())
        pairs = self.pair.tolist()
        places = range(len(pairs))
        return tuple(
            map(
                BlockExecution,
                map(codes.__getitem__, pairs),
                map(instances.__getitem__, pairs),
                self.micro_batch.tolist(),
                map(self.actions.__getitem__, self.action.tolist()),
                self.wait_for_transfers.tolist(),
                (self.after_streams.get(place, ()) for place in places),
                (self.after.get(place, ()) for place in places),
                self.weights_of_micro_batch.tolist(),
            )
        )


def _column(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _by_first(names: Sequence[Name], numbers: Ints) -> tuple[tuple[Name, ...], Ints]:
    """The names that are numbered, in the order of their first, and the numbers of these."""
    used, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return tuple(names[number] for number in used[order].tolist()), rank[place]
