"""The scenario's ``collectives:`` section."""

from __future__ import annotations

from pydantic import model_validator

from simcluster.collectives.cost import AUTO, CollectiveRequest, Override, Selection, refused_name
from simcluster.collectives.operation import Operation
from simcluster.document import Name, PositiveInt, Refused, Section


class OverrideSpec(Section):
    """What some collectives use: ``{match: "layers.*.mlp.*", algorithm: tree, protocol: simple}``."""

    match: Name
    """A pattern for names of collectives: that of the layer and their own, ``layers.3.mlp.down.reduce``."""

    algorithm: Name = AUTO
    """The algorithm."""

    protocol: Name = AUTO
    """One of the protocols that the host lists for the algorithm."""

    channels: PositiveInt | None = None
    """In how many channels data moves: fewer than the library's own are slower in proportion."""

    @model_validator(mode="after")
    def _is_known(self) -> OverrideSpec:
        if problem := refused_name(self.algorithm):
            raise Refused(problem.message, path="algorithm", hint=problem.hint)
        if (self.algorithm, self.protocol, self.channels) == (AUTO, AUTO, None):
            raise Refused("this overrides nothing; write algorithm, protocol or channels")
        return self


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

    neighbor_exchange: Name | None = None
    """Of the exchange of halos with both neighbours alone."""

    shift: Name | None = None
    """Of the exchange of halos in one direction alone."""

    rotate: Name | None = None
    """Of what every rank sends to the next, the last to the first, alone."""

    barrier: Name | None = None
    """Of the barrier alone."""

    overrides: tuple[OverrideSpec, ...] = ()
    """What collectives of certain names use; of several that fit, the last counts."""

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
        overrides = tuple(
            Override(
                override.match, CollectiveRequest(override.algorithm, override.protocol, override.channels)
            )
            for override in self.overrides
        )
        return Selection.by(self.algorithm, self._named(), overrides)

    def _named(self) -> dict[Operation, str]:
        written = {operation: getattr(self, operation) for operation in Operation}
        return {operation: kind for operation, kind in written.items() if kind is not None}
