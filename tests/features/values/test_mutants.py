"""Broken Programs that verify must catch: each mutant computes something else, or reads what is not there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from simcluster.engine import Workload, run
from simcluster.layout import Layout, Movement, MovementKind
from simcluster.model import Operator
from simcluster.plan import make_plan
from simcluster.program import COMPUTE, Call, Executions, InstructionKind, Scope, build, partition_ranks
from simcluster.program.communication.host_calls import HostCalls
from simcluster.simulation.recording import record_run
from simcluster.simulation.verification.single_device_comparison import compare_values
from simcluster.values.events import replay_events
from tests.support.changed_programs import with_code, with_instruction
from tests.support.covering import quick
from tests.support.scenarios import TINY, TINY_GPT, scenario, under

MESH = {"pipeline": 2, "data": 2, "tensor": 2}
LLAMA, GPT = {**TINY, "layers": 2}, {**TINY_GPT, "layers": 2}
TINY_T5 = {"family": "t5", "encoder_layers": 1, "decoder_layers": 3, "hidden": 32, "heads": 4, "vocab": 64}
PLANS = {
    "megatron": {"recipe": "megatron"},
    "megatron_sp zero": {"recipe": "megatron_sp", "optimizer_sharding": {"zero": 1}},
    "tied": {"recipe": "megatron_sp", "model": GPT},
    "lamb clipped": {
        "recipe": "megatron",
        "model": GPT,
        "optimizer_sharding": {"zero": 1},
        "training": {"optimizer": {"kind": "lamb", "weight_decay": 0.1, "clip": 0.05}},
    },
    "fp8": {
        "recipe": "megatron_sp",
        "host": "dgx-h100",
        "training": {"precision": {"compute": "bf16", "matmul": "fp8", "fp8": {"communication": "fp8"}}},
    },
    "pangu": {"recipe": "pangu", "model": GPT},
    "fsdp": {"recipe": "megatron", "optimizer_sharding": "fsdp"},
    "kept": {"model": GPT, "optimizer_sharding": {"fsdp": {"reshard_after_forward": False}}},
    "level3": {"optimizer_sharding": {"mindspore": "level3", "min_bytes": "0 B"}},
    "zero 2": {"optimizer_sharding": {"zero": 2}},
    "t5": {"recipe": "megatron", "model": TINY_T5},
}
BUCKETS = {"buckets": {"recipe": "megatron_sp", "model": GPT}}
SWITCHES = {
    "buckets": {
        "reduction": {"bucket": "whole", "limit": {"bytes": "5 kB"}, "copies": True},
        "accumulate": [],
        "weights": "cast_twice",
        "p2p_scatter": True,
    }
}


UNITS = ("gather", "regather", "scatter")


@cache
def planned(name):
    which = under(
        scenario(MESH, micro_batches=3, **{"model": LLAMA, **(PLANS | BUCKETS)[name]}),
        **SWITCHES.get(name, {}),
    )
    spec = which.spec
    optimizer = spec.training.optimizer.model_copy(update={"eps": 1e-3, "learning_rate": 0.01})
    training = spec.training.model_copy(update={"optimizer": optimizer})
    plan = make_plan(which.model, training, spec.parallel, which.framework, which.cluster)
    return plan, which.cluster


@cache
def program_of(name):
    return build(planned(name)[0])


def is_caught(name, mutate):
    plan, cluster = planned(name)
    comparisons, fault = compare_values(plan, cluster, "float64", 0, mutate(build(plan)))
    return bool(fault) or any(not each.agrees for each in comparisons)


@dataclass(frozen=True)
class Pretend(Operator):
    """What a rank would have if a collective had not happened."""

    movement: Movement
    shape: tuple[int, ...]
    kind = "pretend"
    family = "test"

    def infer(self, inputs):
        raise NotImplementedError

    def dims(self):
        raise NotImplementedError

    def work(self, inputs, outputs, *, accumulate=False):
        return ()

    def evaluate(self, inputs, region):
        return (np.resize(inputs[0], self.shape),)


def collectives(name, kinds=None):
    """Every collective of a plan: (code, instruction, label)."""
    program = program_of(name)
    return [
        (code, index)
        for code, each in enumerate(program.codes)
        for index, instruction in enumerate(each.instructions)
        if instruction.action is InstructionKind.COLLECTIVE
        and (kinds is None or instruction.operation in kinds)
    ]


def labelled(name, wanted=lambda instruction: True):
    """The collectives of a plan; of one with units, theirs, the others being those of the plans without.

    What is gathered again for the backward of the embedding is gathered for nothing: its values are unread.
    """
    units = {phase for phase in UNITS for code in program_of(name).codes if code.phase == phase}
    codes = program_of(name).codes
    return [
        pytest.param(
            name, code, index, id=f"{name}-{codes[code].name}.{codes[code].instructions[index].name}"
        )
        for code, index in collectives(name)
        if wanted(codes[code].instructions[index])
        and (not units or codes[code].phase in units)
        and codes[code].name != "embedding.regather"
    ]


@pytest.mark.parametrize("name", quick(PLANS | BUCKETS, "megatron", "megatron_sp zero", "buckets", "t5"))
def test_the_unchanged_plans_agree(name):
    assert not is_caught(name, lambda program: program)


def first_of_each_kind(name):
    """The collectives of a plan: one of each operation, group and phase; the others are exhaustive."""
    codes, known = program_of(name).codes, Counter()
    for case in labelled(name):
        code, index = case.values[1:]
        instruction = codes[code].instructions[index]
        kind = codes[code].phase, instruction.operation, instruction.group
        known[kind] += 1
        mark = pytest.mark.thorough if known[kind] == 1 else pytest.mark.exhaustive
        yield pytest.param(*case.values, id=case.id, marks=mark)


@pytest.mark.parametrize(
    ("name", "code", "index"), [case for name in PLANS for case in first_of_each_kind(name)]
)
def test_a_collective_that_did_not_happen(name, code, index):
    def drop(program):
        each = program.codes[code].instructions[index]
        slots = program.codes[code].slots
        calls = tuple(
            Call(
                call.name,
                Pretend(call.operator, slots[call.outputs[0]].type.shape),
                call.inputs,
                call.outputs,
                adds=call.adds,
            )
            for call in each.calls
        )
        gone = replace(
            each,
            action=InstructionKind.COMPUTE,
            stream=COMPUTE,
            calls=calls,
            operation="",
            group=(),
            num_bytes=0,
        )
        return with_instruction(program, code, index, gone)

    assert is_caught(name, drop)


OTHER = {"data": "tensor", "tensor": "data"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "code", "index"), labelled("megatron_sp zero", lambda each: len({*each.group} & {*OTHER}) == 1)
)
def test_a_collective_over_the_wrong_group(name, code, index):
    def swap(program):
        each = program.codes[code].instructions[index]
        group = tuple(OTHER.get(axis, axis) for axis in each.group)
        calls = tuple(replace(call, operator=replace(call.operator, axes=group)) for call in each.calls)
        return with_instruction(program, code, index, replace(each, group=group, calls=calls))

    assert is_caught(name, swap)


def test_micro_batches_that_change_places():
    """The last stage takes its micro-batches in another order than they arrive."""

    def shift(program):
        stage = program.parts[1]
        swapped = {0: 1, 1: 0}
        kernels = [
            any(each.action is InstructionKind.COMPUTE for each in program.codes[execution.code].instructions)
            for execution in stage.executions
        ]
        executions = tuple(
            replace(execution, micro_batch=swapped.get(execution.micro_batch, execution.micro_batch))
            if kernel
            else execution
            for execution, kernel in zip(stage.executions, kernels, strict=True)
        )
        return replace(program, parts=(program.parts[0], replace(stage, columns=Executions.of(executions))))

    assert is_caught("megatron", shift)


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_one_micro_batch_twice_and_another_never(phase):
    def shift(program):
        stage = program.parts[0]
        executions = tuple(
            replace(execution, micro_batch=1)
            if program.codes[execution.code].phase == phase and execution.micro_batch == 0
            else execution
            for execution in stage.executions
        )
        return replace(program, parts=(replace(stage, columns=Executions.of(executions)), program.parts[1]))

    assert is_caught("megatron", shift)


def sliced_weights(name):
    program = program_of(name)
    return [
        (stage, index)
        for stage, each in enumerate(program.parts)
        for index, resident in enumerate(each.residents)
        if resident.origin and any(axes for axes in resident.layout.dims)
    ]


def test_every_weight_that_is_sliced_wrongly():
    found = sliced_weights("megatron")
    assert found
    for stage, index in found[:: max(1, len(found) // 3)]:

        def misslice(program, stage=stage, index=index):
            residents = list(program.parts[stage].residents)
            layout = residents[index].layout
            dims = tuple(tuple({"tensor": "data"}.get(axis, axis) for axis in axes) for axes in layout.dims)
            residents[index] = replace(residents[index], layout=Layout(dims))
            stages = list(program.parts)
            stages[stage] = replace(stages[stage], residents=tuple(residents))
            return replace(program, parts=tuple(stages))

        assert is_caught("megatron", misslice)


def early_releases(name):
    """(code, slot, first reader, last reader) of every local buffer with two readers on one stream."""
    found = []
    for code, each in enumerate(program_of(name).codes):
        for slot, kind in enumerate(each.slots):
            readers = [i for i, instruction in enumerate(each.instructions) if slot in instruction.reads]
            droppers = [i for i, instruction in enumerate(each.instructions) if slot in instruction.last_uses]
            if (
                kind.scope is Scope.LOCAL
                and len(droppers) == 1
                and len(readers) > 1
                and readers[0] < droppers[0]
            ):
                found.append((code, slot, readers[0], droppers[0]))
    return found


def test_a_buffer_that_is_released_early():
    found = early_releases("megatron_sp zero")
    assert len(found) >= 3
    for code, slot, first, last in found:

        def release(program, code=code, slot=slot, first=first, last=last):
            early = program.codes[code].instructions[first]
            late = program.codes[code].instructions[last]
            program = with_instruction(
                program, code, first, replace(early, last_uses=(*early.last_uses, slot))
            )
            kept = tuple(each for each in late.last_uses if each != slot)
            return with_instruction(program, code, last, replace(late, last_uses=kept))

        assert is_caught("megatron_sp zero", release)


def test_an_activation_that_is_released_before_its_backward():
    program = program_of("megatron")
    code = next(i for i, each in enumerate(program.codes) if each.name == "layer.forward")
    slots = program.codes[code].slots
    backward = next(i for i, each in enumerate(program.codes) if each.name == "layer.backward")
    dropped = {
        program.codes[backward].slots[s].name
        for each in program.codes[backward].instructions
        for s in each.last_uses
    }
    saved = [i for i, slot in enumerate(slots) if slot.scope is Scope.MICRO_BATCH and slot.name in dropped]
    assert saved

    def release(program):
        last = len(program.codes[code].instructions) - 1
        each = program.codes[code].instructions[last]
        program = with_instruction(program, code, last, replace(each, last_uses=(*each.last_uses, saved[0])))
        # The backward no longer drops it, so that the count of references stays what it was.
        name = slots[saved[0]].name
        later = program.codes[backward]
        instructions = tuple(
            replace(i, last_uses=tuple(s for s in i.last_uses if later.slots[s].name != name))
            for i in later.instructions
        )
        return with_code(program, backward, replace(later, instructions=instructions))

    assert is_caught("megatron", release)


def started(name, program):
    """(rank, execution, instruction) -> when it started and ended, of every instruction of one step."""
    plan, cluster = planned(name)
    classes = partition_ranks(program, cluster, unfold=True)
    timing = run(
        Workload(
            program,
            cluster,
            classes,
            dispatch=plan.execution.dispatch,
            algorithms=plan.execution.algorithms,
            host=HostCalls.of(plan),
        )
    )
    parts = [program.part_of(rank) for rank in classes.representatives]
    happened = replay_events(program, record_run(program, parts, timing.classes).table())
    return {(each.rank, each.number, id(each.instruction)): (each.start, each.end) for each in happened}


def too_early(name):
    """Programs in which an instruction no longer waits for a collective, and so starts while it runs."""
    program = program_of(name)
    for code, each in enumerate(program.codes):
        for index, reader in enumerate(each.instructions):
            for other in reader.after:
                collective = each.instructions[other]
                read = {*collective.writes} & {*reader.reads}
                if collective.action is not InstructionKind.COLLECTIVE or not read:
                    continue
                rest = tuple(before for before in reader.after if before != other)
                free = replace(reader, after=rest)
                changed = with_instruction(program, code, index, free)
                times = started(name, changed)
                pairs = [
                    (times[rank, number, id(collective)], start)
                    for (rank, number, which), (start, _) in times.items()
                    if which == id(free)
                ]
                if all(first < start < last for (first, last), start in pairs):
                    yield f"{each.name}.{reader.name}", changed


@pytest.mark.parametrize("name", quick(["megatron", "megatron_sp zero"], "megatron"))
def test_what_starts_while_a_collective_runs_cannot_read_its_result(name):
    found = dict(too_early(name))
    assert len(found) >= 3
    for reader, changed in found.items():
        assert is_caught(name, lambda program, changed=changed: changed), reader


def test_a_partial_sum_that_is_added_twice():
    """A reduce-scatter whose reduction is a maximum."""
    code, index = collectives("megatron_sp zero", {"reduce_scatter"})[0]

    def maximum(program):
        each = program.codes[code].instructions[index]
        calls = tuple(replace(call, operator=replace(call.operator, reduction="max")) for call in each.calls)
        return with_instruction(program, code, index, replace(each, calls=calls))

    assert (
        program_of("megatron_sp zero").codes[code].instructions[index].calls[0].operator.kind
        is MovementKind.REDUCE_SCATTER
    )
    assert is_caught("megatron_sp zero", maximum)


def test_a_gradient_that_misses_its_bucket_is_caught():
    program = program_of("buckets")
    found = [
        (code, index, each)
        for code, lines in enumerate(program.codes)
        for index, each in enumerate(lines.instructions)
        if "bucket." in lines.name and len(each.calls) > 1
    ]
    assert found
    for code, index, each in found[:2]:
        last = each.calls[-1]
        slots = [program.codes[code].slots[index] for index in (last.inputs[0], last.outputs[0])]
        ways = program.mesh.product(each.group)
        gone = last.operator.num_bytes(*(slot.type.num_bytes for slot in slots), ways)
        shorter = replace(each, calls=each.calls[:-1], num_bytes=each.num_bytes - gone)
        assert is_caught("buckets", lambda before, at=(code, index, shorter): with_instruction(before, *at))


def shared_gradients():
    """Where a reader adds its part to a gradient of one micro-batch: (code, instruction, call)."""
    program = program_of("t5")
    return [
        (code, index, number)
        for code, each in enumerate(program.codes)
        for index, instruction in enumerate(each.instructions)
        for number, call in enumerate(instruction.calls)
        for output in call.adds
        if each.slots[call.outputs[output]].scope is Scope.MICRO_BATCH
    ]


def test_a_part_of_a_shared_gradient_that_replaces_the_others():
    """The encoder's output and the bias of positions are read by several layers of a stage."""
    places = shared_gradients()
    assert len({program_of("t5").codes[code].name for code, _, _ in places}) > 1
    caught = []
    for code, index, number in places:

        def store(program, code=code, index=index, number=number):
            each = program.codes[code].instructions[index]
            calls = list(each.calls)
            calls[number] = replace(calls[number], adds=frozenset())
            return with_instruction(program, code, index, replace(each, calls=tuple(calls)))

        caught.append(is_caught("t5", store))
    assert any(caught)
    # A code that only the first reader on a stage runs stores and adds alike.
    assert caught.count(False) <= 1


def test_a_shared_gradient_that_comes_back_to_nobody():
    """What the next stage adds to the gradient of the encoder's output is received beside it."""
    key = ("encoder.output:out.grad", "value")

    def lost(program):
        first = program.parts[0]
        assert key in first.names
        names = {**first.names, key: f"{key[0]} of nobody"}
        return replace(program, parts=(replace(first, names=names), *program.parts[1:]))

    assert is_caught("t5", lost)
