"""What a server runs: it adds up the gradients of every key, and updates all keys when they are there."""

from __future__ import annotations

from dataclasses import field, replace

from simcluster.cluster import HostPath
from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout
from simcluster.model import MemoryPlace, SparseUpdate, TensorType
from simcluster.plan import ServedParameter, ServerPlan, ServerShard
from simcluster.program.isa import (
    HOST,
    BlockExecution,
    Call,
    Category,
    Executions,
    GateWait,
    Instruction,
    InstructionBlock,
    InstructionKind,
    PersistentBuffer,
    ServerUpdateCall,
    StageProgram,
)
from simcluster.program.parameter_server.buffer_names import (
    gradient_buffer,
    ids_buffer,
    state_buffer,
    weights_buffer,
)
from simcluster.program.parameter_server.gate_names import pushed, updated
from simcluster.program.parameter_server.streams import gate_stream, update_stream
from simcluster.program.parameter_server.worker_codes import PHASE, cached_row_bytes, gate_instruction
from simcluster.work import DType, Kernel, Work

MASTER = "master"


@dataclass
class ServerBuilder:
    """Appends the codes of one server to those that a program already has."""

    servers: ServerPlan
    server: int
    codes: list[InstructionBlock]
    residents: dict[str, PersistentBuffer] = field(default_factory=dict)

    def build(self) -> StageProgram:
        """The part of the server."""
        held = list(self.servers.shards_of(self.server))
        workers = (None,) if self.servers.is_synchronous else tuple(self.servers.active)
        executions = [self._update(held, worker) for worker in workers] if held else []
        return StageProgram(Executions.of(executions), tuple(self.residents.values()))

    @property
    def _instance(self) -> str:
        return f"server {self.server}"

    def _update(self, held: list[tuple[ServedParameter, ServerShard]], worker: int | None) -> BlockExecution:
        """The update of all keys with the gradients of all workers, or of one."""
        instructions: list[Instruction] = []
        work = HOST if worker is None else update_stream(worker)
        whose = "workers" if worker is None else f"worker {worker}"
        for parameter, shard in held:
            count = self.servers.num_active if worker is None else 1
            wait = GateWait(pushed(parameter.name, self.server, worker), count)
            instructions.append(gate_instruction(gate_stream(whose), wait))
            if worker is None and not parameter.by_rows:
                added, awaited = self._added(parameter, shard), len(instructions) - 1
                instructions.append(_work(f"add up {parameter.name}", work, (added,), (awaited,)))
        last = len(instructions) - 1
        for parameter, shard in held:
            instructions.append(self._updated(parameter, shard, worker, work, last))
        instructions[-1] = replace(instructions[-1], opens=(updated(self.server, worker),))
        name = f"update for {whose}"
        self.codes.append(InstructionBlock(name, PHASE, tuple(instructions), ()))
        return BlockExecution(len(self.codes) - 1, self._instance, -1, "")

    def _added(self, parameter: ServedParameter, shard: ServerShard) -> Work:
        """Adding gradients to those that are there, one by one: both are read, the sum is written."""
        kind = parameter.shard_type(shard, parameter.gradient_value.type.dtype)
        count = self.servers.num_active
        size = kind.num_bytes
        elements = kind.num_elements
        return Work(Kernel.OPTIMIZER, kind.dtype, count * elements, 2 * count * size, count * size)

    def _updated(
        self, parameter: ServedParameter, shard: ServerShard, worker: int | None, stream: str, awaited: int
    ) -> Instruction:
        """The optimizer's step of a key."""
        weights, master = weights_buffer(parameter, shard), parameter.master
        kind, origin = parameter.shard_type(shard), parameter.name
        gradient_kind = parameter.shard_type(shard, parameter.gradient_value.type.dtype)
        gradients = gradient_buffer(parameter, shard, worker)
        self._hold(shard, weights, kind, Category.PARAMETERS, "" if master else parameter.name, origin)
        if not parameter.cached:
            self._hold_gradients(parameter, shard, worker, gradients, gradient_kind)
        changed = [weights]
        if master is not None:
            changed = [state_buffer(parameter, shard, MASTER)]
            held = TensorType(kind.shape, master)
            self._hold(shard, changed[0], held, Category.OPTIMIZER, parameter.name, origin)
        kinds = [TensorType(kind.shape, master or kind.dtype), gradient_kind]
        for state, dtype in parameter.states.items():
            changed.append(state_buffer(parameter, shard, state))
            kinds.append(TensorType(kind.shape, dtype))
            tensor = f"{parameter.name}.{state}"
            self._hold(shard, changed[-1], kinds[-1], Category.OPTIMIZER, tensor)
        if parameter.cached:
            return self._written(parameter, shard, stream, awaited)
        rule = replace(parameter.update, cast=kind.dtype if master else None)
        inputs = (changed[0], gradients, *changed[1:])
        outputs = (*changed, *([weights] if master else []))
        made = [kinds[0], *kinds[2:], *([kind] if master else [])]
        ids = ids_buffer(parameter, shard, worker) if parameter.ids else ""
        update = ServerUpdateCall(rule, inputs, outputs, weights, parameter.name, shard.first, shard.of, ids)
        works = rule.work(kinds, made)
        if parameter.by_rows:
            count = shard.named * (self.servers.num_active if worker is None else 1)
            pushed_ids = TensorType((count,), DType.INT64)
            rows = TensorType((count, parameter.row_elements), gradient_kind.dtype)
            by_rows = SparseUpdate(rule, shard.rows, 1)
            works = by_rows.work([kinds[0], rows, pushed_ids, *kinds[2:]], made)
        call = Call(f"{parameter.name}.update", update, (), ())
        return _work(f"update {parameter.name}", stream, works, (awaited,), call)

    def _written(
        self, parameter: ServedParameter, shard: ServerShard, stream: str, awaited: int
    ) -> Instruction:
        """Writing rows back that have left the caches of workers."""
        size = shard.named * cached_row_bytes(parameter)
        work = Work(Kernel.OPTIMIZER, DType.INT64, 0, size, size, (("rows", shard.named),))
        return _work(f"write back {parameter.name}", stream, (work,), (awaited,))

    def _hold_gradients(
        self,
        parameter: ServedParameter,
        shard: ServerShard,
        worker: int | None,
        name: str,
        kind: TensorType,
    ) -> None:
        """The gradients that come in: like the weights, or rows and their ids."""
        if parameter.by_rows:
            count = shard.named * (self.servers.num_active if worker is None else 1)
            kind = TensorType((count, parameter.row_elements), kind.dtype)
            ids = TensorType((count,), DType.INT64)
            self._hold(None, ids_buffer(parameter, shard, worker), ids, Category.GRADIENTS)
        self._hold(None, name, kind, Category.GRADIENTS)

    def _hold(
        self,
        shard: ServerShard | None,
        name: str,
        kind: TensorType,
        category: Category,
        tensor: str = "",
        origin: str = "",
    ) -> None:
        """A buffer of the server, in the memory of its host."""
        layout = Layout.replicated(len(kind.shape))
        rows = None if shard is None or shard.of == shard.rows else (shard.first, shard.of)
        self.residents[name] = PersistentBuffer(
            name, category, kind.num_bytes, kind, layout, origin, MemoryPlace.HOST, tensor, rows
        )


def _work(
    name: str, stream: str, works: tuple[Work, ...], after: tuple[int, ...], call: Call | None = None
) -> Instruction:
    """Work of the server's processors."""
    return Instruction(
        name,
        InstructionKind.COPY,
        stream,
        (call,) if call else (),
        after=after,
        works=works,
        operation=str(HostPath.WORK),
        group=(str(HostPath.WORK),),
    )
