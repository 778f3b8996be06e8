"""The scenario's ``recompute``: what is computed again in the backward instead of kept.

Megatron's full recomputation, uniform over single layers, is ``layers: all``, block over n layers
``layers: n``, its selective one ``operators`` and ``keep_outputs``, both ``["layers.*.attention.core*"]``;
MindFormers' ``recompute: [3, 2, 1, 0]`` the same list of ``layers``. ``mp_comm_recompute`` is
``collectives`` here, ``parallel_optimizer_comm_recompute`` ``gathers``, ``recompute_slice_activation``
(Megatron's ``--distribute-saved-activations``) ``slice``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, Field, StrictBool, model_validator

from simcluster.document import Name, NonNegativeInt, PositiveInt, Refused, Section, matches
from simcluster.model import LAYERS

PATH = "parallel.recompute"

PerStage = Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]
"""Numbers of layers, one for each stage."""

Layers = (
    Literal["none", "all", "auto"]
    | PositiveInt
    | PerStage
    | Annotated[tuple[PerStage, ...], Field(min_length=1)]
    | Annotated[tuple[Name, ...], Field(min_length=1)]
)
"""Which layers: a word, how many of each stage, how many of every stage, of every chunk of layers on every
stage, or which by name."""

_CORES = '["layers.*.attention.core*"]'
_OF_OTHER_TOOLS = {
    "full": "write 'all'",
    "selective": f"name operators; Megatron's selective is {{operators: {_CORES}, keep_outputs: {_CORES}}}",
}
"""What to write in place of words of Megatron's and torchtitan's options."""


def layers_by_block_method(
    layers: int, num_layers: int, stages: int, chunks: int
) -> Literal["all"] | int | list[list[int]]:
    """``layers`` for Megatron's method block: of every chunk of layers on every stage the first so many."""
    if layers >= num_layers // (stages * chunks):
        return "all"
    return layers if chunks == 1 else [[layers] * stages] * chunks


def _or_boolean(written: dict[str, Any]) -> None:
    """Says in a JSON schema that true and false are accepted, too."""
    written["anyOf"].append({"type": "boolean"})


class RecomputeSpec(Section):
    """Activation recomputation: what the backward computes again instead of keeping it. ``all``, ``auto`` or
    numbers alone are ``layers``.
    """

    shorthand: ClassVar[str] = "layers"

    layers: Layers = Field(default="none", json_schema_extra=_or_boolean)
    """all: every layer saves only its input and runs its forward again. A number: the first so many layers of
    each stage. A list: the number for each stage, ``[[...], [...]]`` for each chunk of layers on each stage,
    or the names of layers, as patterns: ``["layers.{0,5}"]``. auto: the fastest choice that fits into memory,
    with as few recomputed layers as possible; the choice is reported."""

    operators: tuple[Name, ...] = ()
    """Selective recomputation: names of operators, such as ``layers.*.attention.core``, whose outputs are
    discarded and recomputed from their inputs, which are saved. Layers that are recomputed whole are not
    affected."""

    keep_outputs: tuple[Name, ...] = ()
    """Patterns of those ``operators`` that are recomputed as one region, as PyTorch's ``checkpoint()`` and
    Megatron's core attention (``["layers.*.attention.core*"]``) are: the outputs that operators outside the
    region read stay in memory, and the backward runs the whole region again."""

    collectives: StrictBool = Field(
        default=True, validation_alias=AliasChoices("collectives", "mp_comm_recompute")
    )
    """Whether recomputation runs its collectives again; false: their results are saved, and only the rest of
    what is needed is recomputed."""

    gathers: StrictBool = Field(
        default=False, validation_alias=AliasChoices("gathers", "parallel_optimizer_comm_recompute")
    )
    """Whether sharded weights of recomputed layers are gathered again for the recomputation, where
    optimizer_sharding would otherwise keep them."""

    slice: StrictBool = Field(
        default=False, validation_alias=AliasChoices("slice", "recompute_slice_activation")
    )
    """Whether ranks that save the same input of a recomputed layer save only a slice each, and gather it
    again for the backward; not over batch and pipeline axes."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        if isinstance(written, (str, int, list, tuple)):
            written = {"layers": written}
        word = written.get("layers") if isinstance(written, dict) else None
        if isinstance(word, str) and word in _OF_OTHER_TOOLS:
            raise Refused(f"'{word}' is not accepted", path="layers", hint=_OF_OTHER_TOOLS[word])
        if isinstance(written, dict) and isinstance(written.get("layers"), bool):
            return {**written, "layers": "all" if written["layers"] else "none"}
        return written

    @model_validator(mode="after")
    def _is_consistent(self) -> RecomputeSpec:
        layered = any(matches(LAYERS, name) for name in self.operators)
        if self.layers == "all" and layered:
            raise Refused("every layer is recomputed whole already", path="operators")
        if self.layers == "auto" and self.operators:
            raise Refused(
                "auto chooses operators, too", path="operators", hint="leave them out, or name the layers"
            )
        if self.keep_outputs and not self.operators:
            raise Refused(
                "no operators are recomputed", path="keep_outputs", hint="name them under operators, too"
            )
        if self.layers == "none":
            given = [name for name in ("gathers", "slice") if getattr(self, name)]
            if given:
                raise Refused(f"{given[0]} is about layers, of which none is recomputed", path=given[0])
            if not self.collectives and not self.operators:
                raise Refused("nothing is recomputed, so no collective is", path="collectives")
        return self

    @property
    def nothing(self) -> bool:
        """Whether everything is kept."""
        return self.layers == "none" and not self.operators
