"""The scenario's ``training.lora``: low-rank adapters, which are trained instead of the model's weights."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, Field, model_validator

from simcluster.document import Name, PositiveFloat, PositiveInt, Refused, Section
from simcluster.plan.fine_tuning.adapter_targets import LowRankAdapters

_VARIANTS = {
    "dora": "DoRA scales columns of the sum of weight and adapter by trained magnitudes",
    "use_dora": "DoRA scales columns of the sum of weight and adapter by trained magnitudes",
    "quantization": "QLoRA holds the frozen weights in 4 bits and dequantises them before each matmul",
    "load_in_4bit": "QLoRA holds the frozen weights in 4 bits and dequantises them before each matmul",
    "modules_to_save": "weights of the model that are trained beside adapters are those that training.frozen "
    "does not name",
}


class LoraSpec(Section):
    """Low-rank adapters (LoRA): ``alpha / rank * x A B`` is added to the products ``x W`` of chosen weights.

    The weights of the model are frozen, unless ``training.frozen`` says which of them are.
    """

    rank: PositiveInt = Field(validation_alias=AliasChoices("rank", "r", "dim"))
    """Columns of A and rows of B (PEFT's ``r``, Megatron-Bridge's ``dim``)."""

    alpha: PositiveFloat | None = Field(None, validation_alias=AliasChoices("alpha", "lora_alpha"))
    """The adapter's product is multiplied by ``alpha / rank``; if absent, alpha is the rank."""

    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, validation_alias=AliasChoices("dropout", "lora_dropout")
    )
    """Rate of dropout of the adapter's input."""

    targets: Annotated[tuple[Name, ...], Field(min_length=1)] = Field(
        ("all-linear",),
        validation_alias=AliasChoices("targets", "target_modules"),
    )
    """Matmuls with an adapter: Megatron's names (linear_qkv, linear_proj, linear_fc1, linear_fc2), PEFT's
    (q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, all-linear), or patterns of operators or
    weights, such as ``attention.qkv``, ``attention.qkv.q``, ``layers.3.mlp.down``. A matmul of several
    weights that is named as a whole has one A for all of them; a weight that is named has its own."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_variants(cls, written: Any) -> Any:
        for key in written if isinstance(written, dict) else ():
            if key in _VARIANTS:
                raise Refused(f"not supported: {_VARIANTS[key]}", path=key, hint="leave it out")
        return written

    def build(self) -> LowRankAdapters:
        """The adapters."""
        alpha = self.rank if self.alpha is None else self.alpha
        return LowRankAdapters(self.rank, float(alpha), self.dropout, self.targets)
