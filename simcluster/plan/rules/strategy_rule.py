"""Strategy rules by operator pattern, and the roles of mesh axes that they may name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches
from simcluster.layout import Mesh, MindSporeLayout, Side, SplitMesh, SubAxis, axis_pieces, whole

Split = Mapping[str, tuple[str, ...]]

Entry = int | tuple[str, ...]
"""One tensor dim: a number of parts, or axes, outermost first; ``()`` is whole."""

Operands = tuple[tuple[Entry, ...] | None, ...]
"""Per tensor its dims; None for a tensor about which nothing is said."""

Token = str | SubAxis
"""What may split a dim: an axis or role by name, or a sub-axis by its distance between ranks."""

BATCH = "batch"
PIPELINE = "pipeline"
SEQUENCE = "sequence"
"""The role of axes over which sequences are split (context parallelism)."""
SEQ = "seq"
"""The name of the token dim of sequences, or of their slices, in operators."""


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

    def without(self, axis: str) -> StrategyRule:
        """The rule whose splits by iteration dim do not name an axis."""
        alternatives = tuple(
            {dim: tuple(name for name in names if name != axis) for dim, names in split.items()}
            for split in self.alternatives
        )
        return replace(self, alternatives=alternatives)

    @property
    def numbered(self) -> bool:
        """Whether it gives numbers of parts instead of axes."""
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
    """What mesh axes are for; a rule may name a role instead of an axis."""

    axes: Mapping[str, tuple[str, ...]]
    """Role -> axes."""
    cut: SplitMesh | None = None
    """The split mesh, which maps sub-axes to axes; None if no axis is split."""

    def resolve(self, names: Sequence[Token], mesh: Mesh) -> tuple[str, ...]:
        """Roles, axes and sub-axes as axes of the mesh, without those that it does not have."""
        axes: list[str] = []
        for name in names:
            if isinstance(name, SubAxis):
                assert self.cut is not None, "digits need a mesh that is cut for them"
                axes += self.cut.axes(name)
            else:
                axes += [part for axis in self.axes.get(name, (name,)) for part in axis_pieces(mesh, axis)]
        return tuple(axis for axis in axes if axis in mesh.sizes)

    def known(self, mesh: Mesh) -> set[str]:
        """Every name that a rule may use."""
        return {*self.axes, *mesh.names, *map(whole, mesh.names)}


def first_rule(rules: Sequence[StrategyRule], name: str) -> int | None:
    """The index of the first rule that matches an operator's full name."""
    return next((index for index, rule in enumerate(rules) if matches(rule.match, name)), None)


def sequence_slices(rules: Sequence[StrategyRule], roles: AxisRoles, mesh: Mesh) -> int:
    """How many parts of a sequence are processed independently; 1 where no axis has the role of splitting it.

    They count all axes over which some rule splits sequences, besides those of the role.
    """
    axes = roles.resolve((SEQUENCE,), mesh)
    if mesh.product(axes) == 1:
        return 1
    named = [split[SEQ] for rule in rules for split in rule.alternatives if SEQ in split]
    others = [axis for names in named for axis in roles.resolve(names, mesh)]
    return mesh.product(tuple(dict.fromkeys((*axes, *others))))


def stage_devices(mesh: Mesh, roles: AxisRoles) -> int:
    """Ranks of one stage."""
    return mesh.num_on_axes // mesh.product(roles.resolve((PIPELINE,), mesh))
