"""Autodiff across ranks: exchanges between the local graphs of different ranks are differentiated as one
graph.

For a part (ranks that run the same), what it sends is an output of its graph and what it receives is an
input; gradients go the other way. A gradient comes back for what depends on a parameter on any rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Movement, MovementKind, RoutedTransfer, rooted_groups
from simcluster.model import Block, Graph, Instance, Node, Phase, Role, TensorType, Value
from simcluster.plan.autodiff import differentiate, gradient_name, values_needing_gradients
from simcluster.plan.manual.exchange_ends import PlacedEnd
from simcluster.plan.manual.exchanges import Exchange
from simcluster.plan.manual.groups import Groups
from simcluster.work import DType

Spot = tuple[int, str]
"""A part, and the name of a value in it."""


@dataclass(frozen=True, slots=True)
class ExchangeLink:
    """One tensor of an exchange, from its sender to its receiver."""

    exchange: int
    """The index of the exchange."""
    source: Spot
    """The part that sends, and the value there."""
    target: Spot
    """The part that receives, and the value there."""
    route: RoutedTransfer
    """The members of the group, and the positions among what they send and receive."""


@dataclass
class ExchangeDifferentiator:
    """Differentiates the local graphs of all parts, with their exchanges."""

    blocks: Sequence[Block]
    """The forward block of every part."""
    placed_ends: Sequence[Sequence[PlacedEnd]]
    """The exchanges in the order in which each part runs them."""
    exchanges: Sequence[Exchange]
    """All exchanges of the program."""
    part_of_rank: Sequence[int]
    """The part of every rank."""
    groups: Groups
    """The groups of ranks."""
    gradients: DType
    """The format of accumulated gradients."""

    def run(self) -> list[Block]:
        """The differentiated blocks with their exchanges; PlanError for tensors that do not fit."""
        self.links = list(self._links())
        self.needed = self._needed()
        self.returned = set(self.needed)
        while True:
            made = self._differentiated()
            answered = {(part, value) for part, value in self.returned if value in made[part].gradients}
            if answered == self.returned:
                break
            self.returned = answered
        return [self._block(part, block) for part, block in enumerate(made)]

    # -- who gives what to whom -------------------------------------------------------------------------

    def _links(self) -> Iterator[ExchangeLink]:
        """Every tensor on its way; groups of one name must exchange alike."""
        ends = [{end.number: end for end in part} for part in self.placed_ends]
        for number, exchange in enumerate(self.exchanges):
            seen: list[tuple[RoutedTransfer, ...]] = []
            for row in self.groups.members(exchange.axes).tolist():
                links = list(self._of_group(number, exchange, row, ends))
                routes = tuple(sorted((link.route for link in links), key=_order))
                if seen and routes != seen[0]:
                    raise PlanError(
                        f"'{exchange.name}': the groups '{'+'.join(exchange.axes)}' do not exchange alike",
                        path=exchange.path,
                        hint="give them names of their own, and an operator each",
                    )
                seen.append(routes)
                yield from links
            if not seen or not seen[0]:
                raise PlanError(f"'{exchange.name}' brings nothing to anybody", path=exchange.path)

    def _of_group(
        self, number: int, exchange: Exchange, row: Sequence[int], ends: Sequence[Mapping[int, PlacedEnd]]
    ) -> Iterator[ExchangeLink]:
        for place, rank in enumerate(row):
            if rank not in exchange.ends:
                continue
            for given, (other, key) in enumerate(exchange.ends[rank].gives):
                got = exchange.ends[row[other]].gets.index((place, key))
                parts = self.part_of_rank[rank], self.part_of_rank[row[other]]
                source = ends[parts[0]][number].given[given]
                target = ends[parts[1]][number].got[got]
                kinds = self._kind(parts[0], source), self._kind(parts[1], target)
                if kinds[0] != kinds[1]:
                    raise PlanError(
                        f"'{exchange.name}': rank {rank} gives {kinds[0]}, rank {row[other]} gets {kinds[1]}",
                        path=exchange.path,
                    )
                route = RoutedTransfer(place, given, other, got, kinds[0].num_bytes)
                yield ExchangeLink(number, (parts[0], source), (parts[1], target), route)

    def _kind(self, part: int, value: str) -> TensorType:
        return self.blocks[part].values[value].type

    # -- what has gradients -----------------------------------------------------------------------------

    def _needed(self) -> set[Spot]:
        """What parts get that depends on a parameter somewhere."""
        received: set[Spot] = set()
        while True:
            needed = [
                values_needing_gradients(block, tuple(value for part, value in received if part == number))
                for number, block in enumerate(self.blocks)
            ]
            self.dependent = {(number, value) for number, values in enumerate(needed) for value in values}
            more = {link.target for link in self.links if link.source in self.dependent} - received
            if not more:
                return received
            received |= more

    def _differentiated(self) -> list[Block]:
        """All blocks, in which gradients come back for what leads to one."""
        self.answered: set[Spot] = set()
        for part, placed_ends in enumerate(self.placed_ends):
            for value in (value for end in placed_ends for value in end.given):
                back = {link.target in self.returned for link in self.links if link.source == (part, value)}
                if len(back) > 1:
                    raise PlanError(
                        f"a gradient comes back for '{value}' to some of the ranks that give it only",
                        path="operators",
                        hint="let all ranks that get it use it for their loss",
                    )
                if back == {True} and (part, value) in self.dependent:
                    self.answered.add((part, value))
        made = []
        for part, block in enumerate(self.blocks):
            inputs = tuple(value for value in block.inputs if (part, value) in self.needed)
            outputs = tuple(
                value
                for end in self.placed_ends[part]
                for value in end.given
                if (part, value) in self.answered
            )
            own = replace(block, inputs=inputs, outputs=outputs)
            bound = tuple(f"given:{value}" for value in inputs)
            graph = Graph({block.name: own}, (Instance(block.name, block.name, bound),))
            made.append(differentiate(graph, self.gradients).blocks[block.name])
        return made

    # -- weaving ----------------------------------------------------------------------------------------

    def _block(self, part: int, block: Block) -> Block:
        """The block with its ends of exchanges, forward and backward, and nothing that comes or leaves."""
        forward = [node for node in block.nodes if node.phase is Phase.FORWARD]
        backward = [node for node in block.nodes if node.phase is Phase.BACKWARD]
        places = {node.name: place for place, node in enumerate(forward)}
        values = dict(block.values)
        gradients = dict(block.gradients)
        ahead = _places(backward, places)
        for end in reversed(self.placed_ends[part]):
            back = self._back(part, end, block, values)
            sums = {f"{value}.grad_sum" for value in end.got}
            early = [node for node in backward if node.name in sums]
            rest = [(node, at) for node, at in zip(backward, ahead, strict=True) if node.name not in sums]
            cut = next((at for at, (_, place) in enumerate(rest) if place < end.position), len(rest))
            inserted = [*early, *([back] if back else [])]
            backward = [*(node for node, _ in rest[:cut]), *inserted, *(node for node, _ in rest[cut:])]
            at = [place for _, place in rest]
            ahead = [*at[:cut], *[end.position] * len(inserted), *at[cut:]]
        for end in reversed(self.placed_ends[part]):
            forward.insert(end.position, self._there(end))
        for value in (*block.inputs, *block.outputs):
            gradients.pop(value, None)
        return replace(
            block,
            inputs=(),
            outputs=(),
            values=values,
            nodes=(*forward, *backward),
            gradients=gradients,
        )

    def _there(self, each: PlacedEnd) -> Node:
        """The exchange as a rank runs it forward."""
        exchange = self.exchanges[each.number]
        routes = {link.route for link in self.links if link.exchange == each.number}
        movement = Movement(exchange.kind, exchange.axes, routes=tuple(sorted(routes, key=_order)))
        return Node(each.name, movement, each.given, each.got, why="as the program says")

    def _back(self, part: int, each: PlacedEnd, block: Block, values: dict[str, Value]) -> Node | None:
        """The exchange of gradients as a rank runs it, if there are any in it."""
        exchange = self.exchanges[each.number]
        links = [link for link in self.links if link.exchange == each.number and link.target in self.returned]
        if not links:
            return None
        gives = [value for value in each.got if (part, value) in self.returned]
        gets = [value for value in each.given if any(link.source == (part, value) for link in links)]
        names = []
        for value in gets:
            name = gradient_name(value)
            if name not in values:  # nobody asked for it: what was given depends on no parameter here
                values[name] = Value(values[value].type, Role.GRADIENT)
            names.append(name)
        axes = exchange.axes
        if exchange.kind is MovementKind.SEND_RECEIVE:
            lists = self.groups.members(axes)[:, ::-1].tolist()
            axes = self.groups.made(rooted_groups(axes[:1], 1), lists)
        movement = Movement(exchange.kind, axes, routes=self._reversed(each.number, links))
        why = f"the gradient of {each.name}"
        inputs = tuple(block.gradients[value] for value in gives)
        return Node(
            f"{each.name}.grad", movement, inputs, tuple(names), Phase.BACKWARD, origin=each.name, why=why
        )

    def _reversed(self, number: int, links: Sequence[ExchangeLink]) -> tuple[RoutedTransfer, ...]:
        """The routes back: of all ends, only those values count that have gradients."""
        turned = self.exchanges[number].kind is MovementKind.SEND_RECEIVE
        routes = set()
        for link in links:
            route = link.route
            gives = self._position(number, link.target, {other.target for other in links}, got=True)
            gets = self._position(number, link.source, {other.source for other in links}, got=False)
            places = (0, 1) if turned else (route.receiver, route.sender)
            routes.add(RoutedTransfer(places[0], gives, places[1], gets, route.num_bytes))
        return tuple(sorted(routes, key=_order))

    def _position(self, number: int, spot: Spot, among: set[Spot], *, got: bool) -> int:
        """The place of a value among those of its end that have gradients."""
        part, value = spot
        (end,) = (candidate for candidate in self.placed_ends[part] if candidate.number == number)
        values = [name for name in (end.got if got else end.given) if (part, name) in among]
        return values.index(value)


def _order(route: RoutedTransfer) -> tuple[int, int, int, int]:
    return route.sender, route.given, route.receiver, route.got


def _places(backward: Sequence[Node], places: Mapping[str, int]) -> list[int]:
    """Behind how many forward nodes each backward node belongs; a sum belongs to whoever reads it next."""
    origins: list[int] = []
    last = -1
    for node in reversed(backward):
        last = places.get(node.origin, last)
        origins.append(last)
    return origins[::-1]
