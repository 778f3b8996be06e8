"""What padding must hold so that it changes no result, and where it is known to be zero.

A dim whose size does not divide over the ranks that split it is padded. What reads such a dim element by
element may leave anything in its padding. What *reduces* over it needs neutral elements there, in every
operand that has the dim: zero on one side would not help against a NaN on the other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from simcluster.layout.dims import Dims

_NEUTRAL: Mapping[str, float] = {
    "sum": 0.0,
    "max": -math.inf,
    "min": math.inf,
    "logsumexp": -math.inf,
}


def needed_padding(
    dims: Dims, padded: Collection[str], floating: Sequence[bool]
) -> tuple[dict[str, float], ...] | str:
    """For every input the dims whose padding must hold a value, with the value; or why there is none.

    ``padded`` are the dims that are split unevenly, ``floating`` the inputs that hold numbers, not ids.
    """
    values: tuple[dict[str, float], ...] = tuple({} for _ in dims.inputs)
    for output, names in enumerate(dims.outputs):
        for dim in padded:
            terms = [
                term for term in dims.terms_of(output) if any(dim in dims.inputs[place] for place in term)
            ]
            if dim in names or not terms:
                continue
            wanted = {index: value for index, value in dims.neutral if dim in dims.inputs[index]}
            if not wanted:
                if dims.reduction == "sum" and not all(_vanishes(dims, term, dim) for term in terms):
                    return f"it is summed over {dim}, and no value is known that would add nothing"
                members = frozenset().union(*terms)
                value = _NEUTRAL[dims.reduction]
                wanted = {index: value for index in members if dim in dims.inputs[index] and floating[index]}
            for index, value in wanted.items():
                values[index][dim] = value
    return values


def zero_padding(
    dims: Dims, padded: Collection[str], floating: Sequence[bool], zero: Sequence[Collection[str]]
) -> tuple[frozenset[str], ...]:
    """For every output the dims whose padding is zero; ``zero`` are those of every input."""
    return tuple(
        frozenset(
            dim
            for dim in padded
            if dim in names
            and not any(dim in dims.inputs[index] for index in dims.division_inputs)
            and (
                all(_vanishes(dims, term, dim) for term in dims.terms_of(output))
                or any(
                    output == made and all(dim in dims.inputs[index] for index in members)
                    for made, members in dims.zero_preserving
                )
            )
            and all(
                dim in zero[index]
                for index, operand in enumerate(dims.inputs)
                if dim in operand and floating[index]
            )
        )
        for output, names in enumerate(dims.outputs)
    )


def padding_refusal(dims: Dims, padded: Collection[str], shapes: Sequence[Sequence[int]]) -> str:
    """Why one of these dims of an operator cannot be padded, or nothing; ``shapes`` are those of whole
    operands, inputs before outputs.
    """
    reasons = dict(dims.unpaddable)
    for dim in padded:
        if dim in reasons:
            return reasons[dim]
        if any(window.dim == dim for window in dims.windows):
            return f"windows slide over {dim}, whose parts must be equal"
        sizes = {
            size
            for names, shape in zip(dims.inputs + dims.outputs, shapes, strict=True)
            for name, size in zip(names, shape, strict=True)
            if name == dim
        }
        if len(sizes) > 1:
            listed = " and ".join(map(str, sorted(sizes)))
            return f"{dim} has sizes {listed} in its operands, whose padding would not lie in the same places"
    return ""


def _vanishes(dims: Dims, term: frozenset[int], dim: str) -> bool:
    """Whether a term is zero at an element of ``dim`` where all its inputs with that dim are."""
    return any(
        members & term and all(dim in dims.inputs[index] for index in members & term)
        for members in dims.linear
    )
