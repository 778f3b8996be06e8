"""Quantities in a document: text with a unit outside, a float in SI base units inside."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticSerializationUnexpectedValue, core_schema

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.units import Dimension


@dataclass(frozen=True, slots=True)
class Quantity:
    """An annotation that reads text such as ``64 GiB`` into a float of SI base units.

    It is written back, in JSON, as the shortest text that reads to exactly the same float.
    """

    dimension: Dimension
    above_zero: bool = False

    @property
    def name(self) -> str:
        """Its name in titles: ``Bytes``, ``Bandwidth``, ``Duration``, ``Frequency``, ``Compute``."""
        return "Duration" if self.dimension is Dimension.TIME else self.dimension.name.capitalize()

    def read(self, written: Any) -> float:
        """The quantity in base units; raises ValueError, with the accepted form, for anything else."""
        if isinstance(written, (int, float)) and not isinstance(written, bool):
            raise ValueError(f"{written} has no unit; write for example '{self.dimension.example}'")
        value = units.parse(written, self.dimension)
        if self.above_zero and value == 0:
            raise ValueError(f"must be above 0 {self.dimension.base}")
        return value

    def write(self, value: float) -> str:
        """The shortest text in whole bytes, seconds or FLOPs that ``read`` turns into exactly this value."""
        return _shortest(value, self.dimension)

    def _serialize(self, value: Any) -> str:
        if not isinstance(value, (int, float)):  # in a union, another branch writes it
            raise PydanticSerializationUnexpectedValue(f"{value!r} is not a quantity")
        return self.write(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Reading from text, writing to text in JSON and to a float in Python."""
        return core_schema.no_info_plain_validator_function(
            self.read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                self._serialize, return_schema=core_schema.str_schema(), when_used="json"
            ),
            metadata={
                "simcluster": {
                    "wants": f"a number with a unit such as '{self.dimension.example}'",
                    "kinds": {"text"},
                }
            },
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Text of a number and a unit, with an example."""
        return {
            "type": "string",
            "pattern": rf"^\s*\+?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?\s*({_PATTERNS[self.dimension]})\s*$",
            "examples": self.dimension.example.split(" or "),
        }


_PREFIX = "([kKMGTPE]|[KMGTP]i)?"
_PATTERNS = {
    Dimension.BYTES: f"{_PREFIX}[Bb]",
    Dimension.BANDWIDTH: rf"{_PREFIX}[Bb](\/s|ps)",
    Dimension.TIME: "ns|us|µs|μs|ms|s|min|h|d",
    Dimension.FREQUENCY: "[kKMGTPE]?Hz",
    Dimension.POWER: "[kKMGTPE]?W",
    Dimension.COMPUTE: r"[kKMGTPE]?FLOP(\/s|S|s)",
    Dimension.TOKEN_RATE: r"([kKMGTPEB] )?tokens\/s",
    Dimension.SAMPLE_RATE: r"([kKMGTPEB] )?samples\/s",
}

# Written out, one spelling per unit is enough, and bytes are never shown as bits.
_SPELLED = {
    Dimension.BYTES: ("B",),
    Dimension.BANDWIDTH: ("B/s",),
    Dimension.TIME: ("ns", "us", "ms", "s", "min", "h", "d"),
    Dimension.FREQUENCY: ("Hz",),
    Dimension.POWER: ("W",),
    Dimension.COMPUTE: ("FLOP/s",),
    Dimension.TOKEN_RATE: ("tokens/s",),
    Dimension.SAMPLE_RATE: ("samples/s",),
}


@lru_cache(maxsize=4096)
def _shortest(value: float, dimension: Dimension) -> str:
    """The shortest text of a value; the figures of a catalog are written for every cluster that has them."""
    texts = [f"{_digits(value)} {dimension.base}"]
    for unit, scale in dimension.units.items():
        text = f"{_digits(value / scale)} {unit}"
        if unit.endswith(_SPELLED[dimension]) and units.parse(text, dimension) == value:
            texts.append(text)
    return min(texts, key=len)


def _digits(value: float) -> str:
    """The shortest decimal text of a float; whole numbers without a point."""
    if math.isfinite(value) and value == int(value) and value < 1e15:
        return str(int(value))
    return repr(value)


Bytes = Annotated[float, Quantity(Dimension.BYTES)]
"""An amount of data or memory in bytes, written ``64 GiB``, ``80 GB``."""

Bandwidth = Annotated[float, Quantity(Dimension.BANDWIDTH, above_zero=True)]
"""A transfer rate in bytes per second, above 0, written ``50 GB/s`` or ``400 Gbps``."""

Duration = Annotated[float, Quantity(Dimension.TIME)]
"""A time in seconds, written ``1.5 us``, ``30 min``."""

Frequency = Annotated[float, Quantity(Dimension.FREQUENCY, above_zero=True)]
"""A clock in hertz, above 0, written ``1410 MHz``."""

Power = Annotated[float, Quantity(Dimension.POWER)]
"""Electric power in watts, written ``700 W``."""

Compute = Annotated[float, Quantity(Dimension.COMPUTE, above_zero=True)]
"""A compute rate in FLOP per second, above 0, written ``989.4 TFLOP/s``."""
