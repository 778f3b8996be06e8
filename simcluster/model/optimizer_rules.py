"""The update rules of optimizers, and which of them each parameter has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches
from simcluster.model.operators import Update
from simcluster.model.weight_matrix import WeightMatrix
from simcluster.registry import kinds


@dataclass(frozen=True, slots=True)
class Updates:
    """Update rules by parameter: the ``usual`` one, and others by pattern of names, of which later win.

    ``matrices`` are the parameters that are used as matrices, with how.
    """

    usual: Update
    groups: tuple[tuple[str, Update], ...]
    matrices: Mapping[str, WeightMatrix] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """That of the usual rule."""
        return self.usual.kind

    def of(self, parameter: str) -> Update:
        """The rule of a parameter."""
        rules = (update for pattern, update in reversed(self.groups) if matches(pattern, parameter))
        return next(rules, self.usual).on(self.matrices.get(parameter))


def update_kinds() -> dict[str, type[Update]]:
    """The update rules by their kind: those among the operators, and of installed packages."""
    return kinds("simcluster.model.operators", Update)


Rules = Update | Updates
"""The rule of all parameters, or which have which."""
