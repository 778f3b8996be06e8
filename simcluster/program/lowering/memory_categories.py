"""The memory category of values: the same for every code that allocates or releases a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Movement
from simcluster.model import Block, Phase, Relocation, Role
from simcluster.program.isa import Category, Scope
from simcluster.program.lowering.lifetimes import ValueUses

PERSISTENT = {
    Role.PARAMETER: Category.PARAMETERS,
    Role.COPY: Category.PARAMETERS,
    Role.ACCUMULATOR: Category.GRADIENTS,
    Role.STATE: Category.OPTIMIZER,
    Role.CACHE: Category.KV_CACHE,
    Role.BUFFER: Category.COMMUNICATION,
}
"""The categories of values that outlive a step, by role."""

_SEEN_BY_OTHERS = {
    Role.FEED: Category.ACTIVATIONS,
    Role.ACTIVATION: Category.ACTIVATIONS,
    Role.GATHERED: Category.COMMUNICATION,
}


def boundary_category(role: Role) -> Category:
    """The category of a value that crosses blocks or stages, which follows from its role alone.

    Every block knows the role; which operator made it, one block only.
    """
    return _SEEN_BY_OTHERS.get(role, Category.TEMPORARY)


@dataclass(frozen=True, slots=True)
class ValueCategories:
    """The categories of a block's values, the same in all of its codes.

    ``copies`` are those of values that are copied between places, ``moved`` what movements make,
    ``scattered`` the gradients of which shards are made, which a bucket does in a block of its own.
    """

    block: Block
    uses: ValueUses
    copies: Mapping[str, Category]
    moved: frozenset[str]
    scattered: frozenset[str]

    @classmethod
    def of(cls, block: Block, uses: ValueUses) -> ValueCategories:
        """The categories of a block's values with these uses."""
        moved = {
            value for node in block.nodes if isinstance(node.operator, Movement) for value in node.outputs
        }
        scatters = [node for node in block.nodes if node.phase is Phase.SCATTER]
        scattered = {value for node in scatters for value in node.inputs}
        scattered -= {value for node in scatters for value in node.outputs}
        return cls(block, uses, _of_copies(block), frozenset(moved), frozenset(scattered))

    def category(self, value: str) -> Category:
        """The category of a value."""
        role = self.block.values[value].role
        if role in PERSISTENT:
            return PERSISTENT[role]
        if value in self.copies:
            return self.copies[value]
        lasting = self.uses.scope(value) is Scope.MICRO_BATCH and role in (Role.ACTIVATION, Role.FEED)
        crosses = self.uses.border(value) or value in self.scattered
        if lasting or role in (Role.GATHERED, Role.SUM) or crosses:
            return boundary_category(role)
        return Category.COMMUNICATION if value in self.moved else Category.TEMPORARY


def _of_copies(block: Block) -> dict[str, Category]:
    """What copies of values are booked under: as what they are copies of.

    That is a value that outlives the step, which is one of ``PERSISTENT``; otherwise, at the end of a step, a
    gradient, such as one that is clipped, and before that an activation.
    """
    near: dict[str, list[str]] = {}
    at_end: set[str] = set()
    for node in block.nodes:
        if isinstance(node.operator, Relocation):
            at_end.update(node.outputs if node.phase is Phase.END else ())
            for one, other in zip(node.inputs, node.outputs, strict=True):
                near.setdefault(one, []).append(other)
                near.setdefault(other, []).append(one)
    categories: dict[str, Category] = {}
    seen: set[str] = set()
    for value in near:
        if value not in seen:
            together = list(_reached(value, near))
            seen.update(together)
            kinds = [PERSISTENT[role] for name in together if (role := block.values[name].role) in PERSISTENT]
            if kinds:
                categories |= dict.fromkeys(together, kinds[0])
            else:
                # Gradients, or weights that were gathered, are booked as other blocks do that see them, too.
                activations = [name for name in together if block.values[name].role is Role.ACTIVATION]
                late = not at_end.isdisjoint(together)
                categories |= dict.fromkeys(activations, Category.GRADIENTS if late else Category.ACTIVATIONS)
    return categories


def _reached(value: str, near: Mapping[str, list[str]]) -> Iterator[str]:
    """A value and all that are copies of one another with it."""
    seen = {value: None}
    queue = [value]
    while queue:
        name = queue.pop()
        yield name
        queue += [other for other in near[name] if other not in seen]
        seen |= dict.fromkeys(near[name])
