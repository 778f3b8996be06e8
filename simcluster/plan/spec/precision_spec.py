"""The scenario's ``precision:``: number formats of what a step computes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from simcluster.document import Name, Refused, Section
from simcluster.model import LAYERS

FloatName = Literal["fp32", "fp16", "bf16"]
MatmulName = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"]
_NARROWER: dict[str, tuple[str, ...]] = {
    "fp32": ("tf32",),
    "fp16": ("fp8",),
    "bf16": ("fp8", "mxfp8", "nvfp4"),
}
_EIGHT_BITS = ("fp8", "mxfp8")
"""Formats of matmuls that the section ``fp8`` is about: one scale for a tensor, and one for 32 elements."""
"""The formats, beside their own, in which matrix units may multiply tensors of a format."""

PRODUCTS = (LAYERS,)
"""The operators whose products run in fp8 or nvfp4 unless the scenario says otherwise: those of the layers,
not those of embedding and head."""


class Fp8Spec(Section):
    """Which matmuls run in fp8, and how the fp8 copies of their operands are communicated and saved."""

    operators: Annotated[tuple[Name, ...], Field(min_length=1)] = PRODUCTS
    """Operator names, as patterns, whose matmuls run on fp8 operands, forward and backward. Everything else,
    such as attention, norms and matmuls of other operators, stays in the compute format."""

    communication: Literal["compute", "fp8"] | None = None
    """fp8: operands that are redistributed are cast first and communicated in fp8. If absent, the framework
    decides for gathered operands, and tokens exchanged between experts stay in the compute format."""

    saved: Literal["fp8", "compute"] = "fp8"
    """What is saved of an input for the weight gradient: its fp8 copy, or the input itself, which is cast
    again. If an input is cast after a redistribution, the tensor before the redistribution is saved."""


class Nvfp4Spec(Section):
    """Which matmuls run in nvfp4, and how the nvfp4 copies of their operands are communicated and saved.

    Every operand that a backward matmul reads has two copies, because the blocks of 16 elements that share a
    scale lie along the dim that is contracted.
    """

    operators: Annotated[tuple[Name, ...], Field(min_length=1)] = PRODUCTS
    """Operator names, as patterns, whose matmuls run on nvfp4 operands, forward and backward. Training
    recipes leave out some layers, which then stay in bf16."""

    communication: Literal["compute", "nvfp4"] | None = None
    """nvfp4: operands that are redistributed are cast first and communicated in nvfp4. If absent, the
    framework decides for gathered operands, and tokens exchanged between experts stay in the compute format.
    """

    saved: Literal["nvfp4", "compute"] = "nvfp4"
    """What is saved of an input for the weight gradient: its transposed nvfp4 copy, or the input itself,
    which is cast again."""


class PrecisionSpec(Section):
    """Number formats. ``bf16`` alone: bf16 weights and activations, fp32 gradients and master copy.

    ``tf32`` alone is ``{compute: fp32, matmul: tf32}``, ``fp8`` alone ``{compute: bf16, matmul: fp8}``, and
    ``mxfp8`` and ``nvfp4`` likewise.
    """

    shorthand: ClassVar[str] = "matmul"

    compute: FloatName = "bf16"
    """Format of activations and of the weights used with them."""

    matmul: MatmulName | None = None
    """Input format of matmuls; the same as compute if absent. tf32 changes only their rate; for fp8, mxfp8
    and nvfp4 operands are cast."""

    fp8: Fp8Spec | None = None
    """Which matmuls run in fp8, with ``matmul: fp8`` or ``matmul: mxfp8``."""

    nvfp4: Nvfp4Spec | None = None
    """Which matmuls run in nvfp4, with ``matmul: nvfp4``."""

    gradients: FloatName | None = None
    """Format in which parameter gradients are accumulated and reduced; the framework's choice if absent."""

    master: Literal["fp32", "none"] | None = None
    """Format of the master copy that the optimizer updates; if absent, fp32 unless compute is fp32."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        if not isinstance(written, str):
            return written
        if written not in get_args(MatmulName):
            return {"matmul": written}
        return {
            "compute": {"tf32": "fp32", **dict.fromkeys(_NARROWER["bf16"], "bf16")}.get(written, written),
            "matmul": written,
        }

    @model_validator(mode="after")
    def _is_possible(self) -> PrecisionSpec:
        possible = (self.compute, *_NARROWER[self.compute])
        if self.multiplied not in possible:
            raise Refused(
                f"{self.compute} tensors are not multiplied in {self.multiplied}",
                path="matmul",
                hint=f"with compute {self.compute}, write {' or '.join(possible)}",
            )
        eight_bits = self.multiplied if self.multiplied in _EIGHT_BITS else "fp8"
        for section, narrow, needed in ((self.fp8, "fp8", eight_bits), (self.nvfp4, "nvfp4", "nvfp4")):
            if section is not None and self.multiplied != needed:
                raise Refused(
                    f"matrix units multiply {self.multiplied}, so nothing runs in {narrow}",
                    path=narrow,
                    hint=f"write matmul: {narrow}, or leave the section out",
                )
        return self

    @property
    def multiplied(self) -> str:
        """What matrix units multiply."""
        return self.matmul or self.compute

    @property
    def quantised(self) -> Fp8Spec | Nvfp4Spec | None:
        """What is cast for matrix units; None: nothing."""
        if self.multiplied == "nvfp4":
            return self.nvfp4 or Nvfp4Spec()
        return (self.fp8 or Fp8Spec()) if self.multiplied in _EIGHT_BITS else None
