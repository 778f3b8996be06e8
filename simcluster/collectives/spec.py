"""The scenario's ``collectives:`` section."""

from __future__ import annotations

from pydantic import model_validator

from simcluster.collectives.cost import AUTO, CollectiveRequest, Override, Selection, refused_name
from simcluster.collectives.operation import Operation
from simcluster.document import Name, PositiveInt, Refused, Section


class OverrideSpec(Section):
    """Settings for some collectives: ``{match: "layers.*.mlp.*", algorithm: tree, protocol: simple}``."""

    match: Name
    """Pattern of collective names, which consist of the layer's name and their own:
    ``layers.3.mlp.down.reduce``."""

    algorithm: Name = AUTO
    """The algorithm."""

    protocol: Name = AUTO
    """One of the protocols that the host defines for the algorithm."""

    channels: PositiveInt | None = None
    """Number of channels; fewer than the library's own choice are proportionally slower."""

    @model_validator(mode="after")
    def _is_known(self) -> OverrideSpec:
        if problem := refused_name(self.algorithm):
            raise Refused(problem.message, path="algorithm", hint=problem.hint)
        if (self.algorithm, self.protocol, self.channels) == (AUTO, AUTO, None):
            raise Refused("this overrides nothing; write algorithm, protocol or channels")
        return self


class CollectivesSpec(Section):
    """Which algorithms collectives use; ``auto``: the fastest, as the communication library would choose."""

    algorithm: Name = AUTO
    """Algorithm of every operation that supports it; other operations, and those named below, use their own.
    """

    all_reduce: Name | None = None
    """Algorithm of all-reduce."""

    all_gather: Name | None = None
    """Algorithm of all-gather."""

    reduce_scatter: Name | None = None
    """Algorithm of reduce-scatter."""

    all_to_all: Name | None = None
    """Algorithm of all-to-all."""

    all_to_all_v: Name | None = None
    """Algorithm of all-to-all with parts of different sizes."""

    broadcast: Name | None = None
    """Algorithm of broadcast."""

    reduce: Name | None = None
    """Algorithm of reduce (to one rank)."""

    gather: Name | None = None
    """Algorithm of gather (to one rank)."""

    scatter: Name | None = None
    """Algorithm of scatter (from one rank)."""

    send_receive: Name | None = None
    """Algorithm of transfers between pipeline stages."""

    neighbor_exchange: Name | None = None
    """Algorithm of the halo exchange with both neighbours."""

    shift: Name | None = None
    """Algorithm of the halo exchange in one direction."""

    rotate: Name | None = None
    """Algorithm of the ring shift, in which every rank sends to the next, and the last to the first."""

    barrier: Name | None = None
    """Algorithm of barrier."""

    overrides: tuple[OverrideSpec, ...] = ()
    """Settings for collectives by name; if several entries match, the last one counts."""

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
