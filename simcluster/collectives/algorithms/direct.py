"""The direct transfer from one rank to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.cluster.link import Level
from simcluster.cluster.span import Span
from simcluster.collectives.algorithm import Algorithm
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import Step
from simcluster.collectives.wire import Array, Wire


class Direct(Algorithm):
    """Send and receive: one step, over the fabric or over the sender's network card."""

    kind: ClassVar[str] = "direct"
    operations: ClassVar[frozenset[Operation]] = frozenset({Operation.SEND_RECEIVE})

    def supports(self, operation: Operation, span: Span) -> bool:
        """A transfer has two ends."""
        return operation in self.operations and span.num_ranks == 2

    def steps(self, operation: Operation, span: Span, num_bytes: float) -> tuple[Step, ...]:
        """See ``Algorithm.steps``; what they are is told above."""
        if span.num_hosts == 1:
            return (Step(1, Level.HOST, (num_bytes, 0.0)),)
        return (Step(1, Level.NETWORK, (0.0, num_bytes)),)

    def run(
        self, operation: Operation, arrays: Sequence[Array], wire: Wire, reduction: np.ufunc = np.add
    ) -> list[Array]:
        """See ``Algorithm.run``."""
        wire.num_rounds += 1
        return [arrays[0], wire.send(0, 1, arrays[0])]
