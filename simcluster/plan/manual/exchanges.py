"""Matches sends and receives of all ranks, before local graphs are written."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, Problem
from simcluster.layout import MovementKind
from simcluster.model import Entry
from simcluster.plan.manual.collective_calls import read_call
from simcluster.plan.manual.entries_by_rank import EntriesByRank
from simcluster.plan.manual.exchange_calls import (
    AROUND,
    EXCHANGES,
    NO_NEIGHBOR,
    AllToAllVCall,
    ExchangeCall,
    NeighborExchangeCall,
    NeighborExchangeV2Call,
    ReceiveCall,
    SendCall,
    check_length,
    rank_value,
)
from simcluster.plan.manual.groups import Axes, Groups

End = tuple[int, int]
"""The other rank's position in the group, and a key: it receives under the key under which this
rank sends."""


@dataclass(frozen=True, slots=True)
class Ends:
    """What a rank sends and receives in an exchange, in order."""

    gives: tuple[End, ...]
    """What it sends."""
    gets: tuple[End, ...]
    """What it receives."""
    shape: object = None
    """Arguments on which all ranks of a part have to agree."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange in all groups over some axes."""

    name: str
    """The entry."""
    kind: MovementKind
    """Send and receive, or all-to-all."""
    axes: Axes
    """The axes of its groups."""
    path: str
    """The key path at which it was written."""
    ends: Mapping[int, Ends]
    """Rank -> what it sends and receives."""


@dataclass(frozen=True, slots=True)
class Exchanges:
    """All exchanges of a program."""

    every: tuple[Exchange, ...]
    """The exchanges, in the order in which they are written."""
    at: Mapping[tuple[int, int], int]
    """(rank, position of an entry) -> index of the exchange."""

    @classmethod
    def of(cls, scripts: EntriesByRank, groups: Groups) -> Exchanges:
        """Matches the exchanges of a program; PlanError for a send or receive without its counterpart."""
        exchanges: list[Exchange] = []
        at: dict[tuple[int, int], int] = {}
        for exchange, places in (*_transfers(scripts, groups), *_together(scripts, groups)):
            at |= {(rank, place): len(exchanges) for rank, place in places.items()}
            exchanges.append(exchange)
        return cls(tuple(exchanges), at)

    def details(self) -> dict[tuple[int, int], object]:
        """What distinguishes ranks that run the same entry: the exchange, and the shape of what they send."""
        return {
            (rank, place): (number, len(ends.gives), len(ends.gets), ends.shape)
            for (rank, place), number in self.at.items()
            for ends in (self.every[number].ends[rank],)
        }


# -- sends and receives ------------------------------------------------------------------------------


def _transfers(scripts: EntriesByRank, groups: Groups) -> Iterator[tuple[Exchange, Mapping[int, int]]]:
    """Pairs of ranks that send and receive, those of the same two entries as groups of one name."""
    sent: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    got: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for rank, places in enumerate(scripts.of_rank):
        for place in places:
            entry = scripts.entries[place]
            if entry.op == "send":
                send = read_call(entry, SendCall)
                peer = _peer(entry, rank_value(entry, "to", send.to, rank), rank, groups)
                sent[rank, peer, send.sr_tag].append(place)
            elif entry.op == "receive":
                receive = read_call(entry, ReceiveCall)
                peer = _peer(entry, rank_value(entry, "from", receive.source, rank), rank, groups)
                got[peer, rank, receive.sr_tag].append(place)
    problems = list(_unanswered(scripts, sent, got))
    if problems:
        raise PlanError(*problems)
    pairs: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for key, given in sent.items():
        for both in zip(given, got[key], strict=True):
            pairs[both].append(key[:2])
    for (send_at, receive_at), ranks in sorted(pairs.items()):
        sender, receiver = scripts.entries[send_at], scripts.entries[receive_at]
        for number, chosen in enumerate(_apart(ranks)):
            name = re.sub(r"\W", "_", sender.name) + ">" + re.sub(r"\W", "_", receiver.name)
            axes = groups.made(f"{name}>{number + 1}" if number else name, chosen)
            ends = {source: Ends(((1, 0),), ()) for source, _ in chosen}
            ends |= {target: Ends((), ((0, 0),)) for _, target in chosen}
            here = {source: send_at for source, _ in chosen} | {target: receive_at for _, target in chosen}
            yield Exchange(sender.name, MovementKind.SEND_RECEIVE, axes, sender.path, ends), here


def _peer(entry: Entry, peer: int, rank: int, groups: Groups) -> int:
    """The other rank; PlanError if there is none of the number, or it is the same."""
    if peer >= groups.mesh.num_ranks or peer == rank:
        what = "itself" if peer == rank else f"rank {peer}, and the last is {groups.mesh.num_ranks - 1}"
        raise PlanError(f"'{entry.name}' ({entry.op}): rank {rank} names {what}", path=entry.path)
    return peer


def _unanswered(
    scripts: EntriesByRank,
    sent: Mapping[tuple[int, int, int], Sequence[int]],
    got: Mapping[tuple[int, int, int], Sequence[int]],
) -> Iterator[Problem]:
    """Sends that nobody receives, and receives of what nobody sends."""
    for source, target, tag in sorted({*sent, *got}):
        gives, gets = sent.get((source, target, tag), ()), got.get((source, target, tag), ())
        for entry in (scripts.entries[place] for place in gives[len(gets) :]):
            told = (
                f"rank {source} sends '{entry.name}' to rank {target} (tag {tag}), which receives none of it"
            )
            yield Problem(told, entry.path, "write a receive with the same tag on that rank")
        for entry in (scripts.entries[place] for place in gets[len(gives) :]):
            told = f"rank {target} receives '{entry.name}' from rank {source} (tag {tag}), which sends none"
            yield Problem(told, entry.path, "write a send with the same tag on that rank")


def _apart(pairs: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Pairs in as few lists as can be so that no rank is twice in one."""
    lists: list[list[tuple[int, int]]] = []
    for pair in sorted(pairs):
        free = next(
            (taken for taken in lists if not {*pair} & {rank for other in taken for rank in other}), None
        )
        if free is None:
            lists.append([pair])
        else:
            free.append(pair)
    return lists


# -- exchanges of a whole group ----------------------------------------------------------------------


def _together(scripts: EntriesByRank, groups: Groups) -> Iterator[tuple[Exchange, Mapping[int, int]]]:
    """The exchanges that all members of a group run as one entry."""
    for place, entry in enumerate(scripts.entries):
        if entry.op not in EXCHANGES:
            continue
        call = read_call(entry, EXCHANGES[entry.op])
        axes = groups.axes(call.group, f"{entry.path}.group")
        ends: dict[int, Ends] = {}
        for rank, places in enumerate(scripts.of_rank):
            if place in places:
                row = groups.row(axes, rank)
                if row is None:
                    raise PlanError(
                        f"rank {rank} runs '{entry.name}', but is in no group '{call.group}'", path=entry.path
                    )
                ends[rank] = _ends(entry, call, rank, len(row))
        exchange = Exchange(entry.name, MovementKind.ALL_TO_ALL_V, axes, entry.path, ends)
        _check_answers(entry, exchange, groups)
        yield exchange, dict.fromkeys(ends, place)


def _ends(entry: Entry, call: ExchangeCall, rank: int, size: int) -> Ends:
    """What a rank gives and gets."""
    if isinstance(call, NeighborExchangeCall):
        ends = _listed(entry, call, rank)
    elif isinstance(call, NeighborExchangeV2Call):
        ends = _around(entry, call, rank)
    else:
        assert isinstance(call, AllToAllVCall)
        ends = _parts(entry, call, rank, size)
    for other, _ in (*ends.gives, *ends.gets):
        if not 0 <= other < size:
            raise PlanError(
                f"'{entry.name}' ({entry.op}): rank {rank} names place {other} of a group of {size}",
                path=entry.path,
            )
    return ends


def _listed(entry: Entry, call: NeighborExchangeCall, rank: int) -> Ends:
    gives = rank_value(entry, "send_rank_ids", call.send_rank_ids, rank)
    gets = rank_value(entry, "recv_rank_ids", call.recv_rank_ids, rank)
    shapes = rank_value(entry, "recv_shapes", call.recv_shapes, rank)
    given = None
    if len(shapes) != len(gets):
        raise PlanError(
            f"'{entry.name}' ({entry.op}): {len(shapes)} shapes for what comes from {len(gets)} ranks",
            path=f"{entry.path}.recv_shapes",
        )
    if call.send_shapes is not None:
        given = rank_value(entry, "send_shapes", call.send_shapes, rank)
    return Ends(_numbered(gives), _numbered(gets), (shapes, given))


def _numbered(others: Sequence[int]) -> tuple[End, ...]:
    """Others with a key each: the first tensor for somebody is the first that somebody gets."""
    seen: Counter[int] = Counter()
    numbered = []
    for other in others:
        numbered.append((other, seen[other]))
        seen[other] += 1
    return tuple(numbered)


def _around(entry: Entry, call: NeighborExchangeV2Call, rank: int) -> Ends:
    told = []
    for ids, lens in (("send_rank_ids", "send_lens"), ("recv_rank_ids", "recv_lens")):
        others = rank_value(entry, ids, getattr(call, ids), rank)
        check_length(
            entry, ids, others, AROUND, "one for each neighbour, clockwise from above, -1 for nobody"
        )
        sizes = rank_value(entry, lens, getattr(call, lens), rank)
        check_length(entry, lens, sizes, 4, "top, bottom, left, right")
        told.append((tuple(others), tuple(sizes)))
    (to, given), (source, got) = told
    # What goes up is what comes from below.
    gives = tuple((other, way) for way, other in enumerate(to) if other != NO_NEIGHBOR)
    gets = tuple(
        (other, (way + AROUND // 2) % AROUND) for way, other in enumerate(source) if other != NO_NEIGHBOR
    )
    ways = tuple(other != NO_NEIGHBOR for other in to), tuple(other != NO_NEIGHBOR for other in source)
    return Ends(gives, gets, (ways, given, got))


def _parts(entry: Entry, call: AllToAllVCall, rank: int, size: int) -> Ends:
    told = []
    for key in ("send_numel_list", "recv_numel_list"):
        counts = rank_value(entry, key, getattr(call, key), rank)
        check_length(entry, key, counts, size, "one for each member of the group")
        if min(counts) < 0:
            raise PlanError(f"'{entry.name}' ({entry.op}): a number is negative", path=f"{entry.path}.{key}")
        told.append(tuple(counts))
    gives, gets = (tuple((other, 0) for other, count in enumerate(counts) if count) for counts in told)
    return Ends(gives, gets, tuple(told))


def _check_answers(entry: Entry, exchange: Exchange, groups: Groups) -> None:
    """PlanError for a tensor that one gives and the other does not get, or the other way round."""
    for row in groups.members(exchange.axes).tolist():
        here = {place: exchange.ends[rank] for place, rank in enumerate(row) if rank in exchange.ends}
        given = {(place, other, key) for place, ends in here.items() for other, key in ends.gives}
        got = {(other, place, key) for place, ends in here.items() for other, key in ends.gets}
        for source, target, _ in sorted(given - got):
            raise PlanError(
                f"'{entry.name}' ({entry.op}): rank {row[source]} gives rank {row[target]} a tensor "
                "that it does not get",
                path=entry.path,
            )
        for source, target, _ in sorted(got - given):
            raise PlanError(
                f"'{entry.name}' ({entry.op}): rank {row[target]} gets a tensor from rank {row[source]}, "
                "which does not give it",
                path=entry.path,
            )
