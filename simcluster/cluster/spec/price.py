"""What a cluster costs: ``2.50 USD per device-hour``."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused

_PATTERN = r"^\s*\d+(\.\d+)?\s+[A-Z]{3}\s+per\s+device-hour\s*$"


@dataclass(frozen=True, slots=True)
class PriceRate:
    """The price of one device for an hour."""

    per_device_hour: float
    currency: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The price in a text; Refused, with the accepted form, for another."""
        if not re.match(_PATTERN, text):
            raise Refused(f"'{text}' is not a price", hint="write it as 2.50 USD per device-hour")
        amount, currency, *_ = text.split()
        return cls(float(amount), currency)


def _checked(text: str) -> str:
    PriceRate.parse(text)
    return text


Price = Annotated[str, Field(json_schema_extra={"pattern": _PATTERN}), AfterValidator(_checked)]
"""A price as text, such as ``2.50 USD per device-hour``."""
