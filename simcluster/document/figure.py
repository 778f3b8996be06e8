"""A constant with its source: every figure of a catalog says where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import (
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from simcluster.document.quantity import Quantity
from simcluster.document.section import Refused, Section

Value = TypeVar("Value")
Provenance = Literal["measured", "vendor", "assumed", "scenario"]

FORM = "{value: ..., source: ..., provenance: measured | vendor | assumed}"


class Figure(Section, Generic[Value]):
    """A value with its source: ``{value: 80 GB, source: H100 datasheet, provenance: vendor}``.

    In a user's own scenario the plain value is enough, ``80 GB``; its provenance is then ``scenario`` and its
    source empty. In a catalog (``validate(..., sourced=True)``) every figure names its source.
    """

    shorthand: ClassVar[str] = "value"

    value: Value
    """The figure itself."""

    source: str
    """The data sheet, paper or measurement it is taken from; for an assumed figure, the reasoning."""

    provenance: Provenance
    """How far to trust it: measured, stated by the vendor, assumed, or simply written in the scenario."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any, info: ValidationInfo) -> Any:
        if isinstance(written, Figure) or (
            isinstance(written, Mapping) and written.keys() & cls.model_fields.keys()
        ):
            return written
        if info.context and info.context.get("sourced"):
            raise ValueError(f"this figure names no source; write {FORM}")
        return {"value": written, "source": "", "provenance": "scenario"}

    @model_validator(mode="after")
    def _is_sourced(self, info: ValidationInfo) -> Figure[Value]:
        if not self.source.strip() and self.provenance != "scenario":
            raise Refused(
                "the source is empty; name the data sheet, the measurement or the reasoning", path="source"
            )
        if self.provenance == "scenario" and info.context and info.context.get("sourced"):
            raise Refused("a figure of a catalog is measured, vendor or assumed", path="provenance")
        return self

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> Any:
        written = handler(self)
        return written["value"] if self.provenance == "scenario" and not self.source else written

    def __reduce__(self) -> tuple[Any, ...]:
        # ``Figure[Bytes]`` is made on the fly, so pickle would not find it by name.
        return _figure, (self.value, self.source, self.provenance)

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """``Figure[Bytes]`` for a quantity, ``Figure[float]`` for a number."""
        return f"{cls.__name__}[{', '.join(_name(param) for param in params)}]"


def _figure(value: Any, source: str, provenance: Provenance) -> Figure[Any]:
    return Figure[Any].model_construct(value=value, source=source, provenance=provenance)


def _name(param: Any) -> str:
    if get_origin(param) is Annotated:
        kind, *notes = get_args(param)
        return next((note.name for note in notes if isinstance(note, Quantity)), _name(kind))
    return getattr(param, "__name__", str(param))
