"""The scenario's ``optimizer_sharding``: what of a parameter lies sharded over the ranks that replicate it.

ZeRO's stages, FSDP and MindSpore's levels are shorthands; every one of them expands into the same explicit
form, which is what the planner works with and what results show:

    ===================  ======  =========  =======  ========  ===========  =========  =====
    shorthand            states  gradients  weights  regather  gather_once  keep_cast  split
    ===================  ======  =========  =======  ========  ===========  =========  =====
    zero: 0
    zero: 1              yes                                                           flat
    zero: 2              yes     yes                                                   flat
    zero: 3              yes     yes        yes      yes                    yes        flat
    fsdp                 yes     yes        yes      yes                               flat
    fsdp, no reshard     yes     yes        yes                                        flat
    mindspore: level1    yes                yes                yes                     rows
    mindspore: level2    yes     yes        yes                yes                     rows
    mindspore: level3    yes     yes        yes      yes                               rows
    ===================  ======  =========  =======  ========  ===========  =========  =====

Sources: ZeRO (arXiv 1910.02054), PyTorch FSDP (Zhao et al., VLDB 2023; ``fully_shard``), MindSpore's
``parallel_optimizer_config``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, StrictBool, model_validator

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Bytes, Name, PositiveInt, Refused, Section, matches
from simcluster.errors import PlanError, nearest
from simcluster.layout import Layout, Mesh, SubAxis, spans, whole_axes
from simcluster.model import TensorType
from simcluster.plan.rules import BATCH, SEQUENCE, AxisRoles

Split = Literal["flat", "rows", "parameters"]

MINDSPORE_THRESHOLD = 64 * 2**10
"""MindSpore leaves slices of less than 64 KiB whole (``parallel_optimizer_threshold``)."""

_USUAL = (BATCH, SEQUENCE)
"""The roles of axes whose ranks hold the same parameters, whatever parts of the batch they work on."""

_EXPLICIT = ("states", "gradients", "weights", "regather", "gather_once", "keep_cast", "split")


@dataclass(frozen=True, slots=True)
class ShardingChoice:
    """Which of parameters, gradients and states is sharded over the ranks that replicate it, and how."""

    states: bool = False
    """Optimizer states and master copies are sharded."""
    gradients: bool = False
    """Gradients are sharded: reduced in every micro-batch."""
    weights: bool = False
    """Weights are sharded: gathered for each unit's forward."""
    regather: bool = False
    """Gathered weights are freed after the forward and gathered again for the backward; else
    kept until then."""
    keep_cast: bool = False
    """Weights are stored in the compute format beside their master copy; else the master copy is the
    parameter, and its cast is gathered."""
    split: Split = "flat"
    """How each parameter is cut: ``flat`` (padded), or by ``rows`` of its first dim where they divide; or
    ``parameters``: it is not, and one of the ranks that replicate it has its states and updates it."""
    axes: tuple[str, ...] = ()
    """The axes over which they are sharded."""
    min_bytes: int = 0
    """Parameters with fewer bytes on a rank stay whole."""
    gather_once: bool = False
    """Weights are gathered once for all micro-batches of the step."""
    shard_size: int = -1
    """Ranks that hold all shards between them (neighbours); -1: all ranks that replicate the parameter."""
    whole: tuple[str, ...] = ()
    """Patterns of parameters that stay whole."""

    def home(self, layout: Layout, kind: TensorType, mesh: Mesh) -> Layout:
        """The layout of the shards of a parameter that is used in ``layout``; the same if it stays whole."""
        free = tuple(axis for axis in self.axes if axis not in layout.axes and mesh.size(axis) > 1)
        free = self.group(free, mesh)
        local = TensorType(layout.local_shape(kind.shape, mesh), kind.dtype)
        if not self.states or self.by_parameter or not free or local.num_bytes < self.min_bytes:
            return layout
        if self.split == "flat":
            return replace(layout, flat=free)
        if not local.shape or local.shape[0] % mesh.product(free):
            return layout
        return replace(layout, dims=(layout.dims[0] + free, *layout.dims[1:]))

    @property
    def by_parameter(self) -> bool:
        """Whether each rank has the states of whole parameters."""
        return self.states and self.split == "parameters"

    def group(self, free: tuple[str, ...], mesh: Mesh) -> tuple[str, ...]:
        """The axes of a sharding group: the innermost of ``free`` with ``shard_size`` ranks; all if it does
        not divide.
        """
        left, inner = self.shard_size, []
        for axis in sorted(free, key=mesh.names.index, reverse=True):
            if left > 1:
                inner.append(axis)
                left = left // mesh.size(axis) if left % mesh.size(axis) == 0 else 0
        if self.shard_size == 1:
            return ()
        return tuple(axis for axis in free if axis in inner) if left == 1 else free

    def spares(self, names: Collection[str]) -> bool:
        """Whether a parameter with these names stays whole."""
        return any(matches(pattern, name) for pattern in self.whole for name in names)

    def __str__(self) -> str:
        """What lies sharded over which axes: ``states, gradients and weights over data``."""
        what = [name for name in ("states", "gradients", "weights") if getattr(self, name)]
        if not what:
            return "nothing"
        listed = " and ".join([", ".join(what[:-1]), what[-1]] if what[1:] else what)
        if self.by_parameter:
            return f"states of whole parameters over {' and '.join(whole_axes(self.axes))}"
        groups = f" in groups of {self.shard_size}" if self.shard_size > 0 else ""
        return f"{listed} over {' and '.join(whole_axes(self.axes))}{groups}"

    def document(self) -> dict[str, Any]:
        """The form as JSON-able data, with the keys of the scenario."""
        return {
            "states": self.states,
            "gradients": self.gradients,
            "weights": self.weights,
            "regather": self.regather,
            "gather_once": self.gather_once,
            "keep_cast": self.keep_cast,
            "split": self.split,
            "axes": list(whole_axes(self.axes)),
            "min_bytes": self.min_bytes,
            "shard_size": self.shard_size,
            "whole": list(self.whole),
        }


class FsdpSpec(Section):
    """Fully sharded data parallelism as in PyTorch's ``fully_shard``."""

    reshard_after_forward: bool = True
    """Whether gathered weights are freed after the forward and gathered again for the backward."""


class OptimizerShardingSpec(Section):
    """What is sharded over the data-parallel ranks: one of the shorthands, or the explicit form."""

    zero: Literal[0, 1, 2, 3] | None = None
    """ZeRO stage: 1 shards optimizer states, 2 also gradients, 3 also weights."""

    fsdp: FsdpSpec | None = None
    """PyTorch FSDP: everything is sharded; the fp32 shard is the parameter, and its cast is gathered."""

    mindspore: Literal["level1", "level2", "level3"] | None = None
    """MindSpore's parallel optimizer: level1 shards states and weights, level2 also gradients, level3 also
    gathers weights again for the backward. Over all ranks of a stage that hold the same parameter, unless
    axes says otherwise."""

    gradient_accumulation_shard: StrictBool | None = None
    """Of MindSpore's levels: whether gradients are accumulated in shards; from level2 on they always are."""

    states: bool | None = None
    """Optimizer states and the master copy are sharded."""

    gradients: bool | None = None
    """Gradients are reduced in every micro-batch and accumulated in shards."""

    weights: bool | None = None
    """Weights are sharded and gathered for use, one block (layer, embedding, head) at a time."""

    regather: bool | None = None
    """Gathered weights are freed after the forward and gathered again for the backward; true by default."""

    gather_once: bool | None = None
    """Gathered weights are kept for all micro-batches of a step, as in MindSpore's graph if it does not
    gather again; otherwise until no micro-batch is between its forward and its backward."""

    keep_cast: bool | None = None
    """Weight shards are stored in the compute format beside their master copy, as in DeepSpeed; otherwise the
    sharded master copy is the parameter."""

    split: Split | None = None
    """flat: the parameter is split as a flat, padded run of elements. rows: along its first dim, if
    divisible. parameters: it stays whole, and one of the ranks that replicate it updates it for all and alone
    has its states; gradients are all-reduced and new weights broadcast (Megatron's layer-wise optimizer,
    ``--optimizer dist_muon``)."""

    axes: Name | Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Mesh axes or roles to shard over; by default the batch and sequence axes. A subset gives hybrid
    sharding: reduce-scatter over these axes, all-reduce over the others."""

    min_bytes: Bytes | None = None
    """Parameters with fewer bytes on a rank are not sharded; 64 KiB for MindSpore, else 0."""

    shard_size: Literal[-1] | PositiveInt = Field(
        default=-1, validation_alias=AliasChoices("shard_size", "optimizer_weight_shard_size")
    )
    """How many neighbouring ranks, among those that replicate a parameter, hold all of its shards together;
    between such groups gradients are all-reduced (see ``axes``). -1, or a number that does not divide these
    ranks: all of them."""

    whole: tuple[Name, ...] = ()
    """Patterns of names of parameters that are not sharded (MindSpore: ``Parameter.parallel_optimizer =
    False``): ``["embedding.*", "layers.*.norm.weight"]``."""

    @model_validator(mode="after")
    def _is_one_form(self) -> OptimizerShardingSpec:
        written = [name for name in ("zero", "fsdp", "mindspore") if getattr(self, name) is not None]
        explicit = [name for name in _EXPLICIT if getattr(self, name) is not None]
        if len(written) > 1 or (written and explicit):
            other = [*written, *explicit][1]
            raise Refused(
                f"{written[0]} and {other} are two forms of saying one thing",
                path=other,
                hint="use one of zero, fsdp and mindspore, or " + ", ".join(_EXPLICIT),
            )
        if not written:
            self._check_explicit()
        self._check_accumulation()
        meant = self.expanded(())
        if not meant.states:
            for name in ("axes", "min_bytes", "split", "shard_size", "whole"):
                if getattr(self, name) not in (None, -1, ()):
                    raise Refused(f"nothing is sharded, so {name} says nothing", path=name)
        return self

    def _check_accumulation(self) -> None:
        name = "gradient_accumulation_shard"
        if self.gradient_accumulation_shard is not None and self.mindspore is None:
            raise Refused(
                "this is about MindSpore's levels", path=name, hint="write gradients: true or false"
            )
        if self.gradient_accumulation_shard is False and self.mindspore != "level1":
            raise Refused(f"{self.mindspore} accumulates gradients in shards", path=name, hint="use level1")

    def _check_explicit(self) -> None:
        for name in ("gradients", "weights"):
            if getattr(self, name) and not self.states:
                raise Refused(
                    f"sharded {name} need sharded states: each rank updates its own shard",
                    path=name,
                    hint="write states: true",
                )
        if self.split == "parameters":
            self._check_by_parameter()
        for name in ("regather", "gather_once", "keep_cast"):
            if getattr(self, name) and not self.weights:
                raise Refused(f"{name} is about sharded weights", path=name, hint="write weights: true")
        if self.gather_once and self.regather is not False:
            raise Refused(
                "weights that are gathered again for every backward are not gathered once",
                path="gather_once",
                hint="write regather: false",
            )

    def _check_by_parameter(self) -> None:
        for name in ("gradients", "weights"):
            if getattr(self, name):
                raise Refused(
                    f"the owner of a whole parameter needs all of its gradient: {name} are not sharded",
                    path=name,
                    hint="leave it out, or write split: flat",
                )
        for name, usual in (("min_bytes", None), ("shard_size", -1), ("whole", ())):
            if getattr(self, name) != usual:
                raise Refused("whole parameters are not cut", path=name, hint="leave it out")

    def expanded(self, batch: tuple[str, ...]) -> ShardingChoice:
        """The explicit form; ``batch`` are the axes if none are written."""
        form = self._form()
        axes = (self.axes,) if isinstance(self.axes, str) else self.axes
        threshold = form.min_bytes if self.min_bytes is None else int(self.min_bytes)
        if not form.states:
            return ShardingChoice()
        return replace(
            form,
            axes=batch if axes is None else axes,
            min_bytes=threshold,
            shard_size=self.shard_size,
            whole=self.whole,
        )

    def _form(self) -> ShardingChoice:
        if self.zero is not None:
            whole = self.zero == 3
            return ShardingChoice(self.zero >= 1, self.zero >= 2, whole, regather=whole, keep_cast=whole)
        if self.fsdp is not None:
            return ShardingChoice(True, True, True, regather=self.fsdp.reshard_after_forward)
        if self.mindspore is not None:
            level = int(self.mindspore[-1])
            threshold = MINDSPORE_THRESHOLD
            again = level >= 3
            gradients = level >= 2 or bool(self.gradient_accumulation_shard)
            return ShardingChoice(
                True, gradients, True, again, split="rows", min_bytes=threshold, gather_once=not again
            )
        return ShardingChoice(
            bool(self.states),
            bool(self.gradients),
            bool(self.weights),
            regather=bool(self.weights) and self.regather is not False,
            keep_cast=bool(self.keep_cast),
            split=self.split or "flat",
            gather_once=bool(self.gather_once),
        )


def _not_a_stage(written: Any) -> Any:
    """Refuses ``zero3`` and ``3``: they lack the key."""
    stage = str(written).lower().removeprefix("zero").strip("-_ ")
    if isinstance(written, (str, int)) and stage in ("0", "1", "2", "3"):
        raise Refused(f"{written!r} is not accepted", hint=f"write {{zero: {stage}}}")
    return written


Written = Annotated[Literal["fsdp"] | OptimizerShardingSpec, BeforeValidator(_not_a_stage)]
"""What may stand under ``optimizer_sharding``: ``fsdp`` alone, or a mapping."""


def explicit_sharding(written: Written | None, batch: tuple[str, ...]) -> ShardingChoice:
    """The explicit form of what is written; nothing is sharded if nothing is."""
    if written is None:
        return ShardingChoice()
    spec = OptimizerShardingSpec(fsdp=FsdpSpec()) if written == "fsdp" else written
    return spec.expanded(batch)


def mesh_sharding(written: Written | None, roles: AxisRoles, mesh: Mesh, stage_axis: str) -> ShardingChoice:
    """The explicit form over axes of the mesh with more than one rank; PlanError if it is impossible."""
    choice = explicit_sharding(written, _USUAL)
    path, known = "parallel.optimizer_sharding.axes", roles.known(mesh)
    for axis in choice.axes:
        if axis not in known:
            raise PlanError(f"the mesh has no axis '{axis}'", path=path, hint=nearest(axis, known))
    axes = roles.resolve(choice.axes, mesh)
    if isinstance(written, OptimizerShardingSpec) and written.mindspore and written.axes is None:
        # MindSpore takes every rank that holds the same, for what they are otherwise.
        axes = tuple(axis for axis in mesh.names if axis != stage_axis)
    if stage_axis in axes:
        raise PlanError(
            f"stages hold different parameters: nothing is sharded over '{stage_axis}'", path=path
        )
    if choice.axes not in ((), _USUAL) and not axes:
        raise PlanError(f"the mesh has no axis of role '{choice.axes[0]}'", path=path)
    axes = tuple(axis for axis in dict.fromkeys(axes) if mesh.size(axis) > 1)
    if choice.shard_size > (ranks := mesh.num_on_axes // mesh.size(stage_axis)):
        raise PlanError(
            f"groups of {choice.shard_size} ranks, but a stage has {ranks}",
            path="parallel.optimizer_sharding.shard_size",
        )
    return replace(choice, axes=axes) if axes else ShardingChoice()


def sharding_sub_axes(
    sharding: ShardingChoice, mesh: Mesh, stage_axis: str
) -> list[tuple[str, str, SubAxis]]:
    """(name, key path, sub-axis) by which axes are split so that groups of ``shard_size`` ranks are axes.

    Which ranks replicate a parameter, and so which axes groups are made of, is known later: every combination
    of axes counts.
    """
    places = dict(spans(mesh, stage_axis))
    inner_first = [axis for axis in places if axis in sharding.axes][::-1]
    digits: dict[SubAxis, None] = {}
    for count in range(1, len(inner_first) + 1):
        for axes in combinations(inner_first, count):
            left = sharding.shard_size
            for axis in axes:
                size = places[axis].size
                if left > 1 and size > left and size % left == 0:
                    digits[SubAxis(places[axis].stride, left)] = None
                left = left // size if left % size == 0 else 0
    path = "parallel.optimizer_sharding.shard_size"
    return [(f"groups of {sharding.shard_size} ranks", path, digit) for digit in digits]
