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
from simcluster.plan.spec.allocator import AllocatorSpec
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

    overlap: Annotated[
        bool,
        Phrase(
            {
                True: "gradients reduced during the backward",
                False: "gradients reduced after the backward",
            }.__getitem__
        ),
    ] = True
    """Whether a bucket travels as soon as its last gradient is ready, or after the whole backward pass.
    A gradient counts as ready when the layer's backward has run up to its next collective."""

    bucket: Annotated[
        Literal["layer", "whole"],
        Phrase({"layer": "layer by layer", "whole": "in one bucket"}.__getitem__),
    ] = "layer"
    """What travels as one collective: the gradients of a layer, or of the whole stage."""

    limit: Annotated[BucketSpec | None, Phrase(limit_words)] = None
    """Cuts the gradients of the whole stage into buckets of a given size."""

    copies: Annotated[bool, Phrase({True: "copied into buckets", False: "reduced in place"}.__getitem__)] = (
        False
    )
    """Whether gradients are copied into buffers of their own, travel there, and are copied back."""

    buffers: Annotated[NonNegativeFloat, Phrase("buffers for {:g} buckets".format)] = 0.0
    """Memory held for buckets under way, in buckets of the limit's size."""

    sums: Annotated[
        Literal["shards", "whole"],
        Phrase(
            {
                "shards": "each rank gets its shard of the sums",
                "whole": "all ranks get all sums, whatever they update",
            }.__getitem__
        ),
    ] = "shards"
    """What ranks that share the states of the optimizer get: their shards, by reduce-scatter, or all sums, by
    all-reduce."""

    @model_validator(mode="after")
    def _is_consistent(self) -> GradientReductionSpec:
        if self.limit is not None and self.bucket != "whole":
            raise Refused("a limit cuts the whole buffer: it goes with bucket: whole", path="limit")
        if self.buffers and self.limit is None:
            raise Refused("buffers are counted in buckets of a given size: give a limit", path="buffers")
        return self


class FusedSoftmaxSpec(Section):
    """Which attention scores a kernel scales, masks and normalises in one pass, and what runs in its place: a
    cast to fp32, scale, mask, softmax and a cast back. It takes 17 and more keys in 16 bits, with queries and
    (samples x heads) of a rank in fours, samples x heads in eights up to 128 keys (Megatron).
    """

    most_keys: Annotated[
        PositiveInt | None,
        Phrase(
            lambda keys: f"a fused softmax up to {keys:,} keys" if keys else "a fused softmax of any shape"
        ),
    ] = None
    """The most keys that it takes; absent: any shape."""

    traffic: Annotated[
        dict[Name, PositiveFloat], Phrase(lambda times: f"without it {traffic_words(times)}")
    ] = {}
    """For shapes that it does not take: how often the least bytes are moved, by operator or family."""

    calls: Annotated[dict[Name, PositiveFloat], Phrase(lambda times: f"without it {calls_words(times)}")] = {}
    """For those: as how many operators one costs the host."""


class GraphsSpec(Section):
    """A piece of the network that is one graph (``parallel.shard``): the host launches it as a whole, forward
    and backward. Inside nothing is dispatched, and kernels never wait for collectives but for their data.
    """

    launch: Annotated[
        NonNegativeFloat, Phrase("a graph launched in {:g} x the time of an operator".format)
    ] = 1.0
    """Host time per launch, in multiples of what it spends on one operator."""

    fuse: Annotated[
        tuple[tuple[Name, Name], ...] | None, Phrase(lambda pairs: f"in graphs {fusion_words(pairs)}")
    ] = None
    """Pairs of operator families that may run in one kernel inside; as everywhere if absent."""

    prefetch: Annotated[NonNegativeInt | None, Phrase(lambda count: f"in graphs {prefetch_words(count)}")] = (
        None
    )
    """How many kernels ahead of its first reader an all-gather may start inside; as everywhere if absent."""


class FrameworkMemorySpec(Section):
    """How memory is handed to tensors, and what kernels take besides their results."""

    allocator: Annotated[
        Name | None, Phrase(lambda name: f"memory allocator {name}" if name else "no caching allocator")
    ] = None
    """Who hands it out, and keeps what is released; absent: what is released is given back."""

    in_place: Annotated[
        tuple[Name, ...],
        Phrase(lambda names: f"gradients written in place: {', '.join(names) or 'none'}"),
    ] = ()
    """Operator families whose backward kernels write their result over an operand of its size that nobody
    reads after them (``loss``: the gradient takes the place of the logits)."""

    scratch: Annotated[dict[Name, PositiveFloat], Phrase(scratch_words)] = {}
    """What kernels of an operator family hold while they run, beyond what they read and write, in multiples
    of their largest operand (``loss: 1.0``: a whole copy of the logits)."""

    whole: Annotated[
        tuple[Name, ...],
        Phrase(lambda names: f"results held as one tensor: {', '.join(names) or 'none'}"),
    ] = ()
    """Operator families whose results are parts of one tensor that is held as long as any of them
    (``matmul``: queries, keys and values of one projection)."""

    placeholders: Annotated[
        tuple[Name, ...],
        Phrase(lambda names: f"placeholders of weight gradients: {', '.join(names) or 'none'}"),
    ] = ()
    """Operator families of layers whose weight gradients, added to their buffers, leave a tensor behind that
    stands for them: one in the compute format for every shape, held for good."""

    operand_buffers: Annotated[
        tuple[Name, ...],
        Phrase(lambda names: f"buffers as large as the operand of: {', '.join(names) or 'none'}"),
    ] = ()
    """Operator families of layers for which a buffer is held for good, as large as their largest operand
    (``softmax``: the operand that a batched product of scores takes and adds nothing of)."""

    split_masters: Annotated[
        bool,
        Phrase(
            {
                True: "bf16 weights are the upper halves of their master copies",
                False: "whole master copies",
            }.__getitem__
        ),
    ] = False
    """Whether bf16 weights are the upper halves of their fp32 master copies, of which only the lower halves
    are held besides (MindSpeed's reuse-fp32-param)."""

    fp8_weights: Annotated[
        bool,
        Phrase(
            {
                True: "weights of fp8 and nvfp4 matmuls held in that format alone",
                False: "weights held in the compute format beside their fp8 copies",
            }.__getitem__
        ),
    ] = False
    """Whether weights that matmuls read in fp8 or nvfp4 are held in that format alone, beside their master
    copies (Megatron's fp8-param-gather); they are still gathered in the compute format."""

    workspaces: Annotated[NonNegativeInt, Phrase("{} workspaces of the matmul library".format)] = 0
    """Handles of the matmul library, each with a workspace."""

    workspace: Annotated[Bytes | None, Phrase(workspace_words)] = None
    """The size of each where the environment sets it (``CUBLAS_WORKSPACE_CONFIG``), whatever the device's."""

    headroom: Annotated[Figure[Bytes] | None, Phrase(headroom_words)] = None
    """What a plan must leave free on every device to fit, and not be tight: for what is not simulated.
    Absent: nothing. The scenario's ``run.headroom`` wins."""

    @model_validator(mode="after")
    def _allocator_is_known(self) -> FrameworkMemorySpec:
        if self.allocator is not None and self.allocator not in AllocatorSpec.entries():
            hint = nearest(self.allocator, AllocatorSpec.entries())
            raise Refused(f"unknown allocator '{self.allocator}'", path="allocator", hint=hint)
        return self
