"""The scenario's ``model:`` section: a catalog name, dimensions, or a Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, model_validator

from simcluster.document import (
    CatalogSection,
    Figure,
    Fraction,
    Name,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Refused,
)
from simcluster.errors import Problem, ScenarioError
from simcluster.model import huggingface, onnx
from simcluster.model.families import (
    Encoder,
    EncoderDecoder,
    ResidualNetwork,
    Transformer,
    VisionTransformer,
    WideDeep,
)
from simcluster.model.layers import GATED, Dimensions
from simcluster.model.model import Model
from simcluster.model.spec.dimension_checks import (
    refuse_clashes,
    refuse_impossible,
    refuse_missing,
    usual_head_dim,
)
from simcluster.model.spec.graph_spec import WrittenGraphSpec
from simcluster.model.spec.layer_specs import ExpertsSpec, LatentSpec, experts_of, latent_of
from simcluster.registry import data_files

_FAMILIES: dict[str, dict[str, Any]] = {
    "gpt": {"norm": "layer", "activation": "gelu", "positions": "learned", "bias": True, "tied": True},
    "llama": {"norm": "rms", "activation": "swiglu", "positions": "rotary", "bias": False, "tied": False},
}
Probability = Annotated[float, Field(ge=0, lt=1)]

_SIZES = ("layers", "hidden", "heads", "vocab")

_Structured: TypeAlias = Encoder | EncoderDecoder | VisionTransformer | ResidualNetwork | WideDeep

_CLASSES: dict[str, type[_Structured]] = {
    "bert": Encoder,
    "t5": EncoderDecoder,
    "vit": VisionTransformer,
    "resnet": ResidualNetwork,
    "wide_deep": WideDeep,
}
"""Families that are no decoder-only transformers; the fields of the class are the keys that they know."""

_CHOICES = tuple(
    each.name
    for each in fields(Dimensions)
    if each.name not in ("kv_heads", "head_dim", "ffn", "flash", "logits")
)

_ABOUT = {"use", "title", "source", "parameters", "hf", "onnx", "graph", "family"}
_USUAL = {"head_dim", "ffn"}


class ModelSpec(CatalogSection):
    """A model: ``{use: llama3-70b}``, ``{hf: config.json}``, or its dimensions.

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
    """A Hugging Face config.json, relative to the scenario's folder: model types llama, mistral, qwen2,
    qwen3, mixtral, qwen3_moe, deepseek_v2, deepseek_v3, kimi_k2, gpt2, opt, bloom, mpt, bert, t5, vit and
    resnet."""

    onnx: Path | None = None
    """An ONNX file, relative to the scenario's folder: its nodes as operators, for any number of samples. Its
    output is trained with cross entropy over the last dim."""

    graph: WrittenGraphSpec | None = None
    """A model written operator by operator."""

    family: Literal["gpt", "llama", "bert", "t5", "vit", "resnet", "wide_deep"] = "llama"
    """What the choices below are if not given: GPT (layer norm, GELU, learned positions, biases, tied
    embeddings) or Llama (RMS norm, SwiGLU, rotary positions, no biases, untied); or a structure of its own,
    which knows its own keys only: BERT, T5, vision transformer, residual network,
    Wide & Deep."""

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

    position_offset: NonNegativeInt | None = None
    """Rows of the position table before that of the first token (OPT: 2)."""

    norm: Literal["rms", "layer"] | None = None
    """RMS norm or layer norm, before attention and MLP."""

    norm_bias: bool | None = None
    """Layer norms have biases; true if absent."""

    embedding_norm: bool | None = None
    """A norm behind the embedding (BLOOM)."""

    qk_norm: bool | None = None
    """A norm of every query and key head (Qwen3)."""

    activation: Literal["gelu", "relu", "squared_relu", "swiglu", "geglu"] | None = None
    """Plain MLP with GELU, ReLU or squared ReLU, or gated with SwiGLU or GeGLU."""

    positions: Literal["rotary", "learned", "alibi", "none"] | None = None
    """Rotary embedding, a learned table, ALiBi slopes in attention, or none at all."""

    rope_theta: PositiveFloat = 10000.0
    """Base of the rotary angles."""

    rotary_fraction: Fraction | None = None
    """Share of every head's dims that is rotated; 1 if absent."""

    bias: bool | None = None
    """Biases in all projections."""

    qkv_bias: bool | None = None
    """Biases in the projections to queries, keys and values, whatever ``bias`` says of the others."""

    tied: bool | None = None
    """The head shares the embedding's weights."""

    window: PositiveInt | None = None
    """Sliding window: the tokens that a token sees, itself included; all before it if absent."""

    query_layer: bool | None = None
    """The last layer takes its queries from a table of positions (PanGu-alpha)."""

    dropout: Probability | None = None
    """Rate of dropout behind attention and MLP; 0 if absent."""

    embedding_dropout: Probability | None = None
    """Rate of dropout behind the embedding; as ``dropout`` if absent."""

    attention_dropout: Probability | None = None
    """Rate of dropout of attention weights; 0 if absent."""

    experts: ExpertsSpec | None = None
    """A mixture of experts in place of the MLP."""

    latent: LatentSpec | None = None
    """Latent attention in place of the usual one: heads of sizes of its own, kv_heads and head_dim without
    meaning."""

    token_types: PositiveInt | None = None
    """BERT: kinds of tokens, such as first and second sentence; 2 if absent."""

    masked: Fraction | None = None
    """BERT: the share of a sequence's positions that is predicted, rounded down; 0.15 if absent."""

    encoder_layers: PositiveInt | None = None
    """T5: layers of the encoder; pipeline stages share them and those of the decoder, in this order."""

    decoder_layers: PositiveInt | None = None
    """T5: layers of the decoder."""

    buckets: PositiveInt | None = None
    """T5: buckets of relative positions; 32 if absent."""

    max_distance: PositiveInt | None = None
    """T5: distances from here on share the last bucket; 128 if absent."""

    decoder_seq_len: PositiveInt | None = None
    """T5: tokens per target sequence; as many as training.seq_len, which is that of the inputs, if absent."""

    image: PositiveInt | None = None
    """Vision: edge of the images in pixels."""

    patch: PositiveInt | None = None
    """Vision: edge of a patch in pixels; a sequence has (image / patch)^2 + 1 tokens."""

    channels: PositiveInt | None = None
    """Vision: numbers per pixel; 3 if absent."""

    classes: PositiveInt | None = None
    """Vision: what the head tells apart."""

    blocks: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] | None = None
    """ResNet: blocks of every stage; pipeline stages share them all."""

    block: Literal["basic", "bottleneck"] | None = None
    """ResNet: two convolutions of 3 x 3, or one between two of 1 x 1; bottleneck if absent."""

    version: Literal["v1", "v1.5"] | None = None
    """ResNet: a bottleneck halves the picture in its first convolution, or its second; v1.5 if absent."""

    statistics: Literal["local", "synchronised"] | None = None
    """ResNet: batch norm over the samples of a data-parallel rank, or of all ranks; local if absent."""

    width: PositiveInt | None = None
    """ResNet: channels inside the blocks of the first stage; 64 if absent."""

    fields: PositiveInt | None = None
    """Wide & Deep: ids of a sample, each with a value."""

    embedding: PositiveInt | None = None
    """Wide & Deep: columns of the deep table."""

    mlp: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] | None = None
    """Wide & Deep: widths of the hidden layers."""

    tables: Literal["fp32"] | None = None
    """Number format of a Wide & Deep's tables, of what is looked up and of its product with the values; that
    of the activations if absent."""

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped models."""
        return data_files("simcluster.model.catalog")

    @model_validator(mode="after")
    def _is_complete(self) -> ModelSpec:
        if self.onnx is not None or self.graph is not None:
            written = "an ONNX file" if self.onnx is not None else "a graph"
            others = sorted(self.model_fields_set - {"onnx" if self.onnx is not None else "graph", "title"})
            if others:
                listed = ", ".join(f"'{name}'" for name in others)
                raise Refused(f"{written} says all that {listed} could: leave it out", path=others[0])
            return self
        if self.hf is not None:
            if self.use is not None:
                raise Refused("give 'use' or 'hf', not both", path="hf")
            if self.family in _CLASSES:
                raise Refused("a config.json says itself what it is: leave 'family' out", path="family")
            return self
        self._only_known(self.family)
        if self.family in _CLASSES:
            self.structured({})
            return self
        refuse_missing([name for name in _SIZES if getattr(self, name) is None])
        self.transformer({})
        return self

    @classmethod
    def family_knows(cls, family: str, key: str) -> bool:
        """Whether models of a family have a use for a key of this section."""
        return key in _ABOUT or any(each.name == key for each in fields(_CLASSES.get(family, Transformer)))

    def _only_known(self, family: str) -> None:
        """Refuses keys that the family has no use for."""
        problems = [
            Problem(f"a model of the family '{family}' has no '{name}'", name)
            for name in type(self).model_fields
            if name in self.model_fields_set and not self.family_knows(family, name)
        ]
        if problems:
            raise Refused(*problems)

    @property
    def called(self) -> str:
        """What people call it: its title, the catalog's name, or that of its file."""
        file = self.onnx and self.onnx.stem
        shown = "graph of the scenario" if self.graph is not None else "model by dimensions"
        return self.title or self.use or file or shown

    def build(self, folder: Path) -> Model:
        """The model; files are looked up in ``folder``. ScenarioError if one cannot be used."""
        if self.graph is not None:
            return self.graph.build()
        if self.onnx is not None:
            return _of_file("onnx", folder, self.onnx, onnx.load_onnx)
        if self.hf is not None:
            return _of_file("hf", folder, self.hf, lambda path: self._of(huggingface.dimensions(path)))
        return self._of({})

    def remarks(self, folder: Path) -> tuple[str, ...]:
        """What a user should know of what a config.json says and the model leaves out."""
        return () if self.hf is None else huggingface.remarks(folder / self.hf)

    def _of(self, given: Mapping[str, Any]) -> Model:
        """The model from dimensions ``given`` and what this section says besides."""
        family = given.get("family", self.family)
        self._only_known(family)
        return self.structured(given) if family in _CLASSES else self.transformer(given)

    def structured(self, given: Mapping[str, Any]) -> Model:
        """The model of a family with a structure of its own; Refused if impossible."""
        written = type(self).model_fields
        family = given.get("family", self.family)
        wanted = [each for each in fields(_CLASSES[family]) if each.name in written]
        known = {each.name: getattr(self, each.name) for each in wanted}
        known = {**given, **{name: value for name, value in known.items() if value is not None}}
        known.pop("family", None)
        needed = [each.name for each in wanted if each.default is MISSING and each.name not in _USUAL]
        missing = [name for name in needed if name not in known]
        if given:
            refuse_missing(missing, "the config does not say it: write it beside 'hf'")
        refuse_missing(missing)
        if "heads" in needed:
            self._with_usual(known)
        refuse_impossible(known)
        return _CLASSES[family](**known)

    def _with_usual(self, known: dict[str, Any]) -> None:
        """Adds the sizes of attention and MLP that are not given."""
        known.setdefault("head_dim", usual_head_dim(known))
        if known.get("activation") in GATED and "ffn" not in known:
            raise Refused("'ffn' is missing: a gated MLP has no usual size", path="ffn")
        known.setdefault("ffn", 4 * known["hidden"])

    def transformer(self, given: Mapping[str, Any]) -> Transformer:
        """The model from dimensions ``given`` and what this section says besides; Refused if impossible."""
        written = self.model_fields_set
        sizes = {name: getattr(self, name) for name in type(self).model_fields if name in written}
        family = sizes.get("family") or given.get("family") or self.family
        known = {**_FAMILIES[family], **given, **{k: v for k, v in sizes.items() if v is not None}}
        known |= {
            "experts": experts_of(given.get("experts"), self.experts),
            "latent": latent_of(given.get("latent"), self.latent),
        }
        known = {name: value for name, value in known.items() if value is not None}
        hidden, heads = known["hidden"], known["heads"]
        kv_heads = known.get("kv_heads", heads)
        if heads % kv_heads:
            raise Refused(f"{heads} heads are no multiple of {kv_heads} key-value heads", path="kv_heads")
        head_dim = usual_head_dim(known)
        ffn = known.get("ffn")
        if ffn is None and "experts" in known and not known["experts"].dense_layers:
            ffn = known["experts"].ffn
        if ffn is None:
            if known["activation"] in GATED:
                raise Refused("'ffn' is missing: a gated MLP has no usual size", path="ffn")
            ffn = 4 * hidden
        refuse_clashes(known)
        known.setdefault("embedding_dropout", known.get("dropout", 0.0))
        chosen = {name: known[name] for name in _CHOICES if name in known}
        sizes = {"kv_heads": kv_heads, "head_dim": head_dim, "ffn": ffn}
        return Transformer(**{**chosen, **sizes})


def _of_file(key: str, folder: Path, file: Path, build: Callable[[Path], Model]) -> Model:
    """What ``build`` makes of a file in ``folder``; its refusals as ScenarioError that names the file."""
    try:
        return build(folder / file)
    except Refused as error:
        problems = (
            replace(problem, message=f"{file}: {problem.message}", path=f"model.{key}")
            for problem in error.problems
        )
        raise ScenarioError(*problems) from error
