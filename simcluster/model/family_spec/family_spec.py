"""What a family of models says: its keys of the ``model:`` section, and the model that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from simcluster.document import PositiveInt, Refused, Section
from simcluster.model.family_spec.dimension_checks import refuse_missing, usual_head_dim
from simcluster.model.layers import GATED
from simcluster.model.model import Model

Probability = Annotated[float, Field(ge=0, lt=1)]

_USUAL = {"head_dim", "ffn"}
"""The sizes that others give where they are not written."""


class FamilySpec(Section):
    """A family of models, registered by its ``kind``: the keys that it knows, and the model that they make.

    Of keys that several families know each has the same type and text. Its model is a dataclass whose fields
    are called as the keys.
    """

    model_config = ConfigDict(defer_build=True)

    kind: ClassVar[str]
    """The word of the key ``family``."""

    network: ClassVar[type[Model]]
    """The class of its models."""

    @classmethod
    def check(cls, known: Mapping[str, Any]) -> None:
        """Refused if sizes do not go together."""

    @classmethod
    def make(cls, given: Mapping[str, Any], written: Mapping[str, Any]) -> Model:
        """The model of what a file gives and the section says instead; Refused if impossible."""
        known = {**given, **written}
        needed = [
            field.name
            for field in fields(cls.network)  # type: ignore[arg-type]
            if field.name in cls.model_fields and field.default is MISSING and field.name not in _USUAL
        ]
        missing = [name for name in needed if name not in known]
        if given:
            refuse_missing(missing, "the config does not say it: write it beside 'hf'")
        refuse_missing(missing)
        if "heads" in needed:
            known.setdefault("head_dim", usual_head_dim(known))
            if known.get("activation") in GATED and "ffn" not in known:
                raise Refused("'ffn' is missing: a gated MLP has no usual size", path="ffn")
            known.setdefault("ffn", 4 * known["hidden"])
        cls.check(known)
        return cls.network(**known)


class LayerKeys(FamilySpec):
    """The keys of families of equal layers."""

    layers: PositiveInt | None = None
    """Number of transformer layers."""


class AttentionKeys(FamilySpec):
    """The keys of families whose layers have attention and an MLP."""

    hidden: PositiveInt | None = None
    """Hidden size."""

    heads: PositiveInt | None = None
    """Number of query heads."""

    head_dim: PositiveInt | None = None
    """Size of a head; hidden / heads if absent."""

    ffn: PositiveInt | None = None
    """Inner size of the MLP; 4 x hidden if absent (required with swiglu)."""

    dropout: Probability | None = None
    """Dropout rate after attention and MLP; 0 if absent."""

    attention_dropout: Probability | None = None
    """Dropout rate of attention weights; 0 if absent."""


class VocabularyKeys(FamilySpec):
    """The keys of families that look up ids in tables."""

    vocab: PositiveInt | None = None
    """Vocabulary size: rows of the embedding table."""


class PositionKeys(FamilySpec):
    """The keys of families that may have a table of positions."""

    max_positions: PositiveInt | None = None
    """Rows of the learned position table, which limit the sequence length."""


class TextKeys(FamilySpec):
    """The keys of families with a choice of MLPs, and a head that may share the embedding's weights."""

    activation: Literal["gelu", "relu", "squared_relu", "swiglu", "geglu", "clamped_swiglu"] | None = None
    """An MLP with GELU, ReLU or squared ReLU, or a gated one with SwiGLU, GeGLU or gpt-oss's clamped SwiGLU.
    """

    tied: bool | None = None
    """Whether the head shares the embedding's weights."""


class PictureKeys(FamilySpec):
    """The keys of families that classify pictures."""

    image: PositiveInt | None = None
    """Vision: width and height of the images in pixels."""

    channels: PositiveInt | None = None
    """Vision: channels per pixel; 3 if absent."""

    classes: PositiveInt | None = None
    """Vision: number of classes that the head predicts."""
