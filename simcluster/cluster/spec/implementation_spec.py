"""What a file of ``cluster/implementations`` may say: how one library computes memory-bound operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources.abc import Traversable
from typing import Literal, TypeAlias

from simcluster.document import Document, Duration, Figure, Name, PositiveFloat, Section, validate
from simcluster.errors import PlanError, nearest
from simcluster.registry import data_files

Direction: TypeAlias = Literal["forward", "backward"]


class PassSpec(Section):
    """One direction of an operator, forward or backward."""

    traffic: Figure[PositiveFloat]
    """Memory traffic, as a multiple of the minimum number of bytes; 2 means that a second kernel passes over
    the same tensors.

    A kernel that is slower than its bytes explain, for example at half the bandwidth, counts with more bytes.
    """

    floor: Figure[Duration] | None = None
    """Minimum time, however few bytes: the launches of its kernels, and the host between them."""


class OperatorPasses(Section):
    """The memory traffic of an operator in the forward and in the backward."""

    forward: PassSpec | None = None
    """The operator itself; if absent, unknown."""

    backward: PassSpec | None = None
    """Its gradients; if absent, unknown."""


class ImplementationSpec(Section):
    """A library, or a way to run one, that computes memory-bound operators."""

    title: Name
    """Display name."""

    operators: dict[Name, OperatorPasses]
    """Memory traffic by operator."""

    def passes(self, operator: str, direction: Direction) -> PassSpec | None:
        """What is known of a direction of an operator, or None."""
        known = self.operators.get(operator)
        return getattr(known, direction) if known else None


def implementation_files() -> Mapping[str, Traversable]:
    """The shipped implementations."""
    return data_files("simcluster.cluster.implementations")


@cache
def load_implementation(name: str) -> ImplementationSpec:
    """A shipped implementation; PlanError, with the nearest name, if there is none."""
    files = implementation_files()
    if name not in files:
        raise PlanError(f"unknown implementation '{name}'", hint=nearest(name, files))
    text = files[name].read_text(encoding="utf-8")
    return validate(Document.parse(text, f"{name}.yaml"), ImplementationSpec, sourced=True)


def memory_traffic(implementation: str, operator: str, direction: Direction) -> float:
    """Bytes that an operator moves, as a multiple of the least: 1 is a single pass at the device's rate.

    Raises PlanError for an implementation, or an operator of it, of which nothing is known.
    """
    return operator_passes(implementation, operator, direction).traffic.value


def operator_passes(implementation: str, operator: str, direction: Direction) -> PassSpec:
    """How an implementation computes an operator; raises PlanError where nothing is known of it."""
    spec = load_implementation(implementation)
    passes = spec.passes(operator, direction)
    if passes is None:
        known = ", ".join(spec.operators)
        raise PlanError(
            f"nothing is known of {operator} ({direction}) as '{implementation}' computes it",
            hint=f"it has: {known}",
        )
    return passes
