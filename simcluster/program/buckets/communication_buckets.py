"""The communication buckets of a part: gradients once per step, and sharded weights and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh
from simcluster.model import Phase, Role
from simcluster.program.buckets.equal_stages import EqualStages
from simcluster.program.buckets.fsdp_buckets import unit_buckets
from simcluster.program.buckets.fsdp_executions import Codes, Gathers, Scatters, gather_units_separately
from simcluster.program.buckets.gradient_buckets import GradientBucket, fill_gradient_buckets
from simcluster.program.buckets.reduction_triggers import ReductionTrigger
from simcluster.program.isa import BlockExecution, Category, PersistentBuffer
from simcluster.program.lowering import BEGIN, GATHER, REDUCE, reduction_nodes
from simcluster.program.stages import ONCE, StageContext


@dataclass(frozen=True)
class CommunicationBuckets:
    """The buckets of a part; ``tied``: instance with a copy of a tied parameter -> the one that holds it.

    ``equal`` knows the buckets of the stages so far.
    """

    part: StageContext
    tied: Mapping[str, str]
    equal: EqualStages

    @cached_property
    def reductions(self) -> list[tuple[str, BlockExecution]]:
        """(instance after whose backward it starts, execution) of every reduction, in order.

        Tied parameters, which several stages reduce together, come last, in the order of the ties.
        """
        by_layer = self.part.codes.policy.by_layer
        return list(self._by_layer() if by_layer else self._in_buckets())

    def _in_buckets(self) -> Iterator[tuple[str, BlockExecution]]:
        part, policy = self.part, self.part.codes.policy
        renamed = self.equal.renamed(part)
        if renamed is not None:
            for name, at, values, code in renamed:
                part.names.update({(name, value): value for value in values})
                yield self._triggers.behind(at, values), BlockExecution(code, name, ONCE, "end")
            return
        ties, made = self.equal.ties, []
        for bucket in fill_gradient_buckets(part.graph, part.backward, policy, self._mesh, part.buffer, ties):
            run = self._bucket(bucket, "end")
            made.append((bucket, run.code))
            yield self._triggers.behind(bucket.at, bucket.block.values), run
        self.equal.add(part, made)

    def _by_layer(self) -> Iterator[tuple[str, BlockExecution]]:
        part, ties = self.part, self.equal.ties
        together: list[tuple[int, str, BlockExecution]] = []
        for instance in part.backward:
            code = part.codes_of(instance).get(REDUCE)
            if code is not None:
                run = BlockExecution(code, instance.name, ONCE, "end")
                nodes = reduction_nodes(part.graph.block_of(instance))
                values = [part.buffer(instance.name, value) for node in nodes for value in node.inputs]
                due = self._triggers.behind(instance.name, values)
                places = [place for (name, _), place in ties.items() if name == instance.name]
                if places:
                    together.append((min(places), due, run))
                else:
                    yield due, run
        last = max((due for _, due, _ in together), key=self._triggers.place.__getitem__, default="")
        for _, _, run in sorted(together, key=lambda member: member[0]):
            yield last, run

    def gathers(self, phase: Phase) -> dict[str, list[BlockExecution]]:
        """Instance -> the executions that gather the buckets of weights of which it is the first user."""
        gathers: dict[str, list[BlockExecution]] = {}
        if self.part.codes.policy.gathers_together:
            for bucket in self._moved(phase):
                run = self._bucket(bucket, BEGIN if phase is Phase.BEGIN else str(phase))
                gathers.setdefault(bucket.at, []).append(run)
        return gathers

    def unit_gathers(self, codes: Codes) -> Gathers:
        """What gathers the weights of instances for their forward and backward.

        Nothing does so for an instance of which the only weights are copies of those of another one.
        """
        if not self.part.codes.policy.gathers_together:
            alone = gather_units_separately(codes)
            return {**alone, GATHER: dict.fromkeys(self._users(Phase.GATHER), ()) | dict(alone[GATHER])}
        gathers: dict[str, dict[str, Sequence[BlockExecution]]] = {}
        for phase in (Phase.GATHER, Phase.REGATHER):
            led = self.gathers(phase)
            gathers[str(phase)] = {name: led.get(name, ()) for name in self._users(phase)}
        return gathers

    @cached_property
    def scatters(self) -> Scatters | None:
        """Instance -> the reduce-scatter after its backward, where gradients are reduced in buckets."""
        if not self.part.codes.policy.scatters_together:
            return None
        completed = {bucket.at: self._bucket(bucket, str(Phase.SCATTER)) for bucket in self._scattered}
        return {name: completed.get(name) for name in self._users(Phase.SCATTER)}

    def buffers(self, residents: Sequence[PersistentBuffer]) -> Iterator[PersistentBuffer]:
        """The memory of buckets that are being reduced, if any gradients are."""
        policy = self.part.codes.policy
        buckets, count = policy.buckets, policy.buffers
        if buckets is None or not count or not self.reductions:
            return
        gradients = [
            resident.whole.dtype for resident in residents if resident.category is Category.GRADIENTS
        ]
        full = buckets.num_bytes(max(dtype.itemsize for dtype in gradients))
        fusion = policy.fusion
        if fusion is not None and not {fusion.all_reduce, fusion.reduce_scatter} <= {None, buckets}:
            # The profile's limit is not what fills them: the largest that travels.
            runs = [run for _, run in self.reductions]
            runs += [run for run in (self.scatters or {}).values() if run is not None]
            codes = self.part.codes.codes
            full = max(instruction.num_bytes for run in runs for instruction in codes[run.code].instructions)
        yield PersistentBuffer.reserved("reduction buffers", Category.COMMUNICATION, round(count * full))

    @property
    def _mesh(self) -> Mesh:
        return self.part.codes.settings.mesh

    @cached_property
    def _triggers(self) -> ReductionTrigger:
        return ReductionTrigger.of(self.part.backward, self.tied, self._scattered)

    @cached_property
    def _scattered(self) -> list[GradientBucket]:
        """The buckets of sharded gradients, if these travel together."""
        return list(self._moved(Phase.SCATTER)) if self.part.codes.policy.scatters_together else []

    def _bucket(self, bucket: GradientBucket, action: str) -> BlockExecution:
        """The execution of a bucket, which calls its values as their buffers are called."""
        name = bucket.block.name
        self.part.names.update({(name, value): value for value in bucket.block.values})
        # Buckets of equal tensors are equal only up to names: every stage has its own.
        unique = replace(bucket.block, name=f"stage{self.part.stage}.{name}")
        (code,) = self.part.codes.of(unique, bucket.scopes).values()
        return BlockExecution(code, name, ONCE, action)

    def _users(self, phase: Phase) -> list[str]:
        """The instances with something to do in a phase, or with weights that others gather in it."""
        blocks = {instance.name: self.part.graph.block_of(instance) for instance in self.part.instances}
        return [
            name
            for name, block in blocks.items()
            if any(block.phase(phase))
            or (phase is Phase.GATHER and any(kind.role is Role.GATHERED for kind in block.values.values()))
        ]

    def _moved(self, phase: Phase) -> Iterator[GradientBucket]:
        """Every bucket of weights or of sharded gradients.

        What is used by different chunks is so at different times: these have buckets of their own.
        """
        fusion = self.part.codes.policy.fusion
        assert fusion is not None
        step = -1 if phase in (Phase.REGATHER, Phase.SCATTER) else 1
        part = self.part
        for chunk, instances in part.chunks.items():
            for bucket in unit_buckets(part.graph, instances[::step], phase, fusion, self._mesh, part.buffer):
                name = f"{bucket.block.name}.chunk{chunk}" if chunk else bucket.block.name
                yield replace(bucket, block=replace(bucket.block, name=name))
