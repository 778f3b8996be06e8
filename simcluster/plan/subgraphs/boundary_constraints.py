"""Layouts at the boundaries of subgraphs, as constraints on the operators there.

An operator that reads an input of a subgraph takes it in the layout of the boundary, and the producer of an
output hands it on so; other dims are left to propagation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.document import generalised_name
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Layout, Mesh, Strategy, SubAxis
from simcluster.model import Block, Graph, Node, Operator, Phase
from simcluster.plan.rules import AxisRoles, Entry, Operands, stage_devices
from simcluster.plan.strategies import (
    DEFAULT,
    Strategies,
    StrategyMismatch,
    Tokens,
    axes_with_several_ranks,
    device_matrix_of,
    remainder_problem,
    split_problem,
    tensor_splits,
)
from simcluster.plan.subgraphs.subgraph import BlockSubgraphs, Subgraph

Splits = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class BoundaryConstraint:
    """What propagation may not change of an operator in a subgraph."""

    piece: str
    """The subgraph, by its name in the block."""
    level: int
    """What propagation minimises there: 0 communication, 1 memory, 2 time."""
    source: str
    """Who fixed it, in words."""
    splits: Splits = ()
    """Splits of iteration dims."""
    outputs: tuple[tuple[int, Layout], ...] = ()
    """Layouts of results, by index."""

    @property
    def fixes(self) -> bool:
        """Whether it fixes anything."""
        return bool(self.splits or self.outputs)


BoundaryConstraints = Mapping[str, Mapping[str, BoundaryConstraint]]
"""Block -> operator in a subgraph -> its constraint. All other operators keep their strategies."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor of which something is written: its dims, what is written, where, and the kind of operand."""

    name: str
    dims: tuple[str, ...]
    entries: Sequence[Entry]
    path: str
    noun: str

    @property
    def numbers(self) -> dict[str, Entry]:
        """Its dims with numbers of parts, if it is written in numbers; those that are whole have one part."""
        if not any(isinstance(entry, int) for entry in self.entries):
            return {}
        written = zip(self.dims, self.entries, strict=True)
        return {dim: entry if isinstance(entry, int) else 1 for dim, entry in written}

    def refused(self, factors: Mapping[str, Entry]) -> StrategyMismatch | None:
        """Why it cannot be what is written, where dims have ``factors`` already."""
        if len(self.entries) != len(self.dims):
            listed = f"{self.name} ({', '.join(self.dims)})"
            return StrategyMismatch(
                f"{self.noun} {listed} has {len(self.dims)} dims, but {len(self.entries)} given"
            )
        if self.numbers and any(entry for entry in self.entries if isinstance(entry, tuple)):
            reason = f"{self.name}: axes and numbers are mixed"
            return StrategyMismatch(reason, hint="write axes of the mesh or numbers of parts, not both")
        for dim, parts in self.numbers.items() if self.noun != "output" else ():
            if factors.get(dim, parts) != parts:
                reason = f"dim '{dim}' is in {parts} in {self.name}, but in {factors[dim]} before"
                return StrategyMismatch(
                    reason, hint="what the piece has of one dim is split alike; or write axes"
                )
        return None


def boundary_sub_axes(
    graph: Graph, pieces: BlockSubgraphs, mesh: Mesh, roles: AxisRoles
) -> Iterator[tuple[str, str, SubAxis]]:
    """(where, key path, sub-axis) of every split at a boundary that is written as a number."""
    devices = stage_devices(mesh, roles)
    for block in graph.blocks.values():
        for piece in pieces.get(block.name, ()):
            for tensor, tokens in _resolved(_tensors(block, piece), devices):
                for token in (
                    () if isinstance(tokens, StrategyMismatch) else (t for of_dim in tokens for t in of_dim)
                ):
                    if isinstance(token, SubAxis):
                        yield f"{piece.shard.source}, {tensor.name}", tensor.path, token


def find_boundary_constraints(
    graph: Graph,
    pieces: BlockSubgraphs,
    found: Strategies,
    mesh: Mesh,
    roles: AxisRoles,
    *,
    pads: bool = False,
) -> BoundaryConstraints:
    """The constraints on operators of all subgraphs; PlanError with every problem.

    Operators that are configured in ``found`` are never changed; if they contradict a boundary, that is a
    problem. With ``pads`` dims need not divide.
    """
    problems: dict[Problem, None] = {}
    made: dict[str, Mapping[str, BoundaryConstraint]] = {}
    for instance in graph.instances:
        if instance.block in made:
            continue
        block = graph.block_of(instance)
        inside: dict[str, BoundaryConstraint] = {}
        made[block.name] = inside
        for piece in pieces.get(block.name, ()):
            writer = _Border(block, piece, mesh, roles, generalised_name(instance.name), pads, problems)
            inside |= writer.constraints(found.of(instance.name), found.sources[instance.name])
    if problems:
        raise PlanError(*problems)
    return made


def _tensors(block: Block, piece: Subgraph) -> list[_Tensor]:
    """The tensors of a piece of which something is written; those that it does not have are left out."""
    shard = piece.shard
    plan = dict(shard.parameters)
    written: list[tuple[str, Sequence[Entry] | None, str, str]] = []
    for place, (name, entries) in enumerate(zip(piece.inputs, shard.inputs or (), strict=False)):
        written.append((name, entries, f"in.{place}", "input"))
    for name, key in piece.parameters:
        written.append((name, plan[key], "parameter_plan", "parameter"))
    for place, (name, entries) in enumerate(zip(piece.outputs, shard.outputs or (), strict=False)):
        written.append((name, entries, f"out.{place}", "output"))
    return [
        _Tensor(name, boundary_dims(block, piece, name), entries, f"{shard.path}.{key}", noun)
        for name, entries, key, noun in written
        if entries is not None
    ]


def boundary_dims(block: Block, piece: Subgraph, value: str) -> tuple[str, ...]:
    """The names of a tensor's dims in the first operator of a subgraph that has it."""
    for node in block.phase(Phase.FORWARD):
        if node.name in piece.nodes:
            dims = _operator(node).dims()
            for names, operands in ((node.inputs, dims.inputs), (node.outputs, dims.outputs)):
                if value in names:
                    return operands[names.index(value)]
    raise AssertionError(f"{value} is not an operand of {piece.name}")


def _resolved(
    tensors: Sequence[_Tensor], devices: int
) -> Iterator[tuple[_Tensor, tuple[Tokens, ...] | StrategyMismatch]]:
    """What splits every dim of the tensors, or why that cannot be.

    Numbers of parts are those of one device matrix for the whole piece, its dims in the order in which they
    are written, outermost first; a result that wants others than its operators has a matrix of its own.
    """
    factors: dict[str, Entry] = {}
    fitting: list[_Tensor] = []
    for tensor in tensors:
        refused = tensor.refused(factors)
        if refused is not None:
            yield tensor, refused
            continue
        fitting.append(tensor)
        if tensor.noun != "output":
            factors |= tensor.numbers
    for tensor in fitting:
        shared = tensor.numbers.items() <= factors.items()
        yield tensor, _tokens(tensor, factors if shared else tensor.numbers, devices)


def _tokens(
    tensor: _Tensor, factors: Mapping[str, Entry], devices: int
) -> tuple[Tokens, ...] | StrategyMismatch:
    try:
        return tensor_splits(tensor.dims, tensor.entries, device_matrix_of(factors, devices))
    except StrategyMismatch as unfit:
        return unfit


@dataclass
class _Border:
    """The border of one piece of one block; ``prefix`` is what its instances are called."""

    block: Block
    piece: Subgraph
    mesh: Mesh
    roles: AxisRoles
    prefix: str
    pads: bool
    problems: dict[Problem, None]
    splits: dict[str, dict[str, tuple[tuple[str, ...], str]]] = field(default_factory=dict)
    outputs: dict[str, dict[int, Layout]] = field(default_factory=dict)

    def constraints(
        self, chosen: Mapping[str, Strategy], sources: Mapping[str, str]
    ) -> dict[str, BoundaryConstraint]:
        """What is fixed of every operator of the piece."""
        shard = self.piece.shard
        self.nodes = [node for node in self.block.phase(Phase.FORWARD) if node.name in self.piece.nodes]
        before = len(self.problems)
        counts = [
            self._counts("in", "input", self.piece.inputs, shard.inputs),
            self._counts("out", "output", self.piece.outputs, shard.outputs),
        ]
        if all(counts):
            devices = stage_devices(self.mesh, self.roles)
            for tensor, tokens in _resolved(_tensors(self.block, self.piece), devices):
                if isinstance(tokens, StrategyMismatch):
                    self._problem(tokens.reason, tensor.path, tokens.hint)
                else:
                    self._fix(tensor, tokens)
        free = BoundaryConstraint(self.piece.name, shard.level, shard.source)
        constraints: dict[str, BoundaryConstraint] = {}
        for node in self.nodes:
            fixed = self.splits.get(node.name, {})
            splits = {dim: axes for dim, (axes, _) in fixed.items()}
            outputs = tuple(sorted(self.outputs.get(node.name, {}).items()))
            shapes = [self.block.values[value].type.shape for value in node.inputs + node.outputs]
            refused = split_problem(node, splits, shapes, self.mesh, shard.rule, pads=self.pads)
            if refused is not None:
                named = replace(refused, message=f"{self.prefix}.{node.name}: {refused.message}")
                self.problems[named] = None
            if sources[node.name] != DEFAULT:
                self._agrees(node, chosen[node.name], sources[node.name])
            constraints[node.name] = replace(free, splits=tuple(splits.items()), outputs=outputs)
        unsaid = shard.inputs is None and shard.outputs is None and not shard.parameters
        unsaid = unsaid or len(self.problems) == before
        if unsaid and not any(
            constraint.fixes or sources[name] != DEFAULT for name, constraint in constraints.items()
        ):
            self._problem(
                "nothing says how it is sharded, so its operators have nothing to follow",
                shard.path,
                "give in, out or parameter_plan, or strategies for some of its operators",
            )
        return constraints

    def _counts(self, key: str, noun: str, names: Sequence[str], written: Operands | None) -> bool:
        """Whether as much is written as the piece has of it."""
        if written is None or len(written) == len(names):
            return True
        listed = ", ".join(
            f"{name} ({', '.join(boundary_dims(self.block, self.piece, name))})" for name in names
        )
        self._problem(
            f"{len(names)} {noun}{'s' * (len(names) != 1)}, but {len(written)} given",
            f"{self.piece.shard.path}.{key}",
            f"its {noun}s are {listed or 'none'}",
        )
        return False

    def _fix(self, tensor: _Tensor, tokens: Sequence[Tokens]) -> None:
        """Fixes what one tensor says of the operators that read it, or of the one that makes it."""
        unknown = list(self._unknown(tokens))
        for name in unknown:
            known = self.roles.known(self.mesh)
            self._problem(f"the mesh has no axis or role '{name}'", tensor.path, nearest(name, known))
        if unknown:
            return
        split = tuple(
            axes_with_several_ranks(self.roles.resolve(of_dim, self.mesh), self.mesh) for of_dim in tokens
        )
        if tensor.noun == "output":
            self._hands_on(tensor, split)
            return
        for node in self.nodes:
            for value, names in zip(node.inputs, _operator(node).dims().inputs, strict=True):
                if value == tensor.name:
                    for dim, axes in zip(names, split, strict=True):
                        self._constrain(node, dim, axes, tensor)

    def _unknown(self, tokens: Sequence[Tokens]) -> Iterator[str]:
        known = self.roles.known(self.mesh)
        names = (token for of_dim in tokens for token in of_dim if isinstance(token, str))
        yield from (name for name in names if name not in known)

    def _constrain(self, node: Node, dim: str, axes: tuple[str, ...], tensor: _Tensor) -> None:
        fixed = self.splits.setdefault(node.name, {})
        before, whose = fixed.setdefault(dim, (axes, tensor.name))
        if before != axes:
            self._problem(
                f"dim '{dim}' of {node.name} is {_shown(before)} in {whose} and {_shown(axes)} in "
                f"{tensor.name}",
                tensor.path,
                "what an operator reads of one dim is split alike",
            )

    def _hands_on(self, tensor: _Tensor, split: tuple[tuple[str, ...], ...]) -> None:
        """Fixes how a result lies behind the operator that makes it."""
        axes = [axis for dim in split for axis in dim]
        if len(set(axes)) < len(axes):
            self._problem(f"{tensor.name} is split twice over one axis: {Layout(split)}", tensor.path)
            return
        shape = self.block.values[tensor.name].type.shape
        for name, size, over in zip(tensor.dims, shape, split, strict=True):
            if size % self.mesh.product(over):
                self._problem(f"{tensor.name}: {remainder_problem(name, size, over, self.mesh)}", tensor.path)
                return
        maker = next(node for node in self.nodes if tensor.name in node.outputs)
        self.outputs.setdefault(maker.name, {})[maker.outputs.index(tensor.name)] = Layout(split)

    def _agrees(self, node: Node, strategy: Strategy, source: str) -> None:
        """Whether an operator that is configured stands at the border as the border says."""
        for dim, (axes, whose) in self.splits.get(node.name, {}).items():
            if (own := strategy.axes(dim)) != axes:
                self._problem(
                    f"dim '{dim}' of {node.name} is {_shown(axes)} in {whose}, but {_shown(own)} by its "
                    f"strategy ({source})",
                    self.piece.shard.path,
                    "leave one of them out: a configured operator is never changed",
                )
        for index, layout in strategy.outputs:
            wanted = self.outputs.get(node.name, {}).get(index, layout)
            if wanted != layout:
                self._problem(
                    f"{node.outputs[index]} is to be {wanted} behind the piece, but {layout} by the strategy "
                    f"of {node.name} ({source})",
                    self.piece.shard.path,
                    "leave one of them out",
                )

    def _problem(self, message: str, path: str, hint: str = "") -> None:
        self.problems[Problem(f"piece '{self.piece.shard.match}': {message}", path, hint)] = None


def _operator(node: Node) -> Operator:
    assert isinstance(node.operator, Operator)
    return node.operator


def _shown(axes: Sequence[str]) -> str:
    return f"split over {'+'.join(axes)}" if axes else "whole"
