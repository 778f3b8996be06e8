"""Wrong gradients of every operator are found by finite differences: none of these mutants lives.

Of each input's gradient: left out, negated, scaled, or given to another input of its shape. Of each operator
that a gradient records: its result negated or scaled, its operands exchanged.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from simcluster.model import ONE
from tests.contracts.operator_cases import cases, quick_cases
from tests.contracts.operator_slopes import Slopes
from tests.contracts.operator_tape import differentiated


@dataclass(frozen=True)
class Scaled:
    """An operator of a gradient, one of whose results is so many times what it should be."""

    operator: object
    output: int
    factor: float

    def evaluate(self, inputs, region):
        made = list(self.operator.evaluate(inputs, region))
        made[self.output] = made[self.output] * self.factor
        return tuple(made)


def mutants(case):
    """(what is wrong, tape, names of the inputs' gradients) of every mutant of a case's gradient."""
    tape, found = differentiated(case)
    given = [index for index, name in enumerate(found) if name is not None]
    for index in given:
        yield f"no gradient of input {index}", tape, _with(found, {index: None})
    for one, two in combinations(given, 2):
        shapes = [tape.types[found[index]].shape for index in (one, two) if found[index] != ONE]
        if len(set(shapes)) == 1 and found[one] != found[two]:
            swapped = _with(found, {one: found[two], two: found[one]})
            yield f"gradients of inputs {one} and {two} exchanged", tape, swapped
    for place, (operator, inputs, outputs) in enumerate(tape.emitted):
        for output, name in enumerate(outputs):
            if tape.types[name].dtype.is_float:
                for factor in (-1.0, 2.0, 0.5):
                    changed = Scaled(operator, output, factor)
                    label = f"{factor} x {_name(operator)} {place} output {output}"
                    yield label, _emitting(tape, place, changed, inputs), found
        for one, two in combinations(range(len(inputs)), 2):
            kinds = {
                (tape.types[inputs[index]].shape, tape.types[inputs[index]].dtype) for index in (one, two)
            }
            if len(kinds) == 1 and inputs[one] != inputs[two]:
                order = [*inputs]
                order[one], order[two] = order[two], order[one]
                yield (
                    f"operands {one} and {two} of {_name(operator)}({len(inputs)}) exchanged",
                    _emitting(tape, place, operator, tuple(order)),
                    found,
                )


def _with(found, changes):
    return [changes.get(index, name) for index, name in enumerate(found)]


def _emitting(tape, place, operator, inputs):
    """The tape with one operator or its operands replaced."""
    changed = copy.copy(tape)
    changed.emitted = [*tape.emitted]
    changed.emitted[place] = (operator, inputs, tape.emitted[place][2])
    return changed


def _name(operator) -> str:
    return getattr(operator, "function", operator.kind)


RECORDED = [case for case in cases() if case.live is not None]

EQUAL = {
    "operands 0 and 1 of mul(2) exchanged": "a product commutes",
    "operands 0 and 1 of div_slope(3) exchanged": "- gradient x result / divisor: the first two commute",
    "operands 1 and 2 of exponent_slope(3) exchanged": "log base x result x gradient: the last two commute",
    "operands 0 and 1 of exponent_slope(2) exchanged": "the same, where the base is a number",
    "square: operands 0 and 1 of pow_slope(2) exchanged": "2 x base x gradient",
    "-1.0 x indicator 0 output 0": "who is equal to an extreme is divided by how many are",
    "2.0 x indicator 0 output 0": "who is equal to an extreme is divided by how many are",
    "0.5 x indicator 0 output 0": "who is equal to an extreme is divided by how many are",
}
"""Mutants that are as right as what they were made of, with the reason."""


@quick_cases(RECORDED)
def test_every_wrong_gradient_is_found(case):
    slopes = Slopes.of(case, case.live)
    tried = 0
    for label, tape, found in mutants(case):
        tried += 1
        lives = label in EQUAL or f"{case}: {label}" in EQUAL
        with np.errstate(all="ignore"):
            assert bool(slopes.wrong(tape, found)) != lives, label
    assert tried


def test_what_lives_is_there():
    """A list of exceptions that none needs would hide what it was written for."""
    labels = {
        name for case in RECORDED for label, *_ in mutants(case) for name in (label, f"{case}: {label}")
    }
    assert labels >= set(EQUAL)
