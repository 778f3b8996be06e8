"""What is written about operators: rules by pattern, and the names of axes that they may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simcluster.document import matches
from simcluster.layout import Mesh, MindSporeLayout, Side, SplitMesh, SubAxis, axis_pieces, whole

Split = Mapping[str, tuple[str, ...]]

Entry = int | tuple[str, ...]
"""What is written for one tensor dim: a number of parts, or axes, outer first; ``()`` is whole."""

Operands = tuple[tuple[Entry, ...] | None, ...]
"""Per tensor its dims; None for one of which nothing is said."""

Token = str | SubAxis
"""Something to split a dim over: an axis or role by name, or ranks by their distance."""

BATCH = "batch"
PIPELINE = "pipeline"
SEQUENCE = "sequence"
"""The role of axes over which sequences are split (context parallelism)."""
SEQ = "seq"
"""What operators call the dim of a sequence's tokens, or of its slices."""


@dataclass(frozen=True, slots=True)
class StrategyRule:
    """How the operators of a pattern are split: by iteration dim in ``alternatives``, or by operand in
    ``inputs``.
    """

    match: str
    """The pattern of operators' names."""
    alternatives: tuple[Split, ...]
    """Splits by iteration dim, of which the first that divides counts."""
    source: str
    """Where the rule was written: ``recipe megatron``."""
    path: str = ""
    """Its key path if the user wrote it, which also makes a rule that matches nothing an error."""
    inputs: Operands | None = None
    """By input what splits each dim: axes, aliases of ``layout``, or factors of a device matrix."""
    outputs: Operands | None = None
    """The layouts that results get after the operator."""
    layout: MindSporeLayout | None = None
    """The device matrix that names in operands are aliases of."""
    repeated_on: Side = "left"
    """The side of the device matrix that replicas stand on, where operands have numbers."""
    scatter: bool = False
    """Whether sums of results that are still to be made are scattered over their first dim."""

    @property
    def numbered(self) -> bool:
        """Whether it counts ranks instead of naming axes."""
        return self.layout is not None or any(isinstance(entry, int) for entry in self._entries())

    @property
    def names(self) -> set[str]:
        """The axes and roles it names."""
        if self.layout is not None:
            return set()
        names = {name for entry in self._entries() if isinstance(entry, tuple) for name in entry}
        return names | {axis for split in self.alternatives for axes in split.values() for axis in axes}

    def _entries(self) -> list[Entry]:
        operands = (*(self.inputs or ()), *(self.outputs or ()))
        return [entry for dims in operands for entry in dims or ()]


@dataclass(frozen=True, slots=True)
class AxisRoles:
    """What axes are for: role -> axes of the mesh; a rule may name a role where it could name an axis.

    ``cut`` tells which axes a digit of rank numbers is made of.
    """

    axes: Mapping[str, tuple[str, ...]]
    cut: SplitMesh | None = None

    def resolve(self, names: Sequence[Token], mesh: Mesh) -> tuple[str, ...]:
        """Roles, axes and digits as axes of the mesh; those that the mesh does not have are dropped."""
        axes: list[str] = []
        for name in names:
            if isinstance(name, SubAxis):
                assert self.cut is not None, "digits need a mesh that is cut for them"
                axes += self.cut.axes(name)
            else:
                axes += [part for axis in self.axes.get(name, (name,)) for part in axis_pieces(mesh, axis)]
        return tuple(axis for axis in axes if axis in mesh.sizes)

    def known(self, mesh: Mesh) -> set[str]:
        """Every name a rule may use."""
        return {*self.axes, *mesh.names, *map(whole, mesh.names)}


def first_rule(rules: Sequence[StrategyRule], name: str) -> int | None:
    """The first rule that fits an operator's full name, by its index."""
    return next((index for index, rule in enumerate(rules) if matches(rule.match, name)), None)


def sequence_slices(rules: Sequence[StrategyRule], roles: AxisRoles, mesh: Mesh) -> int:
    """Slices of a sequence that ranks treat by themselves; one where no axis has the role of splitting it.

    As many as divide over those axes and all others over which some rule splits it besides.
    """
    axes = roles.resolve((SEQUENCE,), mesh)
    if mesh.product(axes) == 1:
        return 1
    named = [split[SEQ] for rule in rules for split in rule.alternatives if SEQ in split]
    others = [axis for names in named for axis in roles.resolve(names, mesh)]
    return mesh.product(tuple(dict.fromkeys((*axes, *others))))


def stage_devices(mesh: Mesh, roles: AxisRoles) -> int:
    """Ranks of one stage, all of which an operator's factors divide."""
    return mesh.num_ranks // mesh.product(roles.resolve((PIPELINE,), mesh))
