"""Framework profiles: how a training framework runs a plan that is otherwise the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from simcluster.cluster import DispatchTime
from simcluster.document import (
    Bytes,
    CatalogSection,
    Duration,
    Figure,
    Name,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Refused,
    Section,
)
from simcluster.errors import nearest
from simcluster.plan.spec.allocator import AllocatorSpec
from simcluster.registry import data_files
from simcluster.work import Kernel

IDEAL = "ideal"
"""The profile that wastes nothing; what the others change is told against it."""

Gradients = Literal["fp32", "compute"]


class BucketSpec(Section):
    """How large a bucket of gradients is: gradients join in the order in which they become ready, each whole,
    until the bucket has reached its size.
    """

    bytes: Bytes | None = None
    """Its size in bytes."""

    elements: PositiveInt | None = None
    """Its size in elements."""

    elements_per_rank: NonNegativeInt = 0
    """At least so many elements for every data-parallel rank."""

    first_bytes: Bytes | None = None
    """The size of the first bucket in bytes, where it is smaller so that the network starts early."""

    @model_validator(mode="after")
    def _has_one_size(self) -> BucketSpec:
        if (self.bytes is None) == (self.elements is None):
            raise Refused("give either bytes or elements")
        if self.elements_per_rank and self.elements is None:
            raise Refused("elements_per_rank goes with elements", path="elements_per_rank")
        if self.first_bytes is not None and self.bytes is None:
            raise Refused("first_bytes goes with bytes", path="first_bytes")
        return self


class GradientReductionSpec(Section):
    """How parameter gradients are summed over the data-parallel ranks, once per step."""

    overlap: bool = True
    """Whether a bucket travels as soon as its last gradient is ready, or after the whole backward pass.
    A gradient counts as ready when the layer's backward has run up to its next collective."""

    bucket: Literal["layer", "whole"] = "layer"
    """What travels as one collective: the gradients of a layer, or of the whole stage."""

    limit: BucketSpec | None = None
    """Cuts the gradients of the whole stage into buckets of a given size."""

    copies: bool = False
    """Whether gradients are copied into buffers of their own, travel there, and are copied back."""

    buffers: NonNegativeFloat = 0.0
    """Memory held for buckets under way, in buckets of the limit's size."""

    @model_validator(mode="after")
    def _is_consistent(self) -> GradientReductionSpec:
        if self.limit is not None and self.bucket != "whole":
            raise Refused("a limit cuts the whole buffer: it goes with bucket: whole", path="limit")
        if self.buffers and self.limit is None:
            raise Refused("buffers are counted in buckets of a given size: give a limit", path="buffers")
        return self


class GraphsSpec(Section):
    """A piece of the network that is one graph (``parallel.shard``): the host launches it as a whole, forward
    and backward. Inside nothing is dispatched, and kernels never wait for collectives but for their data.
    """

    launch: NonNegativeFloat = 1.0
    """Host time per launch, in multiples of what it spends on one operator."""

    fuse: tuple[tuple[Name, Name], ...] | None = None
    """Pairs of operator families that may run in one kernel inside; as everywhere if absent."""

    prefetch: NonNegativeInt | None = None
    """How many kernels ahead of its first reader an all-gather may start inside; as everywhere if absent."""


class FrameworkMemorySpec(Section):
    """How memory is handed to tensors, and what kernels take besides their results."""

    allocator: Name | None = None
    """Who hands it out, and keeps what is released; absent: what is released is given back."""

    in_place: tuple[Name, ...] = ()
    """Operator families whose backward kernels write their result over an operand of its size that nobody
    reads after them (``loss``: the gradient takes the place of the logits)."""

    scratch: dict[Name, PositiveFloat] = {}
    """What kernels of an operator family hold while they run besides what they read and write, in multiples
    of their largest operand (``loss: 1.0``: a whole copy of the logits)."""

    whole: tuple[Name, ...] = ()
    """Operator families whose results are parts of one tensor that is held as long as any of them
    (``matmul``: queries, keys and values of one projection)."""

    placeholders: tuple[Name, ...] = ()
    """Operator families of layers whose weight gradients, added to their buffers, leave a tensor behind that
    stands for them: one in the compute format for every shape, held for good."""

    workspaces: NonNegativeInt = 0
    """Handles of the matmul library, each with the workspace of the device."""

    headroom: Figure[Bytes] | None = None
    """What a plan must leave free on every device to fit, and not be tight: for what is not simulated.
    Absent: nothing. The scenario's ``run.headroom`` wins."""

    @model_validator(mode="after")
    def _allocator_is_known(self) -> FrameworkMemorySpec:
        if self.allocator is not None and self.allocator not in AllocatorSpec.entries():
            hint = nearest(self.allocator, AllocatorSpec.entries())
            raise Refused(f"unknown allocator '{self.allocator}'", path="allocator", hint=hint)
        return self


class FrameworkSpec(CatalogSection):
    """A framework profile: how a training framework would run the plan."""

    noun: ClassVar[str] = "framework"

    title: Name
    """What people call it."""

    source: Name
    """Where its behaviour is described."""

    fuse: tuple[tuple[Name, Name], ...]
    """Pairs of operator families: one may run in the same kernel right after the other."""

    passes: tuple[Name, ...] = ()
    """Operator families that run as the passes they are made of (``batch_norm``: its statistics, and what
    reads them), so that each may join a neighbour's kernel; others run whole where their dims allow it."""

    accumulate: Literal["all"] | tuple[Name, ...] = "all"
    """Operator families whose kernels add a parameter's gradient to its buffer themselves (``matmul``: fused
    gradient accumulation); the others write it and a kernel of its own adds it."""

    optimizer: Literal["together", "one_by_one"] = "together"
    """Whether the updates of a layer's parameters run as one multi-tensor kernel or as one kernel each."""

    prefetch: NonNegativeInt
    """How many kernels ahead of its first reader an all-gather may start; how many units (layers) ahead of
    its use the sharded weights of one may be gathered."""

    dispatch: NonNegativeFloat
    """Host time per operator, as a multiple of the device's figure: one operator here is several calls of an
    eager framework. 0: the whole network is one graph."""

    dispatch_time: Duration | None = None
    """Host time per operator instead of the device's figure, where that is another framework's."""

    graphs: GraphsSpec = GraphsSpec()
    """How pieces of the network that run as graphs are launched."""

    collective_call: Duration | None = None
    """Host time per collective, a floor under its time; not counted if absent."""

    gradients: Gradients | dict[Literal["fp16", "bf16"], Gradients]
    """Number format of accumulated gradients in mixed precision, for all compute formats or for each."""

    main_gradients: bool = False
    """Whether the optimizer first copies gradients into the master copy's number format, where theirs is
    another; the copies are held as long as the states."""

    weights: Literal["copied", "cast", "cast_twice"] = "copied"
    """In mixed precision: 16-bit weights that the optimizer writes beside its fp32 master copy; or fp32
    weights alone, cast in every forward pass and kept until its backward (automatic mixed precision), or
    cast once more in the backward. The scenario's precision.master wins."""

    recompute: Literal["whole", "needed"] = "whole"
    """Of a recomputed layer's forward: all of it, as checkpoints run it again, or what the backward needs, as
    a compiler leaves of it."""

    fp8_transposes: bool = False
    """Whether casts to fp8 also write a transposed copy, for products that sum over another dim of an operand
    than its last, as Hopper's matrix units demand."""

    reduction: GradientReductionSpec = GradientReductionSpec()
    """Summing gradients over the data-parallel ranks."""

    gather: Literal["overlapped", "exposed"] = "overlapped"
    """Whether updated weights of a sharded optimizer are gathered while the forward pass runs, or before it.
    """

    host_updates: Literal["as_ready", "behind_backward"] = "as_ready"
    """Whether updates on the processors of hosts begin when their gradients are there, or behind the whole
    backward: where fp16 gradients are looked through for overflows before any of them counts, say."""

    layer_collectives: Literal["overlapped", "blocking"] = "overlapped"
    """Whether kernels go on beside collectives of activations and their gradients, or wait. Of a
    column-parallel layer's backward: overlapped, the sum of the input's gradient (all-reduce or
    reduce-scatter) is made beside the weight gradient, and with sequence parallelism the saved input is
    gathered beside the input's; blocking, both stand alone."""

    p2p: Literal["overlapped", "blocking"] = "overlapped"
    """Transfers between pipeline stages; the scenario's schedule.p2p wins."""

    p2p_interleaved: Literal["overlapped", "blocking"] | None = None
    """The same where stages have several chunks; as ``p2p`` if absent."""

    p2p_scatter: bool = False
    """Whether ranks of a stage that hold the same activations send a part each, gathered again by the
    receivers (scatter-gather of arXiv 2104.04473)."""

    vocabulary_multiple: PositiveInt
    """The vocabulary is padded so that every rank that shares it holds a multiple of this."""

    attention: Literal["flash", "flash_1", "flash_2", "unfused"] = "flash"
    """One kernel that keeps no scores: the best that the device has, or that of a release of FlashAttention;
    or products, softmax and dropout as kernels of their own."""

    logits: Literal["fp32", "compute"] = "compute"
    """Number format in which the loss reads logits and keeps them for its backward."""

    storage: FrameworkMemorySpec = FrameworkMemorySpec()
    """Memory that is not said by the mathematics."""

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped profiles."""
        return data_files("simcluster.plan.frameworks")

    @property
    def name(self) -> str:
        """What it is called in results: its entry of the catalog, and whether switches of it are others."""
        if self.use is None:
            return self.title
        return self.use if self == type(self).load(self.use) else f"{self.use}, changed"

    def gradients_in(self, compute: str) -> Gradients:
        """The number format of accumulated gradients for a compute format."""
        if isinstance(self.gradients, str):
            return self.gradients
        return self.gradients.get(compute, "fp32")  # type: ignore[call-overload, no-any-return]

    @property
    def host(self) -> DispatchTime:
        """What the host spends on operators."""
        return DispatchTime(self.dispatch, self.dispatch_time)

    @property
    def releases(self) -> Mapping[Kernel, int]:
        """The releases of kernels that are not the best there is: FlashAttention's."""
        release = {"flash_1": 1, "flash_2": 2}.get(self.attention)
        return {} if release is None else {Kernel.ATTENTION: release}

    def settings(self) -> dict[str, Any]:
        """Every switch by its key path: ``reduction.overlap`` -> value, in the order of the keys."""
        settings: dict[str, Any] = {}
        for key, value in self.model_dump(mode="json").items():
            if key in ("use", "borrowed", "title", "source"):
                continue
            if isinstance(getattr(self, key), Section):
                settings |= {f"{key}.{name}": _given(switch) for name, switch in value.items()}
            else:
                settings[key] = value
        return settings

    def changes(self) -> dict[str, Any]:
        """The switches that differ from the ideal profile's."""
        ideal = FrameworkSpec.load(IDEAL).settings()
        return {key: value for key, value in self.settings().items() if value != ideal[key]}


def _given(value: Any) -> Any:
    """A value without what was not given."""
    if isinstance(value, Mapping):
        return {key: entry for key, entry in value.items() if entry}
    return value
