"""The instructions of devices: launches that read and write buffer slots, grouped into blocks.

A block of instructions, or *code*, has no branches: the forward pass of one layer for one micro-batch, say.
It runs for many layers and micro-batches; a ``BlockExecution`` says for which. Instructions name groups and
peers relatively ("my tensor group", "the next stage"), so ranks that do the same run the same code.
"""

from __future__ import annotations

import enum
import math
from collections import defaultdict
from functools import cached_property
from typing import Self, TypeVar

from simcluster.collectives import UnequalPartsByGroup
from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Movement, Strategy, whole_axes, without_root
from simcluster.model import MemoryPlace, Operator, Phase, Relocation, TensorSlice, TensorType
from simcluster.program.isa.gate import GateWait, StepGate
from simcluster.program.isa.server_call import ServerCall, ServerUpdateCall
from simcluster.work import Work

COMPUTE = "compute"
"""The stream of every kernel; collectives run on streams named after their axes."""

INPUT = "input"
"""The first part of the names of the input pipeline's streams; waits for these are charged to it."""

OFFLOAD = "offload"
"""The same for the streams that copy values between a device, its host and the host's disks."""

HOST = "host_work"
"""The stream of a device's operators on the processors of its host; waits for it are charged to it."""


def is_host_stream(stream: str) -> bool:
    """Whether a stream is of copies to or from the host, or of operators that run there."""
    return charged_to(stream, "") in ((OFFLOAD,), (HOST,))


SEND_NEXT, RECV_PREV = "send_next", "recv_prev"
SEND_PREV, RECV_NEXT = "send_prev", "recv_next"
FOLDED_SEND_PREV, FOLDED_RECV_NEXT = "send_prev (activations)", "recv_next (activations)"
FOLDED_SEND_NEXT, FOLDED_RECV_PREV = "send_next (gradients)", "recv_prev (gradients)"
"""Activations go to the next stage and gradients back; where a pipeline is folded, its way back is the other
way round, on streams of its own: both ends of a stream must agree on the order of what travels."""

RECEIVER_OF = {
    SEND_NEXT: RECV_PREV,
    SEND_PREV: RECV_NEXT,
    FOLDED_SEND_PREV: FOLDED_RECV_NEXT,
    FOLDED_SEND_NEXT: FOLDED_RECV_PREV,
}
"""Sending stream -> the stream on which the peer receives."""

SENDER_OF = {receive: send for send, receive in RECEIVER_OF.items()}
TRANSFER_STREAMS = (*(stream for pair in RECEIVER_OF.items() for stream in pair),)


def is_send_stream(stream: str) -> bool:
    """Whether a stream between pipeline stages sends; others receive."""
    return stream in RECEIVER_OF


def peer_is_next_stage(stream: str) -> bool:
    """Whether a stream between pipeline stages connects to the next stage; others connect to the previous."""
    return stream in (SEND_NEXT, RECV_NEXT, FOLDED_SEND_NEXT, FOLDED_RECV_NEXT)


class Purpose(enum.StrEnum):
    """The purpose of a communication stream: its name is that of the axes, with the purpose as a suffix.

    Collectives of one stream run one after another. On one stream for all purposes, activations of the next
    layer would queue after a weight gradient, gathered weights after the gradients of another unit, and the
    parts of a transfer after receives that are posted early.
    """

    ACTIVATIONS = ""
    ONCE = " (step)"
    WEIGHTS = " (weights)"
    GRADIENTS = " (gradients)"
    PARTS = " (transfer)"
    HIDDEN = " (hidden states)"
    HIDDEN_GRADIENTS = " (gradients of hidden states)"
    EMBEDDED = " (embeddings)"
    EMBEDDED_GRADIENTS = " (gradients of embeddings)"


class StreamId(str):
    """The name of a stream, with the mesh axes, the input or the offload that waits for it are charged to."""

    __slots__ = ("charged_to",)
    charged_to: tuple[str, ...]

    def __new__(cls, text: str, charged_to: tuple[str, ...]) -> Self:
        """``text`` is its name."""
        made = super().__new__(cls, text)
        made.charged_to = charged_to
        return made

    def __reduce__(self) -> tuple[type[StreamId], tuple[object, ...]]:
        return StreamId, (str(self), self.charged_to)


def collective_stream(axes: tuple[str, ...], purpose: Purpose) -> StreamId:
    """The stream of collectives over ``axes`` for one purpose; a piece of an axis is charged to the whole."""
    return StreamId("+".join(map(without_root, axes)) + purpose, whole_axes(axes))


def charged_to(stream: str, stage_axis: str) -> tuple[str, ...]:
    """The mesh axes that waits for a communication stream are charged to; of others their own name."""
    if isinstance(stream, StreamId):
        return stream.charged_to
    return (stage_axis if stream in TRANSFER_STREAMS else stream,)


class Scope(enum.StrEnum):
    """How long a buffer lives: one execution, one micro-batch across executions, or beyond the step.

    ``kept`` are gathered weights that all micro-batches in flight share, from the first one's forward to the
    last one's backward.
    """

    LOCAL = "local"
    MICRO_BATCH = "micro_batch"
    KEPT = "kept"
    STEP = "step"


class Category(enum.StrEnum):
    """The category of memory that a buffer counts as."""

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer_states"
    KV_CACHE = "kv_cache"
    ACTIVATIONS = "activations"
    TEMPORARY = "temporary"
    COMMUNICATION = "communication"
    RUNTIME = "runtime"


class InstructionKind(enum.StrEnum):
    """What an instruction does; a copy moves bytes within a host, over PCIe or to and from disks.

    A push goes to a parameter server and a pull comes from one, without anything that the server does for it.
    What waits at a gate moves nothing.
    """

    COMPUTE = "compute"
    COLLECTIVE = "collective"
    SEND = "send"
    RECEIVE = "receive"
    COPY = "copy"
    PUSH = "push"
    PULL = "pull"
    GATE = "gate"


BETWEEN_RANKS = (
    InstructionKind.COLLECTIVE,
    InstructionKind.SEND,
    InstructionKind.RECEIVE,
    InstructionKind.PUSH,
    InstructionKind.PULL,
)
"""Instructions that move bytes between ranks."""

WITH_SERVER = (InstructionKind.PUSH, InstructionKind.PULL)
"""Those of a rank alone with a parameter server."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A buffer as a block of instructions sees it."""

    name: str
    """What it is called in its block."""
    scope: Scope
    """How long it lives."""
    type: TensorType
    """Shape and dtype of what one rank holds."""
    category: Category
    """What its memory is booked under."""
    num_bytes: int
    """What it takes where it is allocated."""
    whole: TensorType
    """The type of the tensor that it is a part of."""
    layout: Layout
    """Which part of that tensor it is."""
    feed: bool = False
    """Whether it is filled from the batch when the block starts."""
    below: int = 0
    """Of a feed of ids: the bound that they stay below."""
    part: TensorSlice | None = None
    """Of a feed: the part of the batch's tensor that fills it; None: all of it."""
    place: MemoryPlace = MemoryPlace.DEVICE
    """The memory that it is in."""


@dataclass(frozen=True, slots=True)
class Call:
    """One operator, or one movement or relocation of one tensor, on slots (by index); None moves it to
    another stage.

    ``masked`` are inputs that count only at coordinate 0 of the given axes; outputs in ``adds`` are added to
    what the slot holds.
    """

    name: str
    operator: Operator | Movement | Relocation | ServerCall | ServerUpdateCall | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    strategy: Strategy = Strategy()
    masked: tuple[tuple[int, tuple[str, ...]], ...] = ()
    adds: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Instruction:
    """One launch on one stream."""

    name: str
    """The operator or movement that it is made of."""
    action: InstructionKind
    """What it does."""
    stream: str
    """The stream that it runs on."""
    calls: tuple[Call, ...]
    """What it computes, or moves, on the slots of its block."""
    after: tuple[int, ...] = ()
    """Instructions of the same block that must have ended."""
    last_uses: tuple[int, ...] = ()
    """Slots that it is the last to read on its stream; a buffer is released when every such reader has
    ended."""
    works: tuple[Work, ...] = ()
    """What its kernels have to do."""
    operation: str = ""
    """Which collective it is; of a copy its way inside the host, which ``group`` holds too."""
    group: tuple[str, ...] = ()
    """The axes of a collective or transfer."""
    num_bytes: int = 0
    """Bytes of a collective or transfer, counted as nccl-tests counts; with ``parts`` the mean over the ranks
    of all groups."""
    in_place: bool = False
    """Whether what it writes takes the place of what it drops."""
    bandwidth_limit: float = math.inf
    """Of a copy: the bytes/s that it asks for at most."""
    reason: str = ""
    """What made a movement necessary, for the user."""
    parts: UnequalPartsByGroup | None = None
    """Of an all-to-all-v: its parts, group by group."""
    scratch: int = 0
    """Bytes that it holds while it runs, besides its slots."""
    piece: str = ""
    """The function, launched as one graph, that it belongs to; empty: it is dispatched by itself."""
    dispatch_cost: float = 1.0
    """The host's time for it, in multiples of what it spends on one operator."""
    chunked: str = ""
    """The collective that it is a chunk of, or goes in chunks with."""
    server: int = -1
    """Of a push or pull: the rank of the server."""
    gate: GateWait | None = None
    """What it waits for, of a gate."""
    opens: tuple[StepGate, ...] = ()
    """The gates that count one more for each rank when it ends; nothing of the compute stream opens any."""
    host_waits: bool = False
    """Whether the host waits until it has ended: it reads what the device made."""
    host_time: float = 0.0
    """Seconds for which the device waits for the host, of what runs no kernels."""

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Slots read, each once, in order."""
        return tuple(dict.fromkeys(slot for call in self.calls for slot in call.inputs))

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """Slots written, each once, in order."""
        return tuple(dict.fromkeys(slot for call in self.calls for slot in call.outputs))

    @cached_property
    def adds(self) -> tuple[int, ...]:
        """Slots written that are added to, each once, in order."""
        return tuple(dict.fromkeys(call.outputs[index] for call in self.calls for index in sorted(call.adds)))

    @property
    def bytes_moved(self) -> int:
        """Bytes of a collective or transfer; of kernels, their traffic to memory."""
        return self.num_bytes or sum(work.bytes_moved for work in self.works)

    @property
    def flops(self) -> int:
        """FLOPs of all its kernels."""
        return sum(work.flops for work in self.works)


S = TypeVar("S")


def record_producer(makers: dict[S, int], stream: S, at: int, *, adds: bool) -> None:
    """Notes one more of those who made what is in a buffer, stream -> place: of every stream the last one.

    Unless it ``adds`` to what is there, that is gone. What is added up on several streams, such as the
    squares of gradients on hosts and on the device, is there when all of ``makers`` are done.
    """
    if not adds:
        makers.clear()
    makers[stream] = at


@dataclass(frozen=True)
class InstructionBlock:
    """A straight line of instructions, in program order, over slots."""

    name: str
    phase: str
    instructions: tuple[Instruction, ...]
    slots: tuple[Slot, ...]

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The streams used, in order of first use."""
        return tuple(dict.fromkeys(instruction.stream for instruction in self.instructions))

    @cached_property
    def written(self) -> dict[int, tuple[int, ...]]:
        """Slot -> the instructions that make up what it holds at the end: of every stream the last."""
        producers: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for index, instruction in enumerate(self.instructions):
            for slot in instruction.writes:
                record_producer(producers[slot], instruction.stream, index, adds=slot in instruction.adds)
        return {slot: tuple(makers.values()) for slot, makers in producers.items()}

    @cached_property
    def books(self) -> dict[int, tuple[int, ...]]:
        """Slot -> the instructions of which the first to begin books it, where this code does so.

        That is the first to write it. What comes from the batch nobody writes: in a forward it is there as
        soon as the code begins, or one of its streams reads it before that.
        """
        books: dict[int, tuple[int, ...]] = {}
        for index, instruction in enumerate(self.instructions):
            for slot in instruction.writes:
                books.setdefault(slot, (index,))
        feeds = [index for index, slot in enumerate(self.slots) if slot.feed and self.phase == Phase.FORWARD]
        for slot in feeds:
            readers = [
                index for index, instruction in enumerate(self.instructions) if slot in instruction.reads
            ]
            books.setdefault(slot, tuple(dict.fromkeys((0, *readers))))
        return books

    @cached_property
    def dropped(self) -> dict[int, tuple[int, ...]]:
        """Slot -> the instructions that drop it; the last of all to end releases it."""
        by_slot: defaultdict[int, list[int]] = defaultdict(list)
        for index, instruction in enumerate(self.instructions):
            for slot in dict.fromkeys(instruction.last_uses):
                by_slot[slot].append(index)
        return {slot: tuple(droppers) for slot, droppers in by_slot.items()}


@dataclass(frozen=True, slots=True)
class BlockExecution:
    """One run of a block of instructions."""

    code: int
    """The number of the block in the Program."""
    instance: str
    """The instance that it runs for."""
    micro_batch: int
    """The micro-batch that it runs for; -1: once per step."""
    action: str
    """The action of the schedule that it is a part of, as text."""
    wait_for_transfers: bool = False
    """Whether its kernels wait until every transfer posted before is over."""
    after_streams: tuple[str, ...] = ()
    """Streams on which everything posted before must be over before it starts."""
    after: tuple[tuple[int, int], ...] = ()
    """Executions of the part that must have ended before, each as its place and how many steps ago; before
    the first step all have."""
    weights_of_micro_batch: int = -1
    """The micro-batch for which the kept weights that it uses were gathered; -1: none."""

    def label(self, scope: Scope) -> int:
        """The micro-batch that tells buffers of one name apart; -1 for what lives throughout."""
        if scope is Scope.KEPT:
            return self.weights_of_micro_batch
        return self.micro_batch if scope is Scope.MICRO_BATCH else -1
