"""Strategies given per operand (MindSpore's ``shard``), as splits of an operator's iteration dims.

An operator names the dims of its operands; a dim that two operands have is split alike in both, or the rule
contradicts itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import DeviceMatrix, Dims, MindSporeLayout, Side, SubAxis
from simcluster.plan.rules import Entry, Operands, StrategyRule, Token

Tokens = tuple[Token, ...]


class StrategyMismatch(Exception):
    """A rule that does not fit the operator; the message says why."""

    def __init__(self, reason: str, key: str = "in", hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.key, self.hint = reason, key, hint


@dataclass(frozen=True, slots=True)
class SplitCandidate:
    """A possible split of an operator."""

    dims: Mapping[str, Tokens]
    """Iteration dim -> what splits it."""
    outputs: Mapping[int, tuple[Tokens, ...]]
    """Index of a result -> its layout after the operator."""


def operand_candidate(rule: StrategyRule, dims: Dims, devices: int) -> SplitCandidate:
    """The split of a rule by operands, on ``devices`` ranks of a stage; StrategyMismatch if it contradicts
    itself.
    """
    assert rule.inputs is not None
    split = _split(rule.inputs, dims)
    numbers = any(isinstance(entry, int) for entry in split.values())
    if numbers and any(entry for entry in split.values() if isinstance(entry, tuple)):
        raise StrategyMismatch(
            "axes and numbers are mixed", hint="write axes of the mesh or numbers of parts, not both"
        )
    if numbers:
        matrix = _matrix(split, devices, rule.repeated_on, "in")
        tokens: dict[str, Tokens] = {dim: _factor(matrix, dim) for dim in split}
    else:
        tokens = {dim: _named(entry, rule.layout) for dim, entry in split.items()}
    results = result_layouts(rule, dims, tokens, devices)
    for index, names in enumerate(dims.outputs):
        for dim, wanted in zip(names, results.get(index, ()), strict=False):
            # A dim that no input has is split as the result is.
            tokens.setdefault(dim, wanted)
    return SplitCandidate(tokens, results)


def split_candidates(rule: StrategyRule | None, dims: Dims, devices: int) -> Iterator[SplitCandidate]:
    """The splits that a rule allows, in order of preference; StrategyMismatch if it contradicts itself."""
    if rule is None:
        yield SplitCandidate({}, {})
    elif rule.inputs is not None:
        yield operand_candidate(rule, dims, devices)
    else:
        for split in rule.alternatives:
            tokens = {dim: _named(axes, rule.layout) for dim, axes in split.items() if dim in dims.names}
            yield SplitCandidate(tokens, result_layouts(rule, dims, tokens, devices))


def result_layouts(
    rule: StrategyRule, dims: Dims, tokens: Mapping[str, Tokens], devices: int
) -> dict[int, tuple[Tokens, ...]]:
    """Index of a result -> the layout that a rule gives it; StrategyMismatch if it has another number of
    dims.
    """
    if rule.outputs is None:
        return {}
    _check_count(rule.outputs, dims.outputs, "output", "out")
    layouts: dict[int, tuple[Tokens, ...]] = {}
    for index, (names, entries) in enumerate(zip(dims.outputs, rule.outputs, strict=True)):
        if entries is None:
            continue
        _check_rank(entries, names, index, "output", "out")
        if any(isinstance(entry, int) for entry in entries):
            layouts[index] = _numbered(entries, names, tokens, rule, devices)
        else:
            layouts[index] = tuple(_named(entry, rule.layout) for entry in entries)
    return layouts


def device_matrix_of(factors: Mapping[str, Entry], devices: int) -> DeviceMatrix:
    """The device matrix of numbers of parts by dim, outermost first; StrategyMismatch if ranks do not divide
    so.
    """
    return _matrix(factors, devices, "left", "in")


def tensor_splits(names: Sequence[str], entries: Sequence[Entry], matrix: DeviceMatrix) -> tuple[Tokens, ...]:
    """What splits each dim of one tensor: axes as written, numbers by the device matrix."""
    return tuple(
        _factor(matrix, name) if isinstance(entry, int) else _named(entry, None)
        for name, entry in zip(names, entries, strict=True)
    )


def _numbered(
    entries: Sequence[Entry],
    names: Sequence[str],
    tokens: Mapping[str, Tokens],
    rule: StrategyRule,
    devices: int,
) -> tuple[Tokens, ...]:
    """Numbers of a result: the operator's own factors where they say so, else a device matrix of its own."""
    wanted = [_count(entry) for entry in entries]
    follows = [tokens.get(name, ()) for name in names]
    sizes = [
        math.prod(token.size for token in factors if isinstance(token, SubAxis)) if factors else 1
        for factors in follows
    ]
    if wanted == sizes:
        return tuple(follows)
    matrix = _matrix(dict(zip(names, entries, strict=True)), devices, rule.repeated_on, "out")
    return tuple(_factor(matrix, name) for name in names)


def _split(operands: Operands, dims: Dims) -> dict[str, Entry]:
    """Dim -> what every input that has it says, in the order of first appearance."""
    _check_count(operands, dims.inputs, "input", "in")
    entry_of: dict[str, Entry] = {}
    first: dict[str, int] = {}
    for index, (names, entries) in enumerate(zip(dims.inputs, operands, strict=True)):
        if entries is None:
            continue
        _check_rank(entries, names, index, "input", "in")
        for name, entry in zip(names, entries, strict=True):
            if entry_of.setdefault(name, entry) != entry:
                raise StrategyMismatch(
                    f"dim '{name}' is {_shown(entry_of[name])} in input {first[name]} and {_shown(entry)} in "
                    f"input {index}",
                    hint=f"inputs are {_listed(dims.inputs)}: what they share is split alike",
                )
            first.setdefault(name, index)
    return entry_of


def _check_count(given: Operands, wanted: Sequence[Sequence[str]], noun: str, key: str) -> None:
    if len(given) != len(wanted):
        raise StrategyMismatch(
            f"{len(wanted)} {noun}{'s' * (len(wanted) != 1)}, but {len(given)} given",
            key,
            f"its {noun}s are {_listed(wanted)}",
        )


def _check_rank(entries: Sequence[Entry], names: Sequence[str], index: int, noun: str, key: str) -> None:
    if len(entries) != len(names):
        raise StrategyMismatch(
            f"{noun} {index} has {len(names)} dims {_dims(names)}, but {len(entries)} given", key
        )


def _matrix(entries: Mapping[str, Entry], devices: int, side: Side, key: str) -> DeviceMatrix:
    """The device matrix of numbers, the dims in order."""
    factors = {dim: _count(entry) for dim, entry in entries.items()}
    used = math.prod(factors.values())
    if devices % used:
        shown = [str(size) for size in factors.values() if size > 1]
        product = f"{' x '.join(shown)} = " if len(shown) > 1 else ""
        raise StrategyMismatch(
            f"{product}{used} parts for the {devices} ranks of a stage: {devices} / {used} = "
            f"{devices / used:g}",
            key,
            "the parts must divide the ranks; ranks that are left over repeat the calculation",
        )
    return DeviceMatrix.of(factors, devices, side)


def _factor(matrix: DeviceMatrix, dim: str) -> Tokens:
    digit = matrix.digit(dim)
    return (digit,) if digit.size > 1 else ()


def _named(entry: Entry, layout: MindSporeLayout | None) -> Tokens:
    assert isinstance(entry, tuple)
    if layout is None:
        return entry
    return tuple(digit for alias in entry for digit in layout.digits(alias))


def _count(entry: Entry) -> int:
    if isinstance(entry, int):
        return entry
    if entry:
        raise StrategyMismatch(
            "axes and numbers are mixed", "out", "write axes of the mesh or numbers of parts, not both"
        )
    return 1


def _shown(entry: Entry) -> str:
    if isinstance(entry, int):
        return f"split {entry} ways"
    return f"split over {'+'.join(entry)}" if entry else "whole"


def _dims(names: Sequence[str]) -> str:
    return f"({', '.join(names)})"


def _listed(operands: Sequence[Sequence[str]]) -> str:
    return ", ".join(map(_dims, operands))
