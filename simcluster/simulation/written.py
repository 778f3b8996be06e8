"""What Python says of operands, as a scenario has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simcluster.errors import ScenarioError
from simcluster.layout import MindSporeLayout

Entry = int | str | None | Sequence[str]
Operand = Sequence[Entry] | MindSporeLayout | None


def written(operands: Sequence[Operand] | None) -> list[Any] | None:
    """Operands as a scenario has them."""
    if operands is None:
        return None
    found: list[Any] = []
    for operand in operands:
        if isinstance(operand, MindSporeLayout):
            if operand.dims is None:
                raise ScenarioError(
                    "a layout of no tensor stands where one of a tensor should",
                    hint='call it with the dims: layout("dp", "None")',
                )
            found.append([list(dim) or 1 for dim in operand.dims])
        else:
            found.append(operand and [list(e) if isinstance(e, tuple) else e for e in operand])
    return found
