"""Framework profiles: how a training framework runs a plan that is otherwise the same for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import create_model, model_validator
from pydantic.fields import FieldInfo

from simcluster.cluster import DispatchTime
from simcluster.document import (
    CatalogSection,
    Duration,
    Name,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Refused,
    Section,
)
from simcluster.errors import nearest
from simcluster.plan.spec.framework_sections import (
    FrameworkMemorySpec,
    FusedSoftmaxSpec,
    GradientReductionSpec,
    GraphsSpec,
)
from simcluster.plan.switches import (
    AttentionKernels,
    ExpertExchange,
    FrameworkSwitch,
    HostUpdates,
    LayerCollectives,
    LogitsFormat,
    Phrase,
    RecomputedForward,
    UpdateKernels,
    WeightCopies,
    WeightGathers,
    accumulation_words,
    calls_words,
    fusion_words,
    gradient_words,
    host_waits_words,
    implementation_words,
    passes_words,
    prefetch_words,
    traffic_words,
)
from simcluster.registry import data_files, kinds

IDEAL = "ideal"
"""The profile that wastes nothing; what the others change is told against it."""

Gradients = Literal["fp32", "compute"]

_ABOUT = ("use", "borrowed", "title", "source")
"""Keys that say what a profile is, not what the framework does."""


class FrameworkProfile(CatalogSection):
    """A framework profile: how a training framework would run the plan."""

    noun: ClassVar[str] = "framework"

    title: Name
    """What people call it."""

    source: Name
    """Where its behaviour is described."""

    fuse: Annotated[tuple[tuple[Name, Name], ...], Phrase(fusion_words)]
    """Pairs of operator families: one may run in the same kernel right after the other."""

    passes: Annotated[tuple[Name, ...], Phrase(passes_words)] = ()
    """Operator families that run as the passes they are made of (``batch_norm``: its statistics, and what
    reads them), so that each may join a neighbour's kernel; others run whole where their dims allow it."""

    accumulate: Annotated[Literal["all"] | tuple[Name, ...], Phrase(accumulation_words)] = "all"
    """Operator families whose kernels add a parameter's gradient to its buffer themselves (``matmul``: fused
    gradient accumulation); the others write it, and a separate kernel adds it."""

    gradient_casts: Annotated[
        bool,
        Phrase(
            {
                False: "gradients added without a cast",
                True: "gradients cast to their buffer's format by a separate kernel, then added",
            }.__getitem__
        ),
    ] = False
    """Where a separate kernel adds gradients to a buffer in another number format: whether one more kernel
    casts them first."""

    optimizer: UpdateKernels = UpdateKernels.TOGETHER
    """Whether the updates of a layer's parameters run as one multi-tensor kernel or as one kernel each."""

    prefetch: Annotated[NonNegativeInt, Phrase(prefetch_words)]
    """How many kernels ahead of its first reader an all-gather may start; how many units (layers) ahead of
    its use the sharded weights of one may be gathered."""

    dispatch: Annotated[NonNegativeFloat, Phrase("host time per operator x {:g}".format)]
    """Host time per operator, as a multiple of the device's figure: one operator here is several calls of an
    eager framework. 0: the whole network is one graph."""

    dispatch_time: Annotated[Duration | None, Phrase("{} of host time per operator".format)] = None
    """Host time per operator instead of the device's figure, where that is another framework's."""

    calls: Annotated[dict[Name, NonNegativeFloat], Phrase(calls_words)] = {}
    """Operators (``route``) or families (``router``) that take the host as long as this many operators: one
    operator here may be dozens of calls in the framework. 1 if not named."""

    group_calls: Annotated[
        NonNegativeFloat, Phrase("extra host time per group of a grouped matmul: {:g} operators".format)
    ] = 0.0
    """Extra host time for every group of a grouped matmul, in operators: for libraries that launch one matmul
    for each expert, one after the other."""

    host_waits: Annotated[tuple[Name, ...], Phrase(host_waits_words)] = ()
    """Operators or families whose results the host waits for in every forward before it launches more work:
    sizes that it must know, such as how many tokens each expert gets. ``expert_exchange``: the host waits for
    the tokens that ranks exchange, where it reads only after them how many arrived."""

    graphs: GraphsSpec = GraphsSpec()
    """How pieces of the network that run as graphs are launched."""

    collective_call: Annotated[Duration | None, Phrase("{} of host time per collective".format)] = None
    """Host time per collective, a floor under its time; not counted if absent."""

    step_overhead: Annotated[Duration | None, Phrase("devices wait {} for the host once per step".format)] = (
        None
    )
    """Host time of every step while devices wait, whatever the step does: reading the loss, logging, the
    gradient scale, the next batch; none if absent."""

    implementations: Annotated[tuple[Name, ...], Phrase(implementation_words)] = ()
    """Libraries whose kernels compute memory-bound operators (``simcluster/cluster/implementations``): how
    often these pass over memory was measured. For each operator, the first library that has it is used."""

    traffic: Annotated[dict[Name, PositiveFloat], Phrase(traffic_words)] = {}
    """How many times the least bytes that the mathematics needs a kernel moves, by operator
    (``rms_norm_grad``) or family (``loss``): separate passes of eager code, casts, repeated reads. Operators
    that are not named have their implementation's figure, or else 1."""

    gradients: Annotated[Gradients | dict[Literal["fp16", "bf16"], Gradients], Phrase(gradient_words)]
    """Number format of accumulated gradients in mixed precision, for all compute formats or for each."""

    main_gradients: Annotated[
        bool,
        Phrase(
            {
                True: "gradients copied to the master weights' format for the update",
                False: "updates read gradients as they are",
            }.__getitem__
        ),
    ] = False
    """Whether the optimizer first copies gradients into the master copy's number format, where theirs is
    another; the copies are held until the update (Megatron's zero_grad drops them)."""

    weights: WeightCopies = WeightCopies.COPIED
    """In mixed precision: 16-bit weights that the optimizer writes beside its fp32 master copy; or fp32
    weights alone, cast in every forward pass and kept until its backward (automatic mixed precision), or
    cast once more in the backward. The scenario's precision.master wins."""

    recompute: RecomputedForward = RecomputedForward.WHOLE
    """How much of a recomputed layer's forward runs again: all of it, as with activation checkpoints, or only
    what the backward needs, as a compiler would keep."""

    quantised_gathers: Annotated[
        bool,
        Phrase(
            {
                False: "operands of matmuls gathered before they are cast",
                True: "operands of matmuls in fp8 and nvfp4 gathered in that format",
            }.__getitem__
        ),
    ] = False
    """Whether operands that ranks gather for a matmul in fp8 or nvfp4 are cast before, so that the narrow
    copy travels (sequence parallelism under Transformer Engine). What experts exchange travels as it is."""

    fp8_transposes: Annotated[
        bool,
        Phrase(
            {
                False: "casts to fp8 write one copy",
                True: "casts to fp8 also write a transposed copy",
            }.__getitem__
        ),
    ] = False
    """Whether casts to fp8 also write a transposed copy, for products that sum over another dim of an operand
    than its last, as Hopper's matrix units demand."""

    reduction: GradientReductionSpec = GradientReductionSpec()
    """Summing gradients over the data-parallel ranks."""

    gather: WeightGathers = WeightGathers.OVERLAPPED
    """Whether updated weights of a sharded optimizer are gathered while the forward pass runs, or before it.
    """

    host_updates: HostUpdates = HostUpdates.AS_READY
    """Whether updates on the processors of hosts begin when their gradients are there, or behind the whole
    backward: where fp16 gradients are looked through for overflows before any of them counts, say."""

    expert_exchange: ExpertExchange = ExpertExchange.EVERY_CHOICE
    """Whether a token goes to a rank once for every expert that it chose there, as in an all-to-all of sorted
    rows, or once, and what comes back is summed there before it is sent (DeepEP, HybridEP). Counted with the
    mean number of ranks that equally likely choices reach; hosts are not told from ranks. ``sorted`` is the
    first with a further pass over what came, into the order of experts (Megatron-Core's dispatcher)."""

    layer_collectives: LayerCollectives = LayerCollectives.OVERLAPPED
    """Whether kernels go on beside collectives of activations and their gradients, or wait. Of a
    column-parallel layer's backward: overlapped, the sum of the input's gradient (all-reduce or
    reduce-scatter) is made beside the weight gradient, and with sequence parallelism the saved input is
    gathered beside the input's; blocking, both stand alone."""

    p2p: Annotated[Literal["overlapped", "blocking"], Phrase("p2p {}".format)] = "overlapped"
    """Transfers between pipeline stages; the scenario's schedule.p2p wins."""

    p2p_interleaved: Annotated[
        Literal["overlapped", "blocking"] | None, Phrase("p2p {} between chunks".format)
    ] = None
    """The same where stages have several chunks; as ``p2p`` if absent."""

    p2p_scatter: Annotated[bool, Phrase({True: "scatter-gather p2p", False: "whole p2p"}.__getitem__)] = False
    """Whether ranks of a stage that hold the same activations send a part each, gathered again by the
    receivers (scatter-gather of arXiv 2104.04473)."""

    collective_copies: Annotated[
        bool, Phrase({True: "activations copied around gathers", False: "gathers without copies"}.__getitem__)
    ] = False
    """Whether what ranks gather or scatter along another dim than the first of [batch, sequence, hidden] is
    copied into order, as PyTorch's functional collectives do for DTensor: its parts come one behind the
    other (torch.chunk and torch.cat in torch/distributed/_functional_collectives.py, from memory). Of
    collectives in chunks with a matmul nothing is copied, but scattered sums are added up in a pass."""

    vocabulary_multiple: Annotated[
        PositiveInt,
        Phrase(
            lambda multiple: (
                f"vocabulary padded to a multiple of {multiple} per rank"
                if multiple > 1
                else "vocabulary padded only so far that ranks share it evenly"
            )
        ),
    ]
    """The vocabulary is padded so that every rank that shares it holds a multiple of this."""

    attention: AttentionKernels = AttentionKernels.FLASH
    """One kernel that keeps no scores: the best that the device has, or that of a release of FlashAttention;
    or products, softmax and dropout as kernels of their own."""

    fused_softmax: FusedSoftmaxSpec = FusedSoftmaxSpec()
    """Which scores of unfused attention one kernel scales, masks and normalises, and what runs otherwise."""

    logits: LogitsFormat = LogitsFormat.COMPUTE
    """Number format in which the loss reads logits and keeps them for its backward."""

    storage: FrameworkMemorySpec = FrameworkMemorySpec()
    """Memory that does not follow from the mathematics."""

    @model_validator(mode="after")
    def _operators_are_known(self) -> FrameworkSpec:
        """Of names that the entry it starts from has not, since loading all operators takes a second."""
        entry = self.entry(self.use) if self.use else {}
        unusual = {
            path: sorted(set(_names(_at(dict(self), path))) - set(_names(_at(entry, path))))
            for path in _OPERATORS
        }
        if any(unusual.values()):
            _check_operators(unusual)
        return self

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

    @classmethod
    def switches(cls) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
        """Every switch by its keys, from the outer section to the inner one, and its field."""
        for key, field in cls.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, Section):
                yield from (((key, name), inner) for name, inner in kind.model_fields.items())
            elif key not in _ABOUT:
                yield (key,), field

    @property
    def choices(self) -> tuple[FrameworkSwitch, ...]:
        """The values of the switches that say themselves what they change."""
        return tuple(value for _, value in self if isinstance(value, FrameworkSwitch))

    def settings(self) -> dict[str, Any]:
        """Every switch by its key path: ``reduction.overlap`` -> value, in the order of the keys."""
        data = self.model_dump(mode="json")
        return {
            ".".join(keys): _given(data[keys[0]][keys[1]]) if keys[1:] else data[keys[0]]
            for keys, _ in self.switches()
        }

    def changes(self) -> dict[str, Any]:
        """The switches that differ from the ideal profile's."""
        ideal = FrameworkSpec.load(IDEAL).settings()
        return {key: value for key, value in self.settings().items() if value != ideal[key]}

    @classmethod
    def describe(cls, key: str, value: Any) -> str:
        """What a switch means with a value, as :meth:`settings` gives them."""
        field = next(field for keys, field in cls.switches() if ".".join(keys) == key)
        if isinstance(field.default, FrameworkSwitch):
            return next(choice.words for choice in type(field.default) if choice.value == value)
        return next(words.phrase(value) for words in field.metadata if isinstance(words, Phrase))


if TYPE_CHECKING:
    FrameworkSpec: TypeAlias = FrameworkProfile
else:
    FrameworkSpec = create_model(
        "FrameworkSpec",
        __base__=FrameworkProfile,
        __module__=__name__,
        __doc__=FrameworkProfile.__doc__,
        **{
            key: (switch, next(iter(switch)))
            for key, switch in kinds("simcluster.plan.switches", FrameworkSwitch).items()
            if key not in FrameworkProfile.model_fields
        },
    )


def _given(value: Any) -> Any:
    """A value without what was not given."""
    if isinstance(value, Mapping):
        return {key: given for key, given in value.items() if given}
    return value


_OPERATORS = (
    *((key,) for key in ("fuse", "passes", "accumulate", "calls", "host_waits", "traffic")),
    *(("storage", key) for key in ("in_place", "scratch", "whole", "placeholders", "operand_buffers")),
)
"""The switches that name operators or families of them, by their keys."""


def _at(section: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """What a section has under these keys, from the outer to the inner; nothing if it has not."""
    value: Any = section
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
    return () if value is None else value


def _names(value: Any) -> list[str]:
    """The names in a switch: in lists, in pairs, or as keys."""
    if isinstance(value, str):
        return [value] if value != "all" else []
    return [name for part in value for name in _names(part)]


def _check_operators(names: Mapping[tuple[str, ...], list[str]]) -> None:
    """Refused if one of the names, by keys, is neither an operator's nor a family's."""
    from simcluster.model import operator_kinds

    plain = {name for kind in operator_kinds().values() for name in (kind.kind, kind.family)}
    # Functions may multiply a router's weights in their kernel, and are called so, too.
    known = plain | {f"weighed_{name}" for name in plain}
    for path, written in names.items():
        for name in written:
            if name not in known:
                raise Refused(
                    f"no operator and no family of operators is called '{name}'",
                    path=".".join(path),
                    hint=nearest(name, sorted(plain)),
                )
