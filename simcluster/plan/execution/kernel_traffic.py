"""How often the kernels of libraries pass over memory, by the operators that they compute."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.cluster import load_implementation

_KINDS = {"adam": ("adam", "adamw"), "relu_squared": ("squared_relu",)}
"""Operators by what libraries call them, where that is another name."""


def implemented_traffic(libraries: Sequence[str]) -> dict[str, float]:
    """By kind of operator: the bytes that its kernels move, in multiples of the least; the first library that
    has it counts. PlanError for a library that is not known.
    """
    traffic: dict[str, float] = {}
    for library in libraries:
        for name, passes in load_implementation(library).operators.items():
            for kind in _KINDS.get(name, (name,)):
                if passes.forward is not None:
                    traffic.setdefault(kind, passes.forward.traffic.value)
                if passes.backward is not None:
                    traffic.setdefault(f"{kind}_grad", passes.backward.traffic.value)
    return traffic
