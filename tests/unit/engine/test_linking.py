"""Linking all executions of a part at once gives what stringing them together one by one does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.linking.code_entries import NOTHING, CodeEntries
from simcluster.engine.linking.part_linker import link_part
from simcluster.program import COMPUTE, Scope
from tests.support.instruction_blocks import block, instruction, program, run, slot
from tests.support.linking import linked_one_by_one

STREAMS = (COMPUTE, "tensor", "data", "send_next", "recv_prev", "offload")
SCOPES = (Scope.LOCAL, Scope.MICRO_BATCH, Scope.KEPT, Scope.STEP)


def entries_of(codes):
    return {number: CodeEntries.of(code) for number, code in enumerate(codes)}


def told(linked):
    """The entries of every stream, as ``linked_one_by_one`` has them, and where executions begin."""
    names = [stream.name for stream in linked.streams]
    entries = {
        stream.name: [
            (execution, stream.kinds[kind][1], [(names[other], position) for other, position in waits])
            for execution, kind, waits in zip(
                stream.execution.tolist(), stream.kind_of.tolist(), waits_of_entries, strict=True
            )
        ]
        for stream, waits_of_entries in zip(linked.streams, linked.waits, strict=True)
    }
    return entries, [dict(zip(names, base, strict=True)) for base in linked.bases.tolist()]


@st.composite
def programs(draw):
    """Blocks that read, write and add to the same slots on several streams, run in any order for several
    instances and micro-batches, with every kind of wait.
    """
    slots = [
        slot(f"slot {number}", draw(st.sampled_from(SCOPES))) for number in range(draw(st.integers(1, 5)))
    ]
    numbers = st.lists(st.integers(0, len(slots) - 1), max_size=2, unique=True)
    codes = []
    for code in range(draw(st.integers(1, 4))):
        rows = []
        for row in range(draw(st.integers(1, 6))):
            writes = draw(numbers)
            rows.append(
                instruction(
                    f"{code}.{row}",
                    draw(numbers),
                    writes,
                    draw(st.sampled_from(STREAMS)),
                    adds=[number for number in writes if draw(st.booleans())],
                    group=draw(st.sampled_from(((), ("pipeline",)))),
                    after=tuple(draw(st.sets(st.integers(0, row - 1), max_size=2))) if row else (),
                )
            )
        codes.append(block(f"code {code}", rows, slots))
    runs = []
    for index in range(draw(st.integers(1, 12))):
        earlier = st.tuples(st.integers(0, index - 1), st.just(0)) if index else st.nothing()
        runs.append(
            run(
                draw(st.integers(0, len(codes) - 1)),
                draw(st.sampled_from(("a", "b"))),
                draw(st.integers(-1, 1)),
                wait_for_transfers=draw(st.integers(0, 4)) == 0,
                after_streams=tuple(draw(st.lists(st.sampled_from(STREAMS), max_size=2))),
                after=tuple(
                    draw(st.lists(earlier | st.tuples(st.integers(0, index), st.just(1)), max_size=2))
                ),
                weights_of_micro_batch=draw(st.integers(-1, 1)),
            )
        )
    made = program(codes, runs)
    names = {("a", slots[0].name): f"b.{slots[-1].name}"} if draw(st.booleans()) else {}
    return replace(made, parts=(replace(made.parts[0], names=names),))


@given(programs(), st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_all_at_once_is_one_by_one(made, steps):
    codes = entries_of(made.codes)
    linked = link_part(made, 0, codes, steps)
    entries, begins = told(linked)
    expected, places = linked_one_by_one(made, 0, codes, steps)
    assert entries == {stream: expected[stream] for stream in entries}
    assert set(expected) <= set(entries)
    assert begins == places
    runs = [execution.code for execution in made.parts[0].executions] * steps
    assert linked.code_of.tolist() == runs
    assert {code: found.tolist() for code, found in linked.by_code().items()} == {
        code: [index for index, each in enumerate(runs) if each == code] for code in sorted(set(runs))
    }


def test_kernels_of_one_entry_start_one_after_another():
    made = block(
        "code",
        [
            instruction("burn"),
            instruction("gather", stream="data"),
            instruction("turn"),
            instruction("reduce", stream="data", after=(2,)),
            instruction("cool"),
        ],
        [],
    )
    entries = CodeEntries.of(made)
    assert entries.entry.tolist() == [0, 0, 0, 1, 1]
    assert entries.offsets(np.array([5, 7, 11, 13, 17])).tolist() == [0, 0, 5, 0, 0]
    assert not entries.offsets(np.array([5, 7, 11, 13, 17]))[entries.stream_of == 1].any()


def test_what_comes_of_several_streams_is_waited_for_in_the_order_in_which_they_came_first():
    slots = [slot("sum", Scope.STEP)]
    add = [
        instruction("add", writes=(0,), adds=(0,), stream=stream) for stream in ("data", "offload", "data")
    ]
    codes = [
        block("begin", [instruction("zero", writes=(0,), stream="tensor")], slots),
        *(block("add", [each], slots) for each in add),
        block("read", [instruction("read", reads=(0,))], slots),
    ]
    linked = link_part(program(codes, [run(code) for code in (0, 1, 2, 3, 4)]), 0, entries_of(codes), 1)
    entries, _ = told(linked)
    # Reading waits for the second addition on "data", and no stream for itself.
    assert entries[COMPUTE] == [(4, NOTHING, [("tensor", 1), ("data", 2), ("offload", 1)])]


def test_an_execution_waits_only_with_its_own_entries():
    """Without kernels it makes none wait for transfers; and what the streams of an execution wait for is not
    posted before it.
    """
    slots = [slot("gathered", Scope.STEP)]
    codes = [
        block("send", [instruction("send", stream="send_next")], slots),
        block("gather", [instruction("gather", writes=(0,), stream="data")], slots),
        block("burn", [instruction("burn")], slots),
        block("both", [instruction("read", reads=(0,)), instruction("reduce", stream="tensor")], slots),
    ]
    runs = [run(0), run(1, wait_for_transfers=True), run(2), run(3, after_streams=(COMPUTE,))]
    entries, _ = told(link_part(program(codes, runs), 0, entries_of(codes), 1))
    assert entries[COMPUTE] == [(2, NOTHING, []), (3, NOTHING, [("data", 1)])]
    assert entries["tensor"] == [(3, 1, [(COMPUTE, 1)])]


@given(programs())
@settings(max_examples=50, deadline=None)
def test_entries_are_numbered_by_what_they_do(made):
    linked = link_part(made, 0, entries_of(made.codes), 2)
    for number, _, stream in linked.communication():
        met, turns = {}, linked.meeting_numbers(number).tolist()
        for execution, kind, turn in zip(
            stream.execution.tolist(), stream.kind_of.tolist(), turns, strict=True
        ):
            code, index = stream.kinds[kind]
            assert linked.executions[execution].code == code
            group = made.codes[code].instructions[index].group
            assert made.codes[code].instructions[index].stream == stream.name
            assert turn == met.get(group, 0)
            met[group] = turn + 1
        assert len(set(stream.kinds)) == len(stream.kinds)
        assert set(stream.kind_of.tolist()) == set(range(len(stream.kinds)))
