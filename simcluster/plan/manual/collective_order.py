"""Check that all ranks call the same collectives in the same order, before anything runs.

Every rank runs its collectives in the order in which they are written, forward, backward and after the last
micro-batch, and waits in each for all members of the group. If they call different ones, or one never comes,
the program would hang or mix up tensors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, Problem
from simcluster.layout import ROUTED, Mesh, Movement, without_root
from simcluster.model import Block, Graph, Node, Phase, TensorType

_REMEDY = "all members of a group do the same collectives in one order"

_WHEN = {Phase.FORWARD: "", Phase.BACKWARD: " in the backward", Phase.END: " behind the backward"}


@dataclass(frozen=True, slots=True)
class CollectiveArrival:
    """A call of a collective by one rank."""

    name: str
    """The operator."""
    when: str
    """The phase."""
    members: tuple[int, ...]
    """The ranks of the group, ascending."""
    agreed: tuple[tuple[str, str], ...]
    """What all members have to agree on, as (what, value)."""
    path: str
    """The key path at which it was written."""

    def __str__(self) -> str:
        return f"'{self.name}'{self.when}"

    @property
    def group(self) -> str:
        """The name of the group."""
        return dict(self.agreed)["group"]


def check_order(
    graph: Graph, part_of_rank: Sequence[int], mesh: Mesh, paths: Sequence[Mapping[str, str]]
) -> None:
    """PlanError, with ranks, operators and groups, if ranks do not call the same collectives in the same
    order.

    ``paths`` are, for each part, the key paths of its operators.
    """
    blocks = [graph.block_of(instance) for instance in graph.instances]
    rows: dict[tuple[str, ...], dict[int, tuple[int, ...]]] = {}
    ranks: list[list[CollectiveArrival]] = []
    made: list[dict[tuple[str, tuple[int, ...]], CollectiveArrival]] = [{} for _ in blocks]
    for rank, part in enumerate(part_of_rank):
        arrivals = []
        for node in _collectives(blocks[part]):
            assert isinstance(node.operator, Movement)
            axes = node.operator.axes
            if axes not in rows:
                rows[axes] = {member: tuple(row) for row in mesh.groups(axes).tolist() for member in row}
            row = rows[axes].get(rank, ())
            key = node.name, row
            if key not in made[part]:
                path = paths[part].get(node.source, "gradients" if node.phase is Phase.END else "operators")
                made[part][key] = _meeting(blocks[part], node, node.operator, rank, row, mesh, path)
            arrivals.append(made[part][key])
        ranks.append(arrivals)
    problem = _first_fault(ranks)
    if problem is not None:
        raise PlanError(problem)


def _collectives(block: Block) -> Iterator[Node]:
    """The nodes at which ranks meet, in order."""
    for node in block.nodes:
        if isinstance(node.operator, Movement) and node.operator.is_collective:
            yield node


def _meeting(
    block: Block, node: Node, movement: Movement, rank: int, row: tuple[int, ...], mesh: Mesh, path: str
) -> CollectiveArrival:
    """What a rank comes to, ``row`` being its group; PlanError if it is in none."""
    group = "+".join(map(without_root, movement.axes))
    if not row:
        raise PlanError(
            f"rank {rank} runs '{node.name}' ({movement.kind}), but is in no group '{group}'",
            path=path,
            hint="say with ranks which ranks run it, or give them a group",
        )
    agreed = [("operation", str(movement.kind)), ("group", group)]
    if movement.kind in ROUTED:
        agreed.append(("bytes", f"{movement.num_bytes(0, 0, len(row)):,}"))
    else:
        value = block.values[node.inputs[0]]
        assert value.layout is not None
        kind = TensorType(value.layout.local_shape(value.type.shape, mesh), value.type.dtype)
        agreed += [("size", str(kind)), ("reduction", movement.reduction)]
        agreed += [("first rank", str(row[0])), ("dims", f"{movement.dim} and {movement.to_dim}")]
    return CollectiveArrival(node.name, _WHEN.get(node.phase, ""), tuple(sorted(row)), tuple(agreed), path)


def _first_fault(ranks: Sequence[Sequence[CollectiveArrival]]) -> Problem | None:
    """The first place where ranks do not meet, or None if all get through."""
    at = [0] * len(ranks)
    here: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    coming = list(range(len(ranks)))[::-1]
    while coming:
        rank = coming.pop()
        if at[rank] == len(ranks[rank]):
            continue
        members = ranks[rank][at[rank]].members
        here[members].append(rank)
        if len(here[members]) < len(members):
            continue
        arrived = sorted(here.pop(members))
        first = ranks[arrived[0]][at[arrived[0]]]
        for other in arrived:
            there = ranks[other][at[other]]
            if there.agreed != first.agreed:
                return _disagreement(arrived[0], first, other, there)
        for other in arrived:
            at[other] += 1
        coming += arrived[::-1]
    stuck = [rank for rank in range(len(ranks)) if at[rank] < len(ranks[rank])]
    return _wait(ranks, at, stuck[0]) if stuck else None


def _head(
    ranks: Sequence[Sequence[CollectiveArrival]], at: Sequence[int], rank: int
) -> CollectiveArrival | None:
    """What a rank waits in."""
    return ranks[rank][at[rank]] if at[rank] < len(ranks[rank]) else None


def _disagreement(rank: int, here: CollectiveArrival, other: int, there: CollectiveArrival) -> Problem:
    ours, theirs = dict(here.agreed), dict(there.agreed)
    what = next(key for key in ours if ours[key] != theirs.get(key))
    return Problem(
        f"rank {rank} comes to {here} with {what} {ours[what]}, rank {other} of its group '{here.group}' "
        f"to {there} with {what} {theirs.get(what, 'none')}",
        here.path,
        _REMEDY,
    )


def _wait(ranks: Sequence[Sequence[CollectiveArrival]], at: Sequence[int], first: int) -> Problem:
    """Who waits for whom, until somebody is met again or does not come at all."""
    clauses: list[str] = []
    seen: list[int] = []
    rank = first
    while rank not in seen:
        seen.append(rank)
        here = ranks[rank][at[rank]]
        heads = {member: _head(ranks, at, member) for member in here.members}
        late = next(member for member, head in heads.items() if head is None or head.members != here.members)
        clauses.append(f"rank {rank} waits in {here} over group '{here.group}' for rank {late}")
        if heads[late] is None:
            clauses.append(f"which has finished all of its {len(ranks[late])} collectives and never comes")
            break
        rank = late
    else:
        clauses.append(f"and so in a circle: rank {rank} waits already")
    return Problem("; ".join(clauses), ranks[first][at[first]].path, _REMEDY)
