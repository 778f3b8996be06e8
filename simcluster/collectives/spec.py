"""The scenario's ``collectives:`` section."""

from __future__ import annotations

from pydantic import model_validator

from simcluster.collectives.cost import AUTO, refused_name
from simcluster.collectives.operation import Operation
from simcluster.collectives.selection import Selection
from simcluster.document import Name, Refused, Section


class CollectivesSpec(Section):
    """Which algorithm collectives use; ``auto`` is the fastest, as the communication library would choose."""

    algorithm: Name = AUTO
    """Of every operation that it can do; operations that it cannot do, and operations named below, keep their
    own."""

    all_reduce: Name | None = None
    """Of the all-reduce alone."""

    all_gather: Name | None = None
    """Of the all-gather alone."""

    reduce_scatter: Name | None = None
    """Of the reduce-scatter alone."""

    all_to_all: Name | None = None
    """Of the all-to-all alone."""

    all_to_all_v: Name | None = None
    """Of the all-to-all with parts of different sizes alone."""

    broadcast: Name | None = None
    """Of the broadcast alone."""

    reduce: Name | None = None
    """Of the reduction to one rank alone."""

    gather: Name | None = None
    """Of the gather to one rank alone."""

    scatter: Name | None = None
    """Of the scatter from one rank alone."""

    send_receive: Name | None = None
    """Of transfers between pipeline stages."""

    barrier: Name | None = None
    """Of the barrier alone."""

    @model_validator(mode="after")
    def _is_known(self) -> CollectivesSpec:
        named: list[tuple[str, str, Operation | None]] = [("algorithm", self.algorithm, None)]
        named += [(str(operation), kind, operation) for operation, kind in self._named().items()]
        for path, kind, operation in named:
            if problem := refused_name(kind, operation):
                raise Refused(problem.message, path=path, hint=problem.hint)
        return self

    def build(self) -> Selection:
        """The selection."""
        return Selection.by(self.algorithm, self._named())

    def _named(self) -> dict[Operation, str]:
        written = {operation: getattr(self, operation) for operation in Operation}
        return {operation: kind for operation, kind in written.items() if kind is not None}
