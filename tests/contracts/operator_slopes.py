"""Slopes of an operator's results by finite differences, against the gradients that it records."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from tests.contracts.operator_case import WHOLE
from tests.contracts.operator_checks import gradient_values, upstream_of


@dataclass(frozen=True)
class Slopes:
    """What a step along some directions of each input changes, for gradients of the outputs ``upstream``.

    ``along`` has, by input, each direction with its slope.
    """

    case: object
    upstream: dict
    along: dict

    @classmethod
    def of(cls, case, live, *, elements: int = 12):
        """Random directions, and some elements one by one."""
        rng = np.random.default_rng(1)
        upstream = upstream_of(case, live, rng)

        def loss(arrays):
            outputs = case.operator.evaluate(arrays, WHOLE)
            return sum(float((outputs[index] * weight).sum()) for index, weight in upstream.items())

        along = {
            index: [
                (direction, _central_difference(loss, case.inputs, index, direction))
                for direction in _directions(case.inputs[index].shape, rng, elements)
            ]
            for index in case.floating
            if index not in case.operator.detached_inputs
        }
        return cls(case, upstream, along)

    def wrong(self, tape, found) -> list[int]:
        """The inputs whose gradients, of those that a tape recorded, are not what the slopes say."""
        values = gradient_values(self.case, tape, self.upstream)
        wrong = []
        for index, slopes in self.along.items():
            whole = self.case.inputs[index]
            gradient = np.zeros_like(whole) if found[index] is None else values[found[index]]
            if gradient.shape != whole.shape or any(
                (gradient * direction).sum() != pytest.approx(slope, rel=1e-6, abs=1e-7)
                for direction, slope in slopes
            ):
                wrong.append(index)
        return wrong


def _directions(shape, rng, elements):
    yield from rng.standard_normal((3, *shape))
    size = math.prod(shape)
    for element in rng.permutation(size)[:elements]:
        unit = np.zeros(size)
        unit[element] = 1
        yield unit.reshape(shape)


def _central_difference(loss, arrays, index, direction, step=1e-5):
    def at(distance):
        moved = [*arrays]
        moved[index] = arrays[index] + distance * direction
        return loss(moved)

    return (at(step) - at(-step)) / (2 * step)
