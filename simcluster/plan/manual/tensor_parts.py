"""The part of each of the reference model's tensors that a rank of a hand-written program has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Layout, Mesh
from simcluster.model import Graph, TensorType, Value
from simcluster.plan.manual.groups import Groups
from simcluster.plan.spec import PartSpec, ProgramSpec


@dataclass(frozen=True, slots=True)
class TensorPart:
    """A part of a tensor of the reference model."""

    origin: str
    """The tensor's full name there."""
    whole: TensorType
    """The type of the whole tensor."""
    layout: Layout
    """How it is split."""
    below: int = 0
    """Of a feed of ids: all are below this."""

    def local(self, mesh: Mesh) -> TensorType:
        """The type of the part."""
        return replace(self.whole, shape=self.layout.local_shape(self.whole.shape, mesh))


@dataclass(frozen=True, slots=True)
class ReferenceParts:
    """The feeds and parameters of a program, as parts of those of the reference model."""

    feeds: Mapping[str, TensorPart]
    """Name -> part."""
    parameters: Mapping[str, TensorPart]
    """Name in the program -> part."""

    @classmethod
    def of(cls, program: ProgramSpec, reference: Graph, groups: Groups) -> ReferenceParts:
        """Reads the parts; PlanError with everything that does not fit the reference model."""
        problems: list[Problem] = []
        known = dict(reference.parameters())
        feeds = {name: block.values[name] for block in reference.blocks.values() for name in block.feeds}
        read: dict[str, TensorPart] = {}
        for name, part in program.feeds.items():
            path = f"feeds.{name}"
            if part.of not in (None, name):
                problems.append(Problem(f"a feed has its name in the reference: '{part.of}'", f"{path}.of"))
            elif name not in feeds:
                hint = nearest(name, feeds)
                problems.append(Problem(f"the reference has no feed '{name}'", path, hint))
            else:
                read[name] = _feed(name, feeds[name], part, groups, problems)
        owned: dict[str, TensorPart] = {}
        for name, part in program.parameters.items():
            path = f"parameters.{name}"
            origin = _origin(part.of or name, known)
            if origin is None:
                where = f"{path}.of" if part.of else path
                hint = nearest(part.of or name, known)
                problems.append(Problem(f"the reference has no parameter '{part.of or name}'", where, hint))
            elif name in program.feeds:
                problems.append(Problem(f"a feed is called '{name}' already", path))
            else:
                layout = _layout(part, known[origin], groups, path, problems)
                owned[name] = TensorPart(origin, known[origin], layout)
        held = {part.origin for part in owned.values()}
        problems += [
            Problem(f"the program has no part of the reference's parameter '{name}'", "parameters")
            for name in known
            if name not in held
        ]
        if problems:
            raise PlanError(*problems)
        return cls(read, owned)


def _feed(name: str, value: Value, part: PartSpec, groups: Groups, problems: list[Problem]) -> TensorPart:
    layout = _layout(part, value.type, groups, f"feeds.{name}", problems)
    return TensorPart(name, value.type, layout, value.num_ids)


def _origin(name: str, known: Mapping[str, TensorType]) -> str | None:
    """The full name of a parameter that is called by the end of it, if there is one such."""
    if name in known:
        return name
    ends = [full for full in known if full.endswith(f".{name}")]
    return ends[0] if len(ends) == 1 else None


def _layout(part: PartSpec, kind: TensorType, groups: Groups, path: str, problems: list[Problem]) -> Layout:
    """How a tensor is cut; what is wrong with that joins the problems."""
    dims: list[tuple[str, ...]] = [()] * len(kind.shape)
    for dim, name in part.split.items():
        here = f"{path}.split.{dim}"
        if dim >= len(dims):
            problems.append(Problem(f"{kind} has no dim {dim}", here))
            continue
        try:
            axes = groups.axes(name, here)
        except PlanError as error:
            problems += error.problems
            continue
        ways = groups.size(axes)
        if kind.shape[dim] % ways:
            quotient = f"{kind.shape[dim]} / {ways} = {kind.shape[dim] / ways:g}"
            problems.append(
                Problem(f"dim {dim} of {kind} does not divide over {ways} ranks: {quotient}", here)
            )
            continue
        used = [axis for other in dims for axis in other]
        if set(used) & set(axes):
            problems.append(Problem(f"'{'+'.join(axes)}' splits two dims", here))
            continue
        dims[dim] = axes
    return Layout(tuple(dims))
