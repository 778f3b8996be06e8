"""From a planned graph and its timetable to the Program: codes lowered once, executions per part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from simcluster.errors import PlanError
from simcluster.layout import Mesh
from simcluster.model import Block, Graph, Instance, Phase, Role
from simcluster.plan.conduct import FREE, Conduct
from simcluster.plan.inputs import Inputs
from simcluster.plan.piece import USUAL_GRAPHS, Graphs
from simcluster.plan.schedule import BACKWARD as B_ACTION
from simcluster.plan.schedule import FORWARD as F_ACTION
from simcluster.plan.schedule import Action as ScheduleAction
from simcluster.plan.schedule import Timetable
from simcluster.plan.units import gathered_name, whole_name
from simcluster.program.buckets import Bucket, buckets
from simcluster.program.code_table import CodeTable
from simcluster.program.inputs import Fed, input_buffer, input_codes, with_inputs
from simcluster.program.instruction import (
    COMPUTE,
    RECV_NEXT,
    RECV_PREV,
    SEND_NEXT,
    SEND_PREV,
    Category,
    Execution,
)
from simcluster.program.lower import (
    BACKWARD,
    BEGIN,
    FORWARD,
    GATHER,
    MEASURE,
    NORM,
    PREPARE,
    REDUCE,
    UPDATE,
    Lowering,
)
from simcluster.program.program import PartProgram, Program, Resident
from simcluster.program.residents import placeholders, residents_of
from simcluster.program.ties import crossing_ties
from simcluster.program.unit_buckets import unit_buckets
from simcluster.program.units import Codes, Gathers, Scatters, each_alone, with_units

ONCE = -1
"""The micro-batch of what runs once per step."""


def build(
    graph: Graph,
    timetables: Sequence[Timetable],
    mesh: Mesh,
    stage_axis: str,
    *,
    variant_axis: str = "",
    variants: tuple[int, ...] = (0,),
    overlapped: bool,
    prefetch: int,
    conduct: Conduct = FREE,
    tf32: bool = False,
    graphs: Graphs = USUAL_GRAPHS,
    inputs: Inputs | None = None,
    attention: int | None = None,
    assigned: tuple[int, ...] = (),
) -> Program:
    """The Program of a sharded, optimised, fused graph, with parts for every timetable.

    ``variants`` are the timetables of the ranks, by their coordinate along ``variant_axis``.
    ``overlapped`` posts receives one action ahead; otherwise transfers between two actions are posted
    together and waited for. ``conduct`` says what else waits, and what travels together; ``tf32`` lets matrix
    kernels multiply fp32 operands in tf32. ``graphs``: how pieces run that are graphs. ``inputs``: how
    micro-batches get to the devices; None: they are there. ``attention`` is the release of its fused kernel,
    if an earlier one. ``assigned`` says which stage's part each rank runs, where no axis does.
    """
    settings = Lowering(mesh, prefetch, conduct.blocking_layers, tf32, graphs, attention, conduct.storage)
    codes = CodeTable(settings, conduct)
    parts = tuple(
        _PartBuilder(graph, stage, actions, codes, overlapped, inputs).build()
        for stage, each in enumerate(zip(*timetables, strict=True))
        for actions in each
    )
    workspaces = conduct.storage.workspaces
    return Program(mesh, stage_axis, tuple(codes.codes), parts, variant_axis, variants, workspaces, assigned)


@dataclass
class _PartBuilder:
    graph: Graph
    stage: int
    actions: Sequence[ScheduleAction]
    codes: CodeTable
    overlapped: bool
    inputs: Inputs | None

    def build(self) -> PartProgram:
        self.instances = [each for each in self.graph.instances if each.stage == self.stage]
        self.names = dict(self._border_names()) | dict(self._tied_names()) | dict(self._shared_names())
        self.arrivals = list(self._crossing(into=True))
        self.departures = list(self._crossing(into=False))
        begin = list(self._once(BEGIN, self.instances))
        begin += [run for runs in self._gathers(Phase.BEGIN).values() for run in runs]
        self.reductions = list(self._reductions())
        executions = [
            *begin,
            *self._gathered(self._scheduled()),
            *self._late_reductions(),
            *(each for phase in (NORM, MEASURE, UPDATE) for each in self._once(phase, self.instances[::-1])),
        ]
        codes = {each.name: self.codes.of(self.graph.block_of(each)) for each in self.instances}
        self.scatters = self._unit_scatters()
        executions = with_units(
            executions,
            codes,
            self.codes.settings.prefetch,
            once=self.codes.conduct.gather_once,
            weights=self._unit_gathers(codes),
            gradients=self.scatters,
        )
        residents = list(residents_of(self.graph, self.instances, self.codes.settings.mesh, self._buffer))
        residents += self._bucket_buffers(residents)
        residents += placeholders(self.graph, self.instances, self.codes.settings)
        if self.inputs is not None:
            executions = self._fed(self.inputs, executions, residents)
        return PartProgram(tuple(executions), tuple(residents), self.names)

    def _fed(self, inputs: Inputs, executions: list[Execution], residents: list[Resident]) -> list[Execution]:
        """The executions with those of the input pipeline, if anything of the part reads inputs."""
        fed = Fed.of([self.codes.codes[each.code] for each in executions])
        if fed.num_bytes:
            numbers = [self.codes.add(each) for each in input_codes(inputs, fed)]
            executions = with_inputs(executions, self.codes.codes, inputs.prefetch, numbers)
            residents.append(input_buffer(fed))
        return executions

    # -- names ------------------------------------------------------------------------------------------

    def _border_names(self) -> Iterator[tuple[tuple[str, str], str]]:
        for instance in self.instances:
            block = self.graph.block_of(instance)
            pairs = [*zip(block.inputs, instance.inputs, strict=True)]
            pairs += [(value, instance.output(value)) for value in block.outputs]
            for inner, outer in pairs:
                yield (instance.name, inner), outer
                if inner in block.gradients:
                    yield (instance.name, block.gradients[inner]), f"{outer}.grad"

    def _tied_names(self) -> Iterator[tuple[tuple[str, str], str]]:
        """Copies of a tied parameter on this stage share the first copy's buffers."""
        parameters = {
            f"{instance.name}.{name}": (instance, name)
            for instance in self.instances
            for name in self.graph.block_of(instance).parameters
        }
        for group in self.graph.ties:
            here = [name for name in group if name in parameters]
            for name in here[1:]:
                instance, inner = parameters[name]
                block = self.graph.block_of(instance)
                yield (instance.name, inner), here[0]
                made = {value for node in block.nodes for value in node.outputs}
                if gathered_name(inner) not in made:
                    yield (instance.name, gathered_name(inner)), gathered_name(here[0])
                gradient = block.gradients.get(inner)
                if gradient is not None:
                    owner, first = parameters[here[0]]
                    shared = f"{owner.name}.{self.graph.block_of(owner).gradients[first]}"
                    yield (instance.name, gradient), shared
                    whole = block.values.get(whole_name(gradient))
                    if whole is not None and whole.role is Role.SUM:
                        yield (instance.name, whole_name(gradient)), whole_name(shared)

    def _shared_names(self) -> Iterator[tuple[tuple[str, str], str]]:
        """Values that the blocks of this stage share are called what they call them."""
        for instance in self.instances:
            for value in self.graph.block_of(instance).shared:
                yield (instance.name, value), value

    # -- what crosses stages ----------------------------------------------------------------------------

    def _crossing(self, into: bool) -> Iterator[tuple[Block, str, str]]:
        """(maker's block, its value, graph value) of every activation that enters or leaves this stage.

        A value goes from stage to stage until the last that reads it has it; its gradient comes back so.
        """
        makers = {
            each.output(value): (each, value)
            for each in self.graph.instances
            for value in self.graph.block_of(each).outputs
        }
        last: dict[str, int] = {}
        for reader in self.graph.instances:
            for outer in reader.inputs:
                maker, _ = makers[outer]
                if reader.stage < maker.stage:
                    raise PlanError(
                        f"{reader.name} on stage {reader.stage} reads {outer} of stage {maker.stage}: "
                        "values pass to later stages only",
                        path="parallel.schedule.stages",
                    )
                last[outer] = max(reader.stage, last.get(outer, 0))
        for outer, end in last.items():
            maker, value = makers[outer]
            first = maker.stage + into
            if first <= self.stage < end + into:
                yield self.graph.block_of(maker), value, outer

    def _receives(self, action: ScheduleAction) -> Iterator[Execution]:
        forward = action.kind == F_ACTION
        stream = RECV_PREV if forward else RECV_NEXT
        for crossing in self.arrivals if forward else self.departures:
            yield self._transfer(stream, *crossing, action)

    def _sends(self, action: ScheduleAction) -> Iterator[Execution]:
        forward = action.kind == F_ACTION
        stream = SEND_NEXT if forward else SEND_PREV
        for crossing in self.departures if forward else self.arrivals:
            yield self._transfer(stream, *crossing, action)

    def _transfer(
        self, stream: str, block: Block, value: str, outer: str, action: ScheduleAction
    ) -> Execution:
        """A value of its maker's block, or its gradient."""
        forward = action.kind == F_ACTION
        code = self.codes.transfer(stream, block, value if forward else block.gradients[value])
        buffer = outer if forward else f"{outer}.grad"
        self.names[(buffer, "value")] = buffer
        return Execution(code, buffer, action.micro_batch, str(action))

    # -- executions -------------------------------------------------------------------------------------

    def _once(self, phase: str, instances: Sequence[Instance]) -> Iterator[Execution]:
        for instance in instances:
            code = self.codes.of(self.graph.block_of(instance)).get(phase)
            if code is not None:
                yield Execution(code, instance.name, ONCE, phase if phase == BEGIN else "end")

    def _scheduled(self) -> Iterator[Execution]:
        """Every action with its transfers: receives one action ahead if overlapped, else just before."""
        first = next(action for action in self.actions if action.kind == F_ACTION)
        last = [action for action in self.actions if action.kind == B_ACTION][-1]
        posted = 0
        for index, action in enumerate(self.actions):
            ahead = index + 2 if self.overlapped else index + 1
            for coming in self.actions[posted:ahead]:
                yield from self._receives(coming)
            posted = max(posted, ahead)
            yield from self._compute(action, first=action == first, final=action == last)
            yield from self._sends(action)

    def _compute(self, action: ScheduleAction, *, first: bool, final: bool) -> Iterator[Execution]:
        forward = action.kind == F_ACTION
        for instance in self.instances if forward else self.instances[::-1]:
            codes = self.codes.of(self.graph.block_of(instance))
            if first and PREPARE in codes:
                yield Execution(codes[PREPARE], instance.name, ONCE, str(action))
            code = codes.get(FORWARD if forward else BACKWARD)
            if code is not None:
                yield Execution(code, instance.name, action.micro_batch, str(action), not self.overlapped)
            if final and not self.codes.conduct.late:
                for ready, reduction in self.reductions:
                    if ready == instance.name:
                        yield replace(reduction, action=str(action))

    # -- what happens once per step ---------------------------------------------------------------------

    def _reductions(self) -> Iterator[tuple[str, Execution]]:
        """(instance whose backward must be over, execution) of every reduction, in order.

        What several stages reduce together comes last, in the order of the ties.
        """
        conduct = self.codes.conduct
        ties, backward = crossing_ties(self.graph), self.instances[::-1]
        if not conduct.by_layer:
            mesh = self.codes.settings.mesh
            for bucket in buckets(self.graph, backward, conduct, mesh, self._buffer, ties):
                yield bucket.at, self._bucket(bucket, "end")
            return
        together: list[tuple[int, Execution]] = []
        for instance in backward:
            code = self.codes.of(self.graph.block_of(instance)).get(REDUCE)
            if code is not None:
                run = Execution(code, instance.name, ONCE, "end")
                places = [place for (name, _), place in ties.items() if name == instance.name]
                if places:
                    together.append((min(places), run))
                else:
                    yield instance.name, run
        last = together[-1][1].instance if together else ""
        for _, run in sorted(together, key=lambda each: each[0]):
            yield last, run

    def _buffer(self, instance: str, value: str) -> str:
        return self.names.get((instance, value)) or f"{instance}.{value}"

    def _bucket(self, bucket: Bucket, action: str) -> Execution:
        """The execution of a bucket, which calls its values as their buffers are called."""
        name = bucket.block.name
        self.names |= {(name, value): value for value in bucket.block.values}
        # Buckets of equal tensors are equal only up to names: every stage has its own.
        unique = replace(bucket.block, name=f"stage{self.stage}.{name}")
        (code,) = self.codes.of(unique, bucket.scopes).values()
        return Execution(code, name, ONCE, action)

    def _gathers(self, phase: Phase) -> dict[str, list[Execution]]:
        """Instance -> the executions that gather those buckets of weights that it is the first to need."""
        found: dict[str, list[Execution]] = {}
        if self.codes.conduct.gathers_together:
            for at, run in self._moved(phase, self.instances[:: -1 if phase is Phase.REGATHER else 1]):
                found.setdefault(at, []).append(run)
        return found

    def _unit_gathers(self, codes: Codes) -> Gathers:
        """What gathers the weights of instances for their forward and backward.

        Nothing does so for an instance of which the only weights are copies of those of another one.
        """
        if not self.codes.conduct.gathers_together:
            alone = each_alone(codes)
            return {**alone, GATHER: dict.fromkeys(self._users(Phase.GATHER), ()) | dict(alone[GATHER])}
        found: dict[str, dict[str, Sequence[Execution]]] = {}
        for phase in (Phase.GATHER, Phase.REGATHER):
            led = self._gathers(phase)
            found[str(phase)] = {name: led.get(name, ()) for name in self._users(phase)}
        return found

    def _unit_scatters(self) -> Scatters | None:
        """What scatters the gradients of instances behind their backward, if they travel together."""
        if not self.codes.conduct.scatters_together:
            return None
        completed = dict(self._moved(Phase.SCATTER, self.instances[::-1]))
        return {name: completed.get(name) for name in self._users(Phase.SCATTER)}

    def _users(self, phase: Phase) -> list[str]:
        """The instances with something to do in a phase, or with weights that others gather in it."""
        blocks = {each.name: self.graph.block_of(each) for each in self.instances}
        return [
            name
            for name, block in blocks.items()
            if any(block.phase(phase))
            or (phase is Phase.GATHER and any(kind.role is Role.GATHERED for kind in block.values.values()))
        ]

    def _moved(self, phase: Phase, instances: Sequence[Instance]) -> Iterator[tuple[str, Execution]]:
        """(instance at which it is due, execution) of every bucket of weights or of sharded gradients."""
        fusion = self.codes.conduct.fusion
        assert fusion is not None
        mesh = self.codes.settings.mesh
        for bucket in unit_buckets(self.graph, instances, phase, fusion, mesh, self._buffer):
            yield bucket.at, self._bucket(bucket, BEGIN if phase is Phase.BEGIN else str(phase))

    def _late_reductions(self) -> Iterator[Execution]:
        """Reductions that wait for the last kernel of the backward pass."""
        if self.codes.conduct.late:
            for _, reduction in self.reductions:
                yield replace(reduction, behind=(COMPUTE,))

    def _gathered(self, scheduled: Iterator[Execution]) -> Iterator[Execution]:
        """The scheduled executions; the first of the kernels waits for the weights if gathers are exposed."""
        streams = self.codes.step_streams(BEGIN) if self.codes.conduct.exposed_gather else ()
        for execution in scheduled:
            if streams and self.codes.codes[execution.code].phase in (PREPARE, FORWARD):
                execution, streams = replace(execution, behind=streams), ()
            yield execution

    def _bucket_buffers(self, residents: Sequence[Resident]) -> Iterator[Resident]:
        """What is held for buckets under way, where gradients travel at all."""
        conduct = self.codes.conduct
        policy, count = conduct.buckets, conduct.buffers
        if policy is None or not count or not self.reductions:
            return
        gradients = [each.whole.dtype for each in residents if each.category is Category.GRADIENTS]
        full = policy.num_bytes(max(dtype.itemsize for dtype in gradients))
        fusion = conduct.fusion
        if fusion is not None and not {fusion.all_reduce, fusion.reduce_scatter} <= {None, policy}:
            # The profile's limit is not what fills them: the largest that travels.
            runs = [run for _, run in self.reductions]
            runs += [run for run in (self.scatters or {}).values() if run is not None]
            full = max(each.num_bytes for run in runs for each in self.codes.codes[run.code].instructions)
        yield Resident.room("reduction buffers", Category.COMMUNICATION, round(count * full))
