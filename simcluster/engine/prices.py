"""What instructions cost: to one class, or to several classes of a stage beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import Cluster, Fleet, Span
from simcluster.collectives import Choice, Operation, Selection, collective_time
from simcluster.engine.timed import Pricer
from simcluster.program import Action, Classes, Code, Instruction, Program
from simcluster.program.instruction import RECV_NEXT, SEND_NEXT

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Prices:
    """The prices of a Program's instructions; ``dispatch`` scales the devices' host time per operator."""

    program: Program
    cluster: Cluster
    classes: Classes
    dispatch: float
    algorithms: Selection

    def pricer(self, index: int) -> Pricer:
        """Nanoseconds of an instruction for one class, and how many of them are launches and dispatch."""
        device = self.cluster.device(self.classes.representatives[index])

        def price(each: Instruction) -> tuple[int, int]:
            if each.action is Action.COMPUTE:
                if not each.works:
                    return 1, 0
                found = device.price(each.works, self.dispatch * device.dispatch)
                return found.total_ns, found.host_ns
            return self.moved(self.span(index, each), each), 0

        return price

    def moved(self, span: Span, each: Instruction) -> int:
        """Nanoseconds of a collective or transfer of ranks that lie so."""
        return max(1, self.choice(span, each).duration_ns)

    def choice(self, span: Span, each: Instruction) -> Choice:
        """How a collective or transfer is done by ranks that lie so, and how long it takes."""
        operation = Operation(each.operation)
        algorithm = self.algorithms.of(operation)
        return collective_time(operation, span, each.num_bytes, self.cluster, algorithm)

    def span(self, index: int, each: Instruction) -> Span:
        """How the group of a class's collective, or the pair of its transfer, lies on the cluster."""
        if each.group:
            return self.classes.groups[index, each.group].span
        return self.peer(index, each.stream)[1]

    def peer(self, index: int, stream: str) -> tuple[int, Span]:
        """The class at the other end of a transfer stream, and how the pair lies on the cluster."""
        forward = stream in (SEND_NEXT, RECV_NEXT)
        return (self.classes.next_stage if forward else self.classes.prev_stage)[index]


@dataclass(frozen=True)
class PricedCode:
    """Nanoseconds of every instruction of a code in several classes: [instructions, classes].

    ``host`` is, of one execution, what the kernels spend on launches and dispatch; ``busy`` what they take
    in all: both [classes].
    """

    duration: Ints
    busy: Ints
    host: Ints


@dataclass(frozen=True)
class SharedPrices:
    """The prices of several classes of one stage; equal, one by one, to those of ``Prices.pricer``."""

    prices: Prices
    indices: Sequence[int]
    fleet: Fleet
    _spans: dict[tuple[tuple[str, ...], str], tuple[list[Span], Ints]] = field(default_factory=dict)

    @classmethod
    def of(cls, prices: Prices, indices: Sequence[int]) -> SharedPrices:
        """The prices of some classes, whose order is that of all columns."""
        ranks = [prices.classes.representatives[index] for index in indices]
        return cls(prices, indices, prices.cluster.fleet(ranks))

    def of_code(self, code: Code) -> PricedCode:
        """The prices of a code's instructions."""
        duration = np.empty((len(code.instructions), len(self.indices)), dtype=np.int64)
        busy, host = (np.zeros(len(self.indices), dtype=np.int64) for _ in range(2))
        floor = self.prices.dispatch * self.fleet.device.dispatch
        for row, each in enumerate(code.instructions):
            if each.action is not Action.COMPUTE:
                spans, which = self._lying(each)
                duration[row] = np.array([self.prices.moved(span, each) for span in spans])[which]
                continue
            if each.works:
                found = self.fleet.price(each.works, floor)
                duration[row] = found.total_ns
                host += found.host_ns
            else:
                duration[row] = 1
            busy += duration[row]
        return PricedCode(duration, busy, host)

    def _lying(self, each: Instruction) -> tuple[list[Span], Ints]:
        """The different spans of a collective's groups or a transfer's pairs, and which one classes have."""
        key = (each.group, "" if each.group else each.stream)
        if key not in self._spans:
            spans = [self.prices.span(index, each) for index in self.indices]
            number: dict[Span, int] = {}
            known = {id(span): number.setdefault(span, len(number)) for span in spans}
            self._spans[key] = list(number), np.array([known[id(span)] for span in spans])
        return self._spans[key]
