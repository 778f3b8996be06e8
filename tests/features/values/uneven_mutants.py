"""Wrong rules of what is uneven, or shared: each changes one function, as a slip of the pen would.

They are of padding and its masks, of unequal shares of the batch, of the order in which stages reduce tied
parameters, and of gradients that several operators or copies write before they are scattered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simcluster.model import Role
from simcluster.model.operators.padding_mask import Mask
from simcluster.model.operators.pointwise import Add
from simcluster.plan.data.batch_shares import MicroBatches
from simcluster.plan.optimizer import fsdp_units as units
from simcluster.plan.sharding import padding
from simcluster.program.assembly import build_program
from tests.features.values.layout_mutants import Mutant


def always(value: Any) -> Callable[[Any], Any]:
    """The change into a function that gives one value whatever it is given."""
    return lambda original: lambda *given, **named: value


# -- padding --------------------------------------------------------------------------------------------


def unfilled(original):
    return lambda self, value, names, fills: value


def zeros_everywhere(original):
    """The neutral element of every reduction is zero."""

    def needed(*given):
        found = original(*given)
        return found if isinstance(found, str) else tuple(dict.fromkeys(each, 0.0) for each in found)

    return needed


def one_operand(original):
    """Of several operands only the first is filled."""

    def needed(*given):
        found = original(*given)
        return found if isinstance(found, str) else (*found[:1], *({} for _ in found[1:]))

    return needed


def taken_for_zero(original):
    """Whatever is padded counts as zero behind every operator."""
    return lambda dims, padded, *rest: tuple(frozenset(padded).intersection(names) for names in dims.outputs)


def one_too_many(original):
    """One element of the padding is left as it is."""

    def held(self, inputs, region):
        kept = {name: size + 1 for name, size in region.kept.items()}
        return original(self, inputs, type(region)(**{**fields_of(region), "kept": kept}))

    return held


def fields_of(region):
    return {name: getattr(region, name) for name in type(region).__dataclass_fields__}


PADDING = [
    Mutant("padding is not masked", padding.Padding, "_filled", unfilled),
    Mutant("every neutral element is zero", padding, "needed_padding", zeros_everywhere),
    Mutant("of what meets padding only one is masked", padding, "needed_padding", one_operand),
    Mutant("all padding counts as zero", padding, "zero_padding", taken_for_zero),
    Mutant("gradients keep what is in their padding", padding.Padding, "unknown", always(())),
    Mutant("masks begin one element late", Mask, "evaluate", one_too_many),
]


# -- shares of the batch --------------------------------------------------------------------------------


def turned(original):
    return property(lambda self: original.fget(self)[::-1])


def all_alike(original):
    return property(lambda self: (0,) * len(original.fget(self)))


SHARES = [
    Mutant("shares go to the wrong ranks", MicroBatches, "variants", turned),
    Mutant("all ranks train the first share", MicroBatches, "variants", all_alike),
]


# -- the order of ties ----------------------------------------------------------------------------------


def last_stage_turned(original):
    """The last stage reduces what it shares in the order in which it meets it, which is the other way."""

    def ties(graph):
        stages = {each.name: each.stage for each in graph.instances}
        last = max(stages.values())
        return {key: -place if stages[key[0]] == last else place for key, place in original(graph).items()}

    return ties


TIES = [
    Mutant("stages reduce what they share when they have it", build_program, "crossing_ties", always({})),
    Mutant("the last stage has an order of its own", build_program, "crossing_ties", last_stage_turned),
]


# -- several writers of a sharded gradient --------------------------------------------------------------


class _First(Add):
    """A sum of which only the first term counts."""

    def evaluate(self, inputs, region):
        return (inputs[0],)


def stored(original):
    """What copies of a parameter write replaces what others wrote."""
    return lambda self, accumulator, role: original(self, accumulator, Role.GRADIENT)


WRITERS = [
    Mutant("of several writers of a shard the first counts", units, "Add", lambda _: _First),
    Mutant("copies of a parameter overwrite their gradient", units._Unit, "_whole_gradient", stored),
    Mutant("every copy scatters the gradient of all", units._Unit, "_is_owner", always(True)),
    Mutant("no copy scatters the gradient of all", units._Unit, "_is_owner", always(False)),
]
