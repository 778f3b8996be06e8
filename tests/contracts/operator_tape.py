"""The gradients of cases of operators, recorded."""

from __future__ import annotations

import itertools

from simcluster.model import ONE


class Recorder:
    """A tape that keeps what is emitted."""

    def __init__(self, types, needed):
        self.types = dict(types)
        self.needed = needed
        self.emitted = []

    def emit(self, suffix, operator, inputs):
        assert all(name in self.types for name in inputs), (
            f"{operator.kind} reads values nobody has: {inputs}"
        )
        names = tuple(f"{suffix}.{index}" for index in range(len(operator.dims().outputs)))
        assert not any(name in self.types for name in names), f"suffix {suffix} is used twice"
        kinds = operator.infer([self.types[name] for name in inputs])
        self.types.update(zip(names, kinds, strict=True))
        self.emitted.append((operator, tuple(inputs), names))
        return names

    def needs_gradient(self, value):
        return value in self.needed


def differentiated(case, needed=None, live=None):
    """The recorder, and the names of the inputs' gradients."""
    inputs = [f"in{index}" for index in range(len(case.inputs))]
    types = dict(zip(inputs, case.types, strict=True))
    kinds = case.operator.infer(case.types)
    outputs = [f"out{index}" for index in range(len(kinds))]
    types.update(zip(outputs, kinds, strict=True))
    live = case.live if live is None else live
    grads = [None] * len(outputs)
    for index in live:
        grads[index] = ONE if case.loss else f"grad{index}"
        types[f"grad{index}"] = kinds[index]
    needed = case.floating if needed is None else needed
    tape = Recorder(types, {f"in{index}" for index in needed})
    found = case.operator.gradient(tape, inputs, outputs, grads)
    assert len(found) == len(inputs)
    return tape, found


def subsets(indices):
    """All of them but the empty one, as tuples."""
    return [
        chosen for count in range(1, len(indices) + 1) for chosen in itertools.combinations(indices, count)
    ]
