"""The scenario's ``model:`` section: a catalog name, dimensions, or a Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from simcluster.document import CatalogSection, Figure, Name, PositiveFloat, PositiveInt, Refused
from simcluster.errors import ScenarioError
from simcluster.model import huggingface
from simcluster.model.transformer import Transformer
from simcluster.registry import data_files

_FAMILIES: dict[str, dict[str, Any]] = {
    "gpt": {"norm": "layer", "activation": "gelu", "positions": "learned", "bias": True, "tied": True},
    "llama": {"norm": "rms", "activation": "swiglu", "positions": "rotary", "bias": False, "tied": False},
}
_SIZES = ("layers", "hidden", "heads", "vocab")


class ModelSpec(CatalogSection):
    """A decoder-only transformer: ``{use: llama3-70b}``, ``{hf: config.json}``, or its dimensions.

    What is written beside ``use`` or ``hf`` replaces those dimensions.
    """

    noun: ClassVar[str] = "model"

    title: Name | None = None
    """What people call it."""

    source: Name | None = None
    """Where the dimensions of a catalog entry are published."""

    parameters: Figure[PositiveInt] | None = None
    """The published number of parameters; what the dimensions give is asserted to be equal."""

    hf: Path | None = None
    """A Hugging Face config.json (model types llama and gpt2), relative to the scenario's folder."""

    family: Literal["gpt", "llama"] = "llama"
    """What the choices below are if not given: GPT (layer norm, GELU, learned positions, biases, tied
    embeddings) or Llama (RMS norm, SwiGLU, rotary positions, no biases, untied)."""

    layers: PositiveInt | None = None
    """Transformer layers."""

    hidden: PositiveInt | None = None
    """Hidden size."""

    heads: PositiveInt | None = None
    """Query heads."""

    kv_heads: PositiveInt | None = None
    """Key-value heads; as many as query heads if absent."""

    head_dim: PositiveInt | None = None
    """Size of a head; hidden / heads if absent."""

    ffn: PositiveInt | None = None
    """Inner size of the MLP; 4 x hidden if absent (required with swiglu)."""

    vocab: PositiveInt | None = None
    """Rows of the embedding table."""

    max_positions: PositiveInt | None = None
    """Rows of a learned position table; the longest sequence."""

    norm: Literal["rms", "layer"] | None = None
    """RMS norm or layer norm."""

    activation: Literal["gelu", "swiglu"] | None = None
    """Plain MLP with GELU, or gated with SwiGLU."""

    positions: Literal["rotary", "learned"] | None = None
    """Rotary embedding or a learned table."""

    rope_theta: PositiveFloat = 10000.0
    """Base of the rotary angles."""

    bias: bool | None = None
    """Biases in all projections."""

    tied: bool | None = None
    """The head shares the embedding's weights."""

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped models."""
        return data_files("simcluster.model.catalog")

    @model_validator(mode="after")
    def _is_complete(self) -> ModelSpec:
        if self.hf is not None:
            if self.use is not None:
                raise Refused("give 'use' or 'hf', not both", path="hf")
            return self
        missing = [name for name in _SIZES if getattr(self, name) is None]
        if missing:
            listed = ", ".join(f"'{name}'" for name in missing)
            verb = "is" if len(missing) == 1 else "are"
            raise Refused(f"{listed} {verb} missing", hint="or name a model: {use: llama3-70b}")
        self.transformer({})
        return self

    def build(self, folder: Path) -> Transformer:
        """The model; ``hf`` is looked up in ``folder``. ScenarioError if the file cannot be used."""
        if self.hf is None:
            return self.transformer({})
        try:
            return self.transformer(huggingface.dimensions(folder / self.hf))
        except Refused as error:
            raise ScenarioError(
                *(
                    replace(problem, message=f"{self.hf}: {problem.message}", path="model.hf")
                    for problem in error.problems
                )
            ) from error

    def transformer(self, given: Mapping[str, Any]) -> Transformer:
        """The model from dimensions ``given`` and what this section says besides; Refused if impossible."""
        written = self.model_fields_set
        sizes = {name: getattr(self, name) for name in type(self).model_fields if name in written}
        family = sizes.get("family") or given.get("family") or self.family
        known = {**_FAMILIES[family], **given, **{k: v for k, v in sizes.items() if v is not None}}
        hidden, heads = known["hidden"], known["heads"]
        kv_heads = known.get("kv_heads", heads)
        if heads % kv_heads:
            raise Refused(f"{heads} heads are no multiple of {kv_heads} key-value heads", path="kv_heads")
        head_dim = known.get("head_dim")
        if head_dim is None:
            if hidden % heads:
                raise Refused(
                    f"hidden {hidden} / heads {heads} = {hidden / heads:g}: give head_dim", path="heads"
                )
            head_dim = hidden // heads
        ffn = known.get("ffn")
        if ffn is None:
            if known["activation"] == "swiglu":
                raise Refused("'ffn' is missing: a gated MLP has no usual size", path="ffn")
            ffn = 4 * hidden
        if known["positions"] == "learned" and "max_positions" not in known:
            raise Refused("'max_positions' is missing: the rows of the learned position table")
        return Transformer(
            layers=known["layers"],
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            ffn=ffn,
            vocab=known["vocab"],
            norm=known["norm"],
            activation=known["activation"],
            positions=known["positions"],
            max_positions=known.get("max_positions", 0),
            rope_theta=known.get("rope_theta", self.rope_theta),
            bias=known["bias"],
            tied=known["tied"],
        )
