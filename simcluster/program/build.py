"""From a planned graph and its timetable to the Program: codes lowered once, executions per part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain as joined

from simcluster.layout import Mesh
from simcluster.model import Graph, Instance, Phase, Role
from simcluster.plan.chain import Chain
from simcluster.plan.conduct import FREE, Conduct
from simcluster.plan.inputs import Inputs
from simcluster.plan.piece import USUAL_GRAPHS, Graphs
from simcluster.plan.schedule import BACKWARD as B_ACTION
from simcluster.plan.schedule import FORWARD as F_ACTION
from simcluster.plan.schedule import INPUTS, Timetable
from simcluster.plan.schedule import RECOMPUTE as R_ACTION
from simcluster.plan.schedule import WEIGHTS as W_ACTION
from simcluster.plan.schedule import Action as ScheduleAction
from simcluster.program.buckets import Bucket, buckets
from simcluster.program.code_table import CodeTable
from simcluster.program.crossing import Crossing, Crossings
from simcluster.program.due import Due
from simcluster.program.fetches import with_fetches
from simcluster.program.inputs import Fed, input_buffer, input_codes, with_inputs
from simcluster.program.instruction import COMPUTE, HOST, Category, Execution
from simcluster.program.lower import Lowering
from simcluster.program.names import buffer_names, holders
from simcluster.program.phases import (
    BACKWARD,
    BEGIN,
    FETCH,
    FORWARD,
    GATHER,
    MEASURE,
    NORM,
    PREPARE,
    RECOMPUTE,
    REDUCE,
    UPDATE,
    WEIGHTS,
    reduction,
)
from simcluster.program.program import PartProgram, Program, Resident
from simcluster.program.relocate import in_turn
from simcluster.program.residents import placeholders, residents_of
from simcluster.program.ties import crossing_ties
from simcluster.program.unit_buckets import unit_buckets
from simcluster.program.units import Codes, Gathers, Scatters, each_alone, with_units

ONCE = -1
"""The micro-batch of what runs once per step."""

_PHASES = {
    F_ACTION: (FORWARD,),
    R_ACTION: (RECOMPUTE,),
    B_ACTION: (RECOMPUTE, BACKWARD, WEIGHTS),
    INPUTS: (RECOMPUTE, BACKWARD),
    W_ACTION: (WEIGHTS,),
}
"""The phases of each half of an action; what is computed again by an action of its own is so once."""


def build(
    graph: Graph,
    timetables: Sequence[Timetable],
    mesh: Mesh,
    stage_axis: str,
    *,
    chain: Chain | None = None,
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

    ``chain`` says where the virtual stages lie; without it each stage is one. ``variants`` are the
    timetables of the ranks, by their coordinate along ``variant_axis``.
    ``overlapped`` posts receives one action ahead; otherwise transfers between two actions are posted
    together and waited for. ``conduct`` says what else waits, and what travels together; ``tf32`` lets matrix
    kernels multiply fp32 operands in tf32. ``graphs``: how pieces run that are graphs. ``inputs``: how
    micro-batches get to the devices; None: they are there. ``attention`` is the release of its fused kernel,
    if an earlier one. ``assigned`` says which stage's part each rank runs, where no axis does.
    """
    paired = any(action.beside for each in timetables for row in each for action in row)
    settings = Lowering(
        mesh, prefetch, conduct.blocking_layers, tf32, graphs, attention, conduct.storage, paired
    )
    codes = CodeTable(settings, conduct)
    crossings = Crossings(graph, chain or Chain.wrapped(len(timetables[0])))
    parts = tuple(
        _PartBuilder(graph, crossings, stage, actions, codes, overlapped, inputs).build()
        for stage, each in enumerate(zip(*timetables, strict=True))
        for actions in each
    )
    workspaces = conduct.storage.workspaces
    return Program(mesh, stage_axis, tuple(codes.codes), parts, variant_axis, variants, workspaces, assigned)


@dataclass
class _PartBuilder:
    graph: Graph
    crossings: Crossings
    stage: int
    actions: Sequence[ScheduleAction]
    codes: CodeTable
    overlapped: bool
    inputs: Inputs | None

    def build(self) -> PartProgram:
        self.instances = [each for each in self.graph.instances if each.stage == self.stage]
        self.chunks = {
            chunk: [each for each in self.instances if each.chunk == chunk]
            for chunk in range(self.crossings.chain.num_chunks)
        }
        halves = (half for action in self.actions for half in action.halves)
        self.ahead = {half.unit for half in halves if half.kind == R_ACTION}
        self.names = buffer_names(self.graph, self.crossings, self.instances)
        self.slices = {
            (chunk, part): [each for each in instances if each.slice == part]
            for chunk, instances in self.chunks.items()
            for part in range(self.num_slices)
        }
        virtual = {chunk: self.crossings.chain.virtual[self.stage, chunk] for chunk in self.chunks}
        self.arrivals = {chunk: list(self.crossings.arrivals(where)) for chunk, where in virtual.items()}
        self.departures = {chunk: list(self.crossings.departures(where)) for chunk, where in virtual.items()}
        self.moving: dict[tuple[int, int, bool, bool], list[tuple[int, str]]] = {}
        self.backward = [
            each
            for chunk in self._finished()
            for part in range(self.num_slices)[::-1]
            for each in self.slices[chunk, part][::-1]
        ]
        begin = list(self._once(BEGIN, self.instances))
        begin += [run for runs in self._gathers(Phase.BEGIN).values() for run in runs]
        self.scattered = self._scattered()
        tied = holders(self.graph, self.instances)
        self.due = Due.of(self.backward, tied, self.scattered)
        self.reductions = list(self._reductions())
        executions = [
            *begin,
            *self._gathered(self._scheduled()),
            *self._late_reductions(),
            *self._updated(
                each for phase in (NORM, MEASURE, UPDATE) for each in self._once(phase, self.instances[::-1])
            ),
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
            tied=tied,
        )
        fetches = {name: mine[FETCH] for name, mine in codes.items() if FETCH in mine}
        executions = with_fetches(executions, self.codes.codes, fetches)
        executions = in_turn(executions, self.codes.codes)
        residents = list(residents_of(self.graph, self.instances, self.codes.settings.mesh, self._buffer))
        residents += self._bucket_buffers(residents)
        residents += placeholders(self.graph, self.instances, self.codes.settings)
        if self.inputs is not None:
            executions = self._fed(self.inputs, executions, residents)
        slices = {each.name: (each.home, each.slice) for each in self.instances if self.num_slices > 1}
        return PartProgram(tuple(executions), tuple(residents), self.names, slices)

    @property
    def num_slices(self) -> int:
        """Slices of sequences, each with instances of its own."""
        return 1 + max(each.slice for each in self.instances)

    def _fed(self, inputs: Inputs, executions: list[Execution], residents: list[Resident]) -> list[Execution]:
        """The executions with those of the input pipeline, if anything of the part reads inputs."""
        fed = Fed.of([self.codes.codes[each.code] for each in executions])
        if fed.num_bytes:
            numbers = [self.codes.add(each) for each in input_codes(inputs, fed)]
            executions = with_inputs(executions, self.codes.codes, inputs.prefetch, numbers)
            residents.append(input_buffer(fed))
        return executions

    # -- what crosses stages ----------------------------------------------------------------------------

    def _receives(self, action: ScheduleAction) -> Iterator[Execution]:
        """What comes for an action and for what overlaps it."""
        for half in action.halves:
            values = half.kind == F_ACTION
            yield from self._moves(half, action, self.arrivals if values else self.departures)

    def _sends(self, action: ScheduleAction) -> Iterator[Execution]:
        for half in action.halves:
            values = half.kind == F_ACTION
            yield from self._moves(half, action, self.departures if values else self.arrivals)

    def _moves(
        self, half: ScheduleAction, action: ScheduleAction, crossing: Mapping[int, Sequence[Crossing]]
    ) -> Iterator[Execution]:
        """Values at one end of a chunk, or gradients at the other."""
        if half.kind in (W_ACTION, R_ACTION):
            return
        key = (half.chunk, half.slice, half.kind == F_ACTION, crossing is self.arrivals)
        if key not in self.moving:
            mine = [each for each in crossing[half.chunk] if each.slice == half.slice]
            self.moving[key] = [self._transfer(each, half) for each in mine]
        for code, buffer in self.moving[key]:
            yield Execution(code, buffer, half.micro_batch, str(action))

    def _transfer(self, crossing: Crossing, half: ScheduleAction) -> tuple[int, str]:
        """The code that moves a value, or its gradient, and the buffer it is in."""
        values = half.kind == F_ACTION
        stream = crossing.out if values else crossing.back
        buffer = crossing.buffer if values else f"{crossing.buffer}.grad"
        self.names[(buffer, "value")] = buffer
        return self.codes.transfer(stream, crossing.block, crossing.value, gradient=not values), buffer

    # -- executions -------------------------------------------------------------------------------------

    def _once(self, phase: str, instances: Sequence[Instance]) -> Iterator[Execution]:
        for instance in instances:
            code = self.codes.of(self.graph.block_of(instance)).get(phase)
            if code is not None:
                yield Execution(code, instance.name, ONCE, phase if phase == BEGIN else "end")

    def _scheduled(self) -> Iterator[Execution]:
        """Every action with its transfers: receives one action ahead if overlapped, else just before.

        Transfers that are waited for are posted together where a forward and a backward follow each other.
        """
        halves = [half for action in self.actions for half in action.halves]
        begun = {half.chunk: half for half in reversed(halves) if half.kind == F_ACTION}
        over = {half.chunk: half for half in halves if half.kind in (B_ACTION, W_ACTION)}
        ends = {*begun.values(), *over.values()}
        turns = self._turns()
        posted = 0
        for index, turn in enumerate(turns):
            ahead = index + 2 if self.overlapped else index + 1
            for coming in (action for each in turns[posted:ahead] for action in each):
                yield from self._receives(coming)
            posted = max(posted, ahead)
            for action in turn:
                runs = [list(self._compute(half, str(action), at_end=half in ends)) for half in action.halves]
                yield from joined.from_iterable(runs[0] if len(runs) == 1 else _woven(runs))
            for action in turn:
                yield from self._sends(action)

    def _turns(self) -> list[tuple[ScheduleAction, ...]]:
        """The actions between which nothing is sent or received.

        Each by itself; but where stages have chunks and wait for what they send, a forward and the backward
        behind it are one turn, as in Megatron (send_forward_backward_recv_forward_backward): with rounds
        through several chunks, a stage that waits for its gradient to be taken would hold up who takes it.
        Where all forwards come first, the last of them must be sent before anything comes back.
        """
        turns: list[tuple[ScheduleAction, ...]] = []
        kinds = "".join(action.kind for action in self.actions)
        paired = not self.overlapped and len(self.chunks) > 1 and kinds.count(F_ACTION + B_ACTION) > 1
        for action in self.actions:
            if (
                paired
                and action.kind != F_ACTION
                and turns
                and [each.kind for each in turns[-1]] == [F_ACTION]
            ):
                turns[-1] = (*turns[-1], action)
            else:
                turns.append((action,))
        return turns

    def _compute(self, half: ScheduleAction, action: str, *, at_end: bool) -> Iterator[list[Execution]]:
        """A half of an action, code by code, each with what happens once a step around it; ``at_end``: it is
        the first forward or the last backward of its chunk.
        """
        forward, instances = half.kind == F_ACTION, self.slices[half.chunk, half.slice]
        for instance in instances if forward else instances[::-1]:
            codes = self.codes.of(self.graph.block_of(instance))
            runs = [
                [Execution(code, instance.name, half.micro_batch, action, not self.overlapped)]
                for phase in self._phases(half)
                for code in self.codes.run(self.graph.block_of(instance), phase)
            ] or [[]]
            if forward and at_end and PREPARE in codes:
                runs[0].insert(0, Execution(codes[PREPARE], instance.name, ONCE, action))
            if at_end and not forward and not self.codes.conduct.late:
                runs[-1] += [
                    replace(run, action=action) for ready, run in self.reductions if ready == instance.home
                ]
            yield from runs

    def _phases(self, half: ScheduleAction) -> tuple[str, ...]:
        """The phases that a half of an action runs."""
        found = _PHASES[half.kind]
        ahead = half.kind != R_ACTION and half.unit in self.ahead
        return tuple(phase for phase in found if phase != RECOMPUTE) if ahead else found

    def _finished(self) -> list[int]:
        """The chunks in the order in which their last backward is over."""
        over = [half.chunk for action in self.actions for half in action.halves if half.kind != F_ACTION]
        return list(dict.fromkeys(reversed(over)))[::-1]

    # -- what happens once per step ---------------------------------------------------------------------

    def _reductions(self) -> Iterator[tuple[str, Execution]]:
        """(instance whose backward must be over, execution) of every reduction, in order.

        What several stages reduce together comes last, in the order of the ties.
        """
        conduct = self.codes.conduct
        ties, backward = crossing_ties(self.graph), self.backward
        if not conduct.by_layer:
            mesh = self.codes.settings.mesh
            for bucket in buckets(self.graph, backward, conduct, mesh, self._buffer, ties):
                yield self.due.behind(bucket.at, bucket.block.values), self._bucket(bucket, "end")
            return
        together: list[tuple[int, str, Execution]] = []
        for instance in backward:
            code = self.codes.of(self.graph.block_of(instance)).get(REDUCE)
            if code is not None:
                run = Execution(code, instance.name, ONCE, "end")
                nodes = reduction(self.graph.block_of(instance))
                values = [self._buffer(instance.name, value) for node in nodes for value in node.inputs]
                due = self.due.behind(instance.name, values)
                places = [place for (name, _), place in ties.items() if name == instance.name]
                if places:
                    together.append((min(places), due, run))
                else:
                    yield due, run
        last = max((due for _, due, _ in together), key=self.due.place.__getitem__, default="")
        for _, _, run in sorted(together, key=lambda each: each[0]):
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
            for each in self._moved(phase):
                run = self._bucket(each, BEGIN if phase is Phase.BEGIN else str(phase))
                found.setdefault(each.at, []).append(run)
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
        completed = {each.at: self._bucket(each, str(Phase.SCATTER)) for each in self.scattered}
        return {name: completed.get(name) for name in self._users(Phase.SCATTER)}

    def _scattered(self) -> list[Bucket]:
        """The buckets of sharded gradients, if these travel together."""
        return list(self._moved(Phase.SCATTER)) if self.codes.conduct.scatters_together else []

    def _users(self, phase: Phase) -> list[str]:
        """The instances with something to do in a phase, or with weights that others gather in it."""
        blocks = {each.name: self.graph.block_of(each) for each in self.instances}
        return [
            name
            for name, block in blocks.items()
            if any(block.phase(phase))
            or (phase is Phase.GATHER and any(kind.role is Role.GATHERED for kind in block.values.values()))
        ]

    def _moved(self, phase: Phase) -> Iterator[Bucket]:
        """Every bucket of weights or of sharded gradients.

        What is used by different chunks is so at different times: these have buckets of their own.
        """
        fusion = self.codes.conduct.fusion
        assert fusion is not None
        mesh = self.codes.settings.mesh
        step = -1 if phase in (Phase.REGATHER, Phase.SCATTER) else 1
        for chunk, instances in self.chunks.items():
            for each in unit_buckets(self.graph, instances[::step], phase, fusion, mesh, self._buffer):
                name = f"{each.block.name}.chunk{chunk}" if chunk else each.block.name
                yield replace(each, block=replace(each.block, name=name))

    def _updated(self, executions: Iterator[Execution]) -> Iterator[Execution]:
        """What follows the backward; the first that works on a host waits for its last kernel if told so."""
        waits = self.codes.conduct.late_updates
        for each in executions:
            if waits and HOST in self.codes.codes[each.code].streams:
                each, waits = replace(each, behind=(COMPUTE,)), False
            yield each

    def _late_reductions(self) -> Iterator[Execution]:
        """Reductions that wait for the last kernel of the backward pass."""
        if self.codes.conduct.late:
            for _, run in self.reductions:
                yield replace(run, behind=(COMPUTE,))

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


def _woven(halves: Sequence[list[list[Execution]]]) -> list[list[Execution]]:
    """Overlapped actions: what they run in turns, evenly, each in its own order.

    What happens once a step stays with the code it belongs to: gradients are reduced behind the last of
    several copies, which is the last in its turn.
    """
    places = [((number + 0.5) / len(each), each[number]) for each in halves for number in range(len(each))]
    return [run for _, run in sorted(places, key=lambda place: place[0])]
