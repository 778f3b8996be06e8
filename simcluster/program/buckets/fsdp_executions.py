"""FSDP units: when the weights of an instance are all-gathered, and its gradients reduce-scattered.

Weights are gathered ``prefetch`` units before they are used, in program order, and not before the unit ahead
of those has ended (DESIGN 4.4): so at most ``prefetch + 1`` units are gathered at a time. Gradients are
scattered right behind the backward that makes the last of a bucket, usually those of a unit; the backward
behind the next such one waits for that, as FSDP's does, so that at most two buckets hold whole gradients.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType

from simcluster.deferred_dataclass import dataclass
from simcluster.program.isa import BlockExecution, Executions
from simcluster.program.lowering import (
    BACKWARD,
    FORWARD,
    GATHER,
    REGATHER,
    SCATTER,
    WEIGHTS,
    SegmentName,
    phase_of,
)

Codes = Mapping[str, Mapping[str, int]]
"""Instance -> phase -> code."""

Gathers = Mapping[str, Mapping[str, Sequence[BlockExecution]]]
"""Phase -> instance -> the executions that gather its weights; none where an earlier instance's gather them,
absent where nothing is gathered for it."""

Scatters = Mapping[str, BlockExecution | None]
"""Instance -> what scatters gradients behind its backward; None where its own travel with those of a later
backward, absent where it has none."""


def add_unit_executions(
    executions: Executions,
    codes: Codes,
    prefetch: int,
    *,
    once: bool = False,
    weights: Gathers | None = None,
    gradients: Scatters | None = None,
    tied: Mapping[str, str] = MappingProxyType({}),
) -> Executions:
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
        return executions
    labelled, gathers = _gathers(executions.objects, codes, weights, once, tied)
    users = [
        index
        for index, execution in enumerate(executions.objects)
        if _uses_weights(execution, codes, weights)
    ]
    due: dict[int, list[int]] = defaultdict(list)
    for number, index in enumerate(users):
        if index in gathers:
            due[users[max(0, number - prefetch)]].append(number)
    line = _Line()
    shared = _Shared.of(codes, tied)
    for index, execution in enumerate(labelled):
        for number in due.get(index, ()):
            before = number - prefetch - 1
            after = ((line.place[users[before]], 0),) if before >= 0 else ()
            for gather in gathers[users[number]]:
                line.add(replace(gather, after=after))
        line.place[index] = len(line.made)
        if (execution.instance in gradients or execution.instance in shared.holder) and _is_last(
            execution, codes
        ):
            due_now = shared.complete(execution)
            line.backward(execution, [run for name in due_now if (run := gradients.get(name)) is not None])
        else:
            line.add(execution)
    return Executions.of(line.made)


def gather_units_separately(codes: Codes) -> Gathers:
    """Phase -> instance -> its own all-gather: no unit shares a bucket."""
    return {
        phase: {
            name: [BlockExecution(own_codes[phase], name, -1, phase)]
            for name, own_codes in codes.items()
            if phase in own_codes
        }
        for phase in (GATHER, REGATHER)
    }


def scatter_units_separately(codes: Codes) -> Scatters:
    """Instance -> its own reduce-scatter: no unit shares a bucket."""
    return {
        name: BlockExecution(own_codes[SCATTER], name, -1, SCATTER)
        for name, own_codes in codes.items()
        if SCATTER in own_codes
    }


@dataclass
class _Line:
    """The executions so far, where the given ones stand among them, and where gradients were scattered."""

    made: list[BlockExecution] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)
    scatters: list[int] = field(default_factory=list)

    def add(self, execution: BlockExecution) -> None:
        """The next execution."""
        self.made.append(execution)

    def backward(self, execution: BlockExecution, scatters: Sequence[BlockExecution]) -> None:
        """The next backward, behind the scatter before the last, and the scatters that it completes."""
        self.add(replace(execution, after=((self.scatters[-2], 0),)) if len(self.scatters) > 1 else execution)
        for scatter in scatters:
            self.scatters.append(len(self.made))
            self.add(replace(scatter, micro_batch=execution.micro_batch, action=execution.action))


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

    def complete(self, execution: BlockExecution) -> list[str]:
        """The instances whose gradients of a micro-batch are complete with the end of a backward."""
        name = execution.instance
        if name not in self.holder:
            return [name]
        holder = self.holder[name]
        done = self.done[holder, execution.micro_batch]
        done.add(name)
        own = [name] if name != holder else []
        return own + [holder] * (done == self.members[holder])


def _is(execution: BlockExecution, phase: str, codes: Codes) -> bool:
    return codes.get(execution.instance, {}).get(phase) == execution.code


def _is_backward(execution: BlockExecution, codes: Codes) -> bool:
    """Whether it is the backward of an instance, or its first half if it has one."""
    own_codes = codes.get(execution.instance, {})
    return own_codes.get(BACKWARD, own_codes.get(WEIGHTS)) == execution.code


def _is_last(execution: BlockExecution, codes: Codes) -> bool:
    """Whether it is the end of an instance's backward, or of its second half if it has one."""
    own_codes = codes.get(execution.instance, {})
    for phase in (WEIGHTS, BACKWARD):
        if phase in own_codes:
            return [code for name, code in own_codes.items() if phase_of(name) == phase][-1] == execution.code
    return False


def _uses_weights(execution: BlockExecution, codes: Codes, weights: Gathers) -> bool:
    return execution.instance in weights[GATHER] and (
        _is(execution, FORWARD, codes) or _is_backward(execution, codes)
    )


def _gathers(
    executions: Sequence[BlockExecution], codes: Codes, weights: Gathers, once: bool, tied: Mapping[str, str]
) -> tuple[list[BlockExecution], dict[int, list[BlockExecution]]]:
    """The executions, labelled with the gather whose kept weights they use; index -> gathers before it."""
    gathers: dict[int, list[BlockExecution]] = {}
    flying: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    gathered: defaultdict[str, set[str]] = defaultdict(set)
    label: dict[str, int] = {}
    kept_for: dict[tuple[str, int], int] = {}
    cut = {
        name: {code for phase, code in own_codes.items() if isinstance(phase, SegmentName)}
        for name, own_codes in codes.items()
    }
    labelled = []
    for index, execution in enumerate(executions):
        if _uses_weights(execution, codes, weights):
            again = execution.instance in weights[REGATHER]
            forward = _is(execution, FORWARD, codes)
            holder = tied.get(execution.instance, execution.instance)
            if forward and not (holder in label if once else flying[holder]):
                label[holder] = execution.micro_batch
                gathered[holder].clear()
            kept = label[holder]
            runs = weights[GATHER if forward else REGATHER].get(execution.instance, ())
            if again or execution.instance not in gathered[holder]:
                gathered[holder].add(execution.instance)
                gathers[index] = [
                    replace(
                        run,
                        micro_batch=execution.micro_batch,
                        action=execution.action,
                        weights_of_micro_batch=kept,
                    )
                    for run in runs
                ]
            under_way = (execution.instance, execution.micro_batch)
            (flying[holder].add if forward else flying[holder].discard)(under_way)
            kept_for[under_way] = kept
            execution = replace(execution, weights_of_micro_batch=kept)
        elif (
            execution.code in cut.get(execution.instance, ())
            and (execution.instance, execution.micro_batch) in kept_for
        ):
            execution = replace(
                execution, weights_of_micro_batch=kept_for[execution.instance, execution.micro_batch]
            )
        labelled.append(execution)
    return labelled, gathers
