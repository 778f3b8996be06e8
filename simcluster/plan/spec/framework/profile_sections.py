"""Sections of a framework profile: how gradients are summed, what graphs change, how memory is handed out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import model_validator

from simcluster.document import (
    Bytes,
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
from simcluster.plan.spec.framework.allocator import AllocatorSpec
from simcluster.plan.switches import (
    Phrase,
    calls_words,
    fusion_words,
    headroom_words,
    limit_words,
    prefetch_words,
    scratch_words,
    traffic_words,
    workspace_words,
)


class BucketSpec(Section):
    """Size of gradient buckets. Gradients join in the order in which they become ready, each whole, until the
    bucket reaches this size.
    """

    bytes: Bytes | None = None
    """Size in bytes."""

    elements: PositiveInt | None = None
    """Size in elements."""

    elements_per_rank: NonNegativeInt = 0
    """A lower bound on the size: this many elements times the number of data-parallel ranks."""

    first_bytes: Bytes | None = None
    """Size of the first bucket in bytes, if smaller, so that communication starts early."""

    @model_validator(mode="after")
    def _has_one_size(self) -> BucketSpec:
        if (self.bytes is None) == (self.elements is None):
            raise Refused("give either bytes or elements")
        if self.elements_per_rank and self.elements is None:
            raise Refused("elements_per_rank goes with elements", path="elements_per_rank")
        if self.first_bytes is not None and self.bytes is None:
            raise Refused("first_bytes goes with bytes", path="first_bytes")
        return self


MEGATRON_BUCKETS = {"elements": 40_000_000, "elements_per_rank": 1_000_000}
"""The limit of Megatron's ``--overlap-grad-reduce``: buckets of at least max(40 M, 1 M x data-parallel ranks)
elements, where ``--ddp-bucket-size`` says nothing (DistributedDataParallelConfig.bucket_size).
"""


class GradientReductionSpec(Section):
    """How parameter gradients are summed over the data-parallel ranks, once per step."""

    overlap: Annotated[
        bool,
        Phrase(
            {
                True: "gradients reduced during the backward",
                False: "gradients reduced after the backward",
            }.__getitem__
        ),
    ] = True
    """Whether a bucket is reduced as soon as its last gradient is ready, or after the whole backward pass. A
    gradient counts as ready when the layer's backward has run up to its next collective."""

    bucket: Annotated[
        Literal["layer", "whole"],
        Phrase({"layer": "layer by layer", "whole": "in one bucket"}.__getitem__),
    ] = "layer"
    """What is reduced by one collective: the gradients of a layer, or of the whole stage."""

    limit: Annotated[BucketSpec | None, Phrase(limit_words)] = None
    """Splits the gradients of the whole stage into buckets of a given size."""

    copies: Annotated[bool, Phrase({True: "copied into buckets", False: "reduced in place"}.__getitem__)] = (
        False
    )
    """Whether gradients are copied into separate buffers, reduced there, and copied back."""

    buffers: Annotated[NonNegativeFloat, Phrase("buffers for {:g} buckets".format)] = 0.0
    """Memory held for buckets in flight, in multiples of the limit's size."""

    sums: Annotated[
        Literal["shards", "whole"],
        Phrase(
            {
                "shards": "each rank gets its shard of the sums",
                "whole": "all ranks get all sums, whatever they update",
            }.__getitem__
        ),
    ] = "shards"
    """What ranks with sharded optimizer states receive: only their shards, by reduce-scatter, or all
    gradients, by all-reduce."""

    @model_validator(mode="after")
    def _is_consistent(self) -> GradientReductionSpec:
        if self.limit is not None and self.bucket != "whole":
            raise Refused("a limit cuts the whole buffer: it goes with bucket: whole", path="limit")
        if self.buffers and self.limit is None:
            raise Refused("buffers are counted in buckets of a given size: give a limit", path="buffers")
        return self


class FusedSoftmaxSpec(Section):
    """Which attention scores are scaled, masked and normalised by one fused kernel. Others take a cast to
    fp32, scale, mask, softmax and a cast back. The kernel needs 16-bit scores and at least 17 keys; queries,
    and samples x heads of a rank, must be multiples of 4, and up to 128 keys samples x heads a multiple of 8
    (Megatron).
    """

    most_keys: Annotated[
        PositiveInt | None,
        Phrase(
            lambda keys: f"a fused softmax up to {keys:,} keys" if keys else "a fused softmax of any shape"
        ),
    ] = None
    """Largest number of keys that the kernel supports; absent: it supports any shape."""

    traffic: Annotated[
        dict[Name, PositiveFloat], Phrase(lambda times: f"without it {traffic_words(times)}")
    ] = {}
    """For unsupported shapes: memory traffic as a multiple of the minimum, by operator or operator family."""

    calls: Annotated[dict[Name, PositiveFloat], Phrase(lambda times: f"without it {calls_words(times)}")] = {}
    """For unsupported shapes: host cost of each operator or operator family, in operator dispatches."""


class GraphsSpec(Section):
    """Parts of the network that run as one graph (``parallel.shard``). The host launches each with one call
    for the forward and one for the backward; its operators are not dispatched one by one, and its kernels
    wait for a collective only if they need its result.
    """

    launch: Annotated[
        NonNegativeFloat, Phrase("a graph launched in {:g} x the time of an operator".format)
    ] = 1.0
    """Host time per graph launch, in operator dispatches."""

    fuse: Annotated[
        tuple[tuple[Name, Name], ...] | None, Phrase(lambda pairs: f"in graphs {fusion_words(pairs)}")
    ] = None
    """Pairs of operator families that may run in one kernel inside graphs; if absent, the same as outside."""

    prefetch: Annotated[NonNegativeInt | None, Phrase(lambda count: f"in graphs {prefetch_words(count)}")] = (
        None
    )
    """How many kernels before its first consumer an all-gather may start inside graphs; if absent, the same
    as outside."""


class FrameworkMemorySpec(Section):
    """How memory is allocated, and what kernels need besides their inputs and outputs."""

    allocator: Annotated[
        Name | None, Phrase(lambda name: f"memory allocator {name}" if name else "no caching allocator")
    ] = None
    """The caching allocator; absent: none, so freed memory is returned to the device."""

    in_place: Annotated[
        tuple[Name, ...],
        Phrase(lambda names: f"gradients written in place: {', '.join(names) or 'none'}"),
    ] = ()
    """Operator families whose backward kernels overwrite an operand of the same size that no later kernel
    reads (``loss``: the gradient replaces the logits)."""

    scratch: Annotated[dict[Name, PositiveFloat], Phrase(scratch_words)] = {}
    """Temporary memory of the kernels of an operator family, beyond inputs and outputs, in multiples of their
    largest operand (``loss: 1.0``: a whole copy of the logits)."""

    whole: Annotated[
        tuple[Name, ...],
        Phrase(lambda names: f"results held as one tensor: {', '.join(names) or 'none'}"),
    ] = ()
    """Operator families whose results are views of one tensor, which is held as long as any of them is needed
    (``matmul``: queries, keys and values of one projection)."""

    placeholders: Annotated[
        tuple[Name, ...],
        Phrase(lambda names: f"placeholders of weight gradients: {', '.join(names) or 'none'}"),
    ] = ()
    """Operator families of layers whose weight gradients, once added to their buffers, are represented by
    dummy tensors: one in the compute format for every weight shape, held permanently."""

    operand_buffers: Annotated[
        tuple[Name, ...],
        Phrase(lambda names: f"buffers as large as the operand of: {', '.join(names) or 'none'}"),
    ] = ()
    """Operator families of layers for which a buffer of the size of their largest operand is held permanently
    (``softmax``: the dummy input that a batched matmul of scores takes but does not add)."""

    split_masters: Annotated[
        bool,
        Phrase(
            {
                True: "bf16 weights are the upper halves of their master copies",
                False: "whole master copies",
            }.__getitem__
        ),
    ] = False
    """Whether bf16 weights are the upper halves of the fp32 master copy, of which only the lower halves are
    stored separately (MindSpeed's reuse-fp32-param)."""

    fp8_weights: Annotated[
        bool,
        Phrase(
            {
                True: "weights of fp8 and nvfp4 matmuls held in that format alone",
                False: "weights held in the compute format beside their fp8 copies",
            }.__getitem__
        ),
    ] = False
    """Whether weights used by fp8 or nvfp4 matmuls are stored only in that format, beside their master copies
    (Megatron's fp8-param-gather); they are still gathered in the compute format."""

    workspaces: Annotated[NonNegativeInt, Phrase("{} workspaces of the matmul library".format)] = 0
    """Number of handles of the matmul library, each with its own workspace."""

    workspace: Annotated[Bytes | None, Phrase(workspace_words)] = None
    """Size of each workspace if set by the environment (``CUBLAS_WORKSPACE_CONFIG``), in place of the
    device's figure."""

    headroom: Annotated[Figure[Bytes] | None, Phrase(headroom_words)] = None
    """Memory that must stay free on every device for a plan to count as fitting rather than tight, as a
    reserve for what is not simulated. Absent: none. The scenario's ``run.headroom`` wins."""

    @model_validator(mode="after")
    def _allocator_is_known(self) -> FrameworkMemorySpec:
        if self.allocator is not None and self.allocator not in AllocatorSpec.entries():
            hint = nearest(self.allocator, AllocatorSpec.entries())
            raise Refused(f"unknown allocator '{self.allocator}'", path="allocator", hint=hint)
        return self
