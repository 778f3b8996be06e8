"""Executions of units: when the weights of a block instance are gathered, and its gradients scattered.

Weights are gathered ``prefetch`` units before they are used, in program order, and not before the unit ahead
of those has ended (DESIGN 4.4): so at most ``prefetch + 1`` units are gathered at a time. Gradients are
scattered right behind the backward that makes the last of a bucket, usually those of a unit; the backward
behind the next such one waits for that, as FSDP's does, so that at most two buckets hold whole gradients.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from simcluster.program.isa import BlockExecution
from simcluster.program.lowering import BACKWARD, FORWARD, GATHER, REGATHER, SCATTER, WEIGHTS, phase_of

Codes = Mapping[str, Mapping[str, int]]
"""Instance -> phase -> code."""

Gathers = Mapping[str, Mapping[str, Sequence[BlockExecution]]]
"""Phase -> instance -> the executions that gather its weights; none where an earlier instance's gather them,
absent where nothing is gathered for it."""

Scatters = Mapping[str, BlockExecution | None]
"""Instance -> what scatters gradients behind its backward; None where its own travel with those of a later
backward, absent where it has none."""


def add_unit_executions(
    executions: Sequence[BlockExecution],
    codes: Codes,
    prefetch: int,
    *,
    once: bool = False,
    weights: Gathers | None = None,
    gradients: Scatters | None = None,
    tied: Mapping[str, str] = MappingProxyType({}),
) -> list[BlockExecution]:
    """The executions of a stage with those that gather weights and scatter gradients in their places.

    Weights that are not gathered again for the backward serve the micro-batches under way, or with ``once``
    all of the step. Weights of several units that are gathered together, as ``weights`` says, are so when
    the first is due, and gradients that are scattered together, as ``gradients`` says, when the last is made;
    without these every unit is gathered and scattered by itself. ``tied`` names for instances with copies of
    others' weights the one that holds them: kept weights serve all of these together.
    """
    weights = gather_units_separately(codes) if weights is None else weights
    gradients = scatter_units_separately(codes) if gradients is None else gradients
    if not weights[GATHER] and not gradients:
        return list(executions)
    labelled, gathers = _gathers(executions, codes, weights, once, tied)
    users = [index for index, each in enumerate(executions) if _uses_weights(each, codes, weights)]
    due: dict[int, list[int]] = defaultdict(list)
    for number, index in enumerate(users):
        if index in gathers:
            due[users[max(0, number - prefetch)]].append(number)
    line = _Line()
    shared = _Shared.of(codes, tied)
    for index, each in enumerate(labelled):
        for number in due.get(index, ()):
            before = number - prefetch - 1
            after = ((line.place[users[before]], 0),) if before >= 0 else ()
            for gather in gathers[users[number]]:
                line.add(replace(gather, after=after))
        line.place[index] = len(line.made)
        if (each.instance in gradients or each.instance in shared.holder) and _is_last(each, codes):
            due_now = shared.complete(each)
            line.backward(each, [run for name in due_now if (run := gradients.get(name)) is not None])
        else:
            line.add(each)
    return line.made


def gather_units_separately(codes: Codes) -> Gathers:
    """Every unit is gathered by itself, by the codes of its own instance."""
    return {
        phase: {
            name: [BlockExecution(mine[phase], name, -1, phase)]
            for name, mine in codes.items()
            if phase in mine
        }
        for phase in (GATHER, REGATHER)
    }


def scatter_units_separately(codes: Codes) -> Scatters:
    """Every unit's gradients are scattered by themselves, by the codes of its own instance."""
    return {
        name: BlockExecution(mine[SCATTER], name, -1, SCATTER)
        for name, mine in codes.items()
        if SCATTER in mine
    }


@dataclass
class _Line:
    """The executions so far, where the given ones stand among them, and where gradients were scattered."""

    made: list[BlockExecution] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)
    scatters: list[int] = field(default_factory=list)

    def add(self, each: BlockExecution) -> None:
        """The next execution."""
        self.made.append(each)

    def backward(self, each: BlockExecution, scatters: Sequence[BlockExecution]) -> None:
        """The next backward, behind the scatter before the last, and the scatters that it completes."""
        self.add(replace(each, after=((self.scatters[-2], 0),)) if len(self.scatters) > 1 else each)
        for scatter in scatters:
            self.scatters.append(len(self.made))
            self.add(replace(scatter, micro_batch=each.micro_batch, action=each.action))


@dataclass
class _Shared:
    """Whose gradients are complete: those of a tied parameter when all its copies have added theirs.

    ``holder`` names for every instance with a copy the one that holds it; ``members`` are all of these.
    """

    holder: Mapping[str, str]
    members: Mapping[str, set[str]]
    done: defaultdict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, codes: Codes, tied: Mapping[str, str]) -> _Shared:
        holder = {**tied, **{name: name for name in tied.values()}}
        members: defaultdict[str, set[str]] = defaultdict(set)
        for name, whose in holder.items():
            if not {BACKWARD, WEIGHTS}.isdisjoint(codes.get(name, ())):
                members[whose].add(name)
        return cls(holder, members)

    def complete(self, each: BlockExecution) -> list[str]:
        """The instances whose gradients of a micro-batch are complete with the end of a backward."""
        name = each.instance
        if name not in self.holder:
            return [name]
        holder = self.holder[name]
        done = self.done[holder, each.micro_batch]
        done.add(name)
        own = [name] if name != holder else []
        return own + [holder] * (done == self.members[holder])


def _is(each: BlockExecution, phase: str, codes: Codes) -> bool:
    return codes.get(each.instance, {}).get(phase) == each.code


def _is_backward(each: BlockExecution, codes: Codes) -> bool:
    """Whether it is the backward of an instance, or its first half if it has one."""
    mine = codes.get(each.instance, {})
    return mine.get(BACKWARD, mine.get(WEIGHTS)) == each.code


def _is_last(each: BlockExecution, codes: Codes) -> bool:
    """Whether it is the end of an instance's backward, or of its second half if it has one."""
    mine = codes.get(each.instance, {})
    for phase in (WEIGHTS, BACKWARD):
        if phase in mine:
            return [code for name, code in mine.items() if phase_of(name) == phase][-1] == each.code
    return False


def _uses_weights(each: BlockExecution, codes: Codes, weights: Gathers) -> bool:
    return each.instance in weights[GATHER] and (_is(each, FORWARD, codes) or _is_backward(each, codes))


def _gathers(
    executions: Sequence[BlockExecution], codes: Codes, weights: Gathers, once: bool, tied: Mapping[str, str]
) -> tuple[list[BlockExecution], dict[int, list[BlockExecution]]]:
    """The executions, labelled with the gather whose kept weights they use; index -> gathers before it."""
    gathers: dict[int, list[BlockExecution]] = {}
    flying: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    gathered: defaultdict[str, set[str]] = defaultdict(set)
    label: dict[str, int] = {}
    kept_for: dict[tuple[str, int], int] = {}
    cut = {name: {code for phase, code in mine.items() if "." in phase} for name, mine in codes.items()}
    labelled = []
    for index, each in enumerate(executions):
        if _uses_weights(each, codes, weights):
            again = each.instance in weights[REGATHER]
            forward = _is(each, FORWARD, codes)
            holder = tied.get(each.instance, each.instance)
            if forward and not (holder in label if once else flying[holder]):
                label[holder] = each.micro_batch
                gathered[holder].clear()
            kept = label[holder]
            mine = weights[GATHER if forward else REGATHER].get(each.instance, ())
            if again or each.instance not in gathered[holder]:
                gathered[holder].add(each.instance)
                gathers[index] = [
                    replace(run, micro_batch=each.micro_batch, action=each.action, gathered=kept)
                    for run in mine
                ]
            under_way = (each.instance, each.micro_batch)
            (flying[holder].add if forward else flying[holder].discard)(under_way)
            kept_for[under_way] = kept
            each = replace(each, gathered=kept)
        elif each.code in cut.get(each.instance, ()) and (each.instance, each.micro_batch) in kept_for:
            each = replace(each, gathered=kept_for[each.instance, each.micro_batch])
        labelled.append(each)
    return labelled, gathers
