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
    Section,
)
from simcluster.plan.spec.framework.operator_names import refuse_unknown_operators
from simcluster.plan.spec.framework.profile_sections import (
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
    SavedActivations,
    SparseAttentionForm,
    UpdateKernels,
    WeightCopies,
    WeightGathers,
    accumulation_words,
    alibi_words,
    calls_words,
    fusion_words,
    gradient_words,
    host_waits_words,
    implementation_words,
    latent_heads_words,
    passes_words,
    prefetch_words,
    traffic_words,
)
from simcluster.registry import data_files, kinds

IDEAL = "ideal"
"""The profile that wastes nothing; what the others change is told against it."""

BEHIND_GATHERS = "behind_gathers"
"""Transposed copies in fp8 of gathered operands are made where they arrive."""

Gradients = Literal["fp32", "compute"]

_ABOUT = ("use", "borrowed", "title", "source")
"""Keys that say what a profile is, not what the framework does."""


class FrameworkProfile(CatalogSection):
    """A framework profile: how a training framework would execute the plan."""

    noun: ClassVar[str] = "framework"

    title: Name
    """Display name."""

    source: Name
    """Where the framework's behaviour is documented."""

    fuse: Annotated[tuple[tuple[Name, Name], ...], Phrase(fusion_words)]
    """Pairs of operator families: an operator of the second that directly follows one of the first may run in
    the same kernel."""

    skip_bias_add: Annotated[
        bool,
        Phrase(
            {
                False: "a matmul adds its bias if they are fused",
                True: "biases left out of a matmul if the next kernel can add them",
            }.__getitem__
        ),
    ] = False
    """Whether a matmul leaves its bias to the kernel behind it, if that may be fused with the bias
    (Megatron's ``skip_bias_add``): bias with GELU, or with dropout and residual, is a kernel of its own."""

    passes: Annotated[tuple[Name, ...], Phrase(passes_words)] = ()
    """Operator families that are split into their passes over the data (``batch_norm``: computing the
    statistics, and applying them), so that each pass may be fused with a neighbouring kernel; other operators
    stay whole where their dims allow it."""

    accumulate: Annotated[Literal["all"] | tuple[Name, ...], Phrase(accumulation_words)] = "all"
    """Operator families whose kernels accumulate weight gradients directly into the gradient buffer
    (``matmul``: gradient accumulation fusion); other kernels write the gradient, and a separate kernel adds
    it."""

    gradient_casts: Annotated[
        bool,
        Phrase(
            {
                False: "gradients added without a cast",
                True: "gradients cast to their buffer's format by a separate kernel, then added",
            }.__getitem__
        ),
    ] = False
    """Where a separate kernel adds gradients to a buffer in another number format: whether an additional
    kernel casts them first."""

    optimizer: UpdateKernels = UpdateKernels.TOGETHER
    """Whether the parameters of a layer are updated by one multi-tensor kernel or by one kernel each."""

    prefetch: Annotated[NonNegativeInt, Phrase(prefetch_words)]
    """How many kernels before its first consumer an all-gather may start; for sharded weights, how many units
    (layers) before their use they may be gathered."""

    dispatch: Annotated[NonNegativeFloat, Phrase("host time per operator x {:g}".format)]
    """Host time to dispatch an operator, as a multiple of the device's figure: one operator here may be
    several calls of an eager framework. 0: the whole network is one graph."""

    dispatch_time: Annotated[Duration | None, Phrase("{} of host time per operator".format)] = None
    """Absolute host time to dispatch an operator, in place of the device's figure where that was measured
    with another framework."""

    calls: Annotated[dict[Name, NonNegativeFloat], Phrase(calls_words)] = {}
    """Operators (``route``) or operator families (``router``) that cost the host several dispatches, and how
    many: one operator here may be dozens of calls in the framework. 1 if not listed."""

    group_calls: Annotated[
        NonNegativeFloat, Phrase("extra host time per group of a grouped matmul: {:g} operators".format)
    ] = 0.0
    """Extra host time per group of a grouped matmul, in operator dispatches: for libraries that launch one
    matmul per expert, one after the other."""

    host_waits: Annotated[tuple[Name, ...], Phrase(host_waits_words)] = ()
    """Operators or operator families after which the host synchronises with the device in every forward,
    because it needs a size, such as the number of tokens per expert. ``expert_exchange``: the host waits for
    the all-to-all of tokens, because it reads the received counts only afterwards."""

    graphs: GraphsSpec = GraphsSpec.model_construct()
    """How parts of the network that run as graphs are launched."""

    collective_call: Annotated[Duration | None, Phrase("{} of host time per collective".format)] = None
    """Host time per collective call, a lower bound on the collective's time; not counted if absent."""

    collective_timeout: Annotated[Duration | None, Phrase("collectives time out after {}".format)] = None
    """Time after which a collective that never completes is given up, on other devices than Ascend, whose
    HCCL has its own; if absent, 10 min, PyTorch's default for NCCL. ``job.recovery.collective_timeout``
    wins."""

    step_overhead: Annotated[Duration | None, Phrase("devices wait {} for the host once per step".format)] = (
        None
    )
    """Fixed host time per step during which devices idle: reading the loss, logging, the gradient scale, the
    next batch; none if absent."""

    implementations: Annotated[tuple[Name, ...], Phrase(implementation_words)] = ()
    """Libraries whose kernels compute memory-bound operators (``simcluster/cluster/implementations``); their
    memory traffic was measured. For each operator, the first library that has it is used."""

    traffic: Annotated[dict[Name, PositiveFloat], Phrase(traffic_words)] = {}
    """Memory traffic of kernels as a multiple of the theoretical minimum, by operator (``rms_norm_grad``) or
    operator family (``loss``): separate passes of eager code, casts, repeated reads. For operators not listed
    it is that of their implementation, or else 1."""

    gradients: Annotated[Gradients | dict[Literal["fp16", "bf16"], Gradients], Phrase(gradient_words)]
    """Number format in which gradients are accumulated in mixed precision, for all compute formats or for
    each."""

    main_gradients: Annotated[
        bool,
        Phrase(
            {
                True: "gradients copied to the master weights' format for the update",
                False: "updates read gradients as they are",
            }.__getitem__
        ),
    ] = False
    """Whether the optimizer first copies gradients into the number format of the master weights, if theirs
    differs; the copies are held until the update (Megatron's zero_grad drops them)."""

    weights: WeightCopies = WeightCopies.COPIED
    """Weights in mixed precision. ``copied``: the optimizer writes 16-bit weights beside its fp32 master
    copy. ``cast``: there are fp32 weights only, cast in every forward pass, and the casts are kept until the
    backward (automatic mixed precision). ``cast_twice``: they are cast again in the backward instead. The
    scenario's precision.master wins."""

    recompute: RecomputedForward = RecomputedForward.WHOLE
    """How much of a recomputed layer's forward runs again: all of it, as with activation checkpointing, or
    only what the backward needs, as a compiler would decide."""

    quantised_gathers: Annotated[
        bool,
        Phrase(
            {
                False: "operands of matmuls gathered before they are cast",
                True: "operands of matmuls in fp8 and nvfp4 gathered in that format",
            }.__getitem__
        ),
    ] = False
    """Whether operands of fp8 or nvfp4 matmuls are cast before they are gathered, so that the all-gather
    transfers the narrow format (sequence parallelism with Transformer Engine). Tokens exchanged between
    experts are not affected."""

    fp8_transposes: Annotated[
        bool | Literal["behind_gathers"],
        Phrase(
            {
                False: "casts to fp8 write one copy",
                True: "casts to fp8 also write a transposed copy",
                BEHIND_GATHERS: "casts to fp8 also write a transposed copy, which for gathered operands is "
                "made behind the gather",
            }.__getitem__
        ),
    ] = False
    """Whether casts to fp8 also write a transposed copy, for matmuls that contract another dim of an operand
    than its last, as Hopper's matrix units require. ``behind_gathers``: of operands that are gathered one
    copy travels, and a kernel transposes it where it arrives (one scale per tensor; copies with scales per
    block along the summed dim cannot be made of each other)."""

    reduction: GradientReductionSpec = GradientReductionSpec.model_construct()
    """How gradients are summed over the data-parallel ranks."""

    gather: WeightGathers = WeightGathers.OVERLAPPED
    """Whether the all-gather of updated weights (sharded optimizer) overlaps with the forward pass or
    completes before it."""

    host_updates: HostUpdates = HostUpdates.AS_READY
    """Whether optimizer updates on host CPUs start as soon as their gradients are available, or after the
    whole backward, for example because fp16 gradients must first be checked for overflows."""

    expert_exchange: ExpertExchange = ExpertExchange.EVERY_CHOICE
    """How tokens are sent to experts. ``every_choice``: one copy for each chosen expert, as in an all-to-all
    of sorted rows. ``sorted``: the same, and an additional pass sorts received tokens by expert
    (Megatron-Core's dispatcher). ``once_per_rank``: one copy for each rank that has a chosen expert, and
    results are summed there before they return (DeepEP, HybridEP); over the network one copy for each host,
    or each pod of hosts. Counted with the expected number of distinct receivers if all choices are equally
    likely."""

    layer_collectives: LayerCollectives = LayerCollectives.OVERLAPPED
    """Whether collectives of activations and their gradients overlap with independent kernels, or kernels
    wait for them. In the backward of a column-parallel layer, ``overlapped``: the weight gradient is computed
    during the reduction (all-reduce or reduce-scatter) of the input gradient, and with sequence parallelism
    the saved input is gathered while the input gradient is computed; ``blocking``: neither overlaps."""

    p2p: Annotated[Literal["overlapped", "blocking"], Phrase("p2p {}".format)] = "overlapped"
    """Transfers between pipeline stages: overlapped with computation, or blocking. The scenario's
    schedule.p2p wins."""

    p2p_interleaved: Annotated[
        Literal["overlapped", "blocking"] | None, Phrase("p2p {} between chunks".format)
    ] = None
    """The same for interleaved schedules (several chunks per stage); as ``p2p`` if absent."""

    p2p_scatter: Annotated[bool, Phrase({True: "scatter-gather p2p", False: "whole p2p"}.__getitem__)] = False
    """Whether ranks of a stage that hold the same activations each send only a part, which the receivers
    all-gather (scatter-gather optimization, arXiv 2104.04473)."""

    collective_copies: Annotated[
        bool, Phrase({True: "activations copied around gathers", False: "gathers without copies"}.__getitem__)
    ] = False
    """Whether gathering or scattering along another dim than the first of [batch, sequence, hidden] needs a
    copy to reorder the parts, as in PyTorch's functional collectives for DTensor (torch.chunk and torch.cat
    in torch/distributed/_functional_collectives.py, from memory). Collectives that are split into chunks with
    their matmul need no copy, but reduce-scattered partial sums are added up in an additional pass."""

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
    """The vocabulary is padded so that each rank that shares it holds a multiple of this number of rows."""

    attention: AttentionKernels = AttentionKernels.FLASH
    """``flash``: one fused kernel that stores no scores, the best that the device has; ``flash_1``,
    ``flash_2``: that of a release of FlashAttention; ``flash_triton``: Triton's copy of the first one;
    ``unfused``: separate kernels for matmuls, softmax and dropout."""

    latent_head_multiple: Annotated[NonNegativeInt, Phrase(latent_heads_words)] = 0
    """Latent attention in one kernel: queries, keys and values are filled with zeros to heads of a multiple
    of this size, because the kernel wants equal ones; 0: it takes heads of two sizes."""

    alibi_table: Annotated[bool, Phrase(alibi_words)] = False
    """Attention in one kernel: whether it reads ALiBi's distances, times the slope of each head, from a table
    in memory. false: it computes them."""

    sparse_attention: SparseAttentionForm = SparseAttentionForm.GATHERED
    """Sparse attention (model.latent.sparse). ``gathered``: a kernel reads the latent vectors of the selected
    tokens in place of keys and values (absorbed latent attention, as in DeepSeek-V3.2); ``masked``: ordinary
    latent attention computes all scores, and a mask hides those of other tokens."""

    fused_softmax: FusedSoftmaxSpec = FusedSoftmaxSpec.model_construct()
    """In unfused attention: which scores are scaled, masked and normalised by one kernel, and what runs
    otherwise."""

    saved_activations: SavedActivations = SavedActivations.AS_MADE
    """What is saved for the backward of an activation that the forward redistributed. ``as_made``: the
    producer's result, which is redistributed again in the backward, except by an all-to-all (Megatron's
    sequence parallelism). ``as_read``: what the forward's operators read, a gathered copy too, as where
    collectives are differentiated like other operators (MindSpore)."""

    logits: LogitsFormat = LogitsFormat.COMPUTE
    """Number format in which the loss reads logits and saves them for its backward."""

    storage: FrameworkMemorySpec = FrameworkMemorySpec.model_construct()
    """Memory beyond that of the tensors of the model: allocator, workspaces, buffers."""

    @model_validator(mode="after")
    def _operators_are_known(self) -> FrameworkSpec:
        refuse_unknown_operators(dict(self), self.entry(self.use) if self.use else {})
        return self

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped profiles."""
        return data_files("simcluster.plan.frameworks")

    @classmethod
    def root(cls, name: str) -> str:
        """The profile that one stems from: megatron-core of nemo, fsdp of torchtitan; most are their own."""
        while "use" in (entry := cls.document(name).data):
            name = str(entry["use"])
        return name

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
