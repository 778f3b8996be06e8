"""Executions put between those of the schedule: inputs, what comes back from hosts, sums on disks."""

from __future__ import annotations

from simcluster.cluster import HostPath
from simcluster.model import MemoryPlace, Relocation
from simcluster.plan import InputPipeline
from simcluster.program import Executions, InstructionKind
from simcluster.program.assembly.input_pipeline import RankInput, add_input_executions, input_codes
from simcluster.program.assembly.offload_prefetch import add_prefetches
from simcluster.program.isa.instruction import Call, Instruction
from tests.support.instruction_blocks import block, instruction, run, slot

BRINGS = Relocation(MemoryPlace.HOST, MemoryPlace.DEVICE, ahead=1)
TAKES = Relocation(MemoryPlace.DEVICE, MemoryPlace.HOST, ahead=1)


def relocates(relocation):
    call = Call("copy", relocation, (0,), (1,))
    return Instruction("copy", InstructionKind.COPY, "offload", (call,))


def shown(executions, codes):
    """Every execution with the places of those that it follows."""
    return [
        f"{codes[made.code].name} {made.instance}" + "".join(f" >{place}" for place, _ in made.after)
        for made in executions
    ]


def test_a_fetch_stands_one_kernel_ahead_of_its_backward_and_after_its_own_forward():
    codes = [
        block("forward", [instruction("kernel")]),
        block("backward", [instruction("kernel")], phase="backward"),
        block("fetch", [relocates(BRINGS)], phase="fetch"),
    ]
    layers = ("a", "b", "c")
    executions = [*(run(0, name) for name in layers), *(run(1, name) for name in reversed(layers))]
    made = add_prefetches(Executions.of(executions), codes, dict.fromkeys(layers, 2)).objects
    assert shown(made, codes) == [
        *("forward a", "forward b", "forward c", "fetch c >2"),
        *("fetch b >2", "backward c", "fetch a >5", "backward b", "backward a"),
    ]


def test_a_forward_whose_copies_leave_waits_for_the_one_so_many_before_it():
    codes = [
        block("forward", [instruction("kernel"), relocates(TAKES)]),
        block("fetch", [relocates(BRINGS)], phase="fetch"),
    ]
    made = add_prefetches(
        Executions.of([run(0, name) for name in "abc"]), codes, dict.fromkeys("abc", 1)
    ).objects
    assert shown(made, codes) == ["forward a", "forward b", "forward c >0"]


def test_without_anything_to_bring_back_nothing_changes():
    assert add_prefetches(Executions.of([run(0)]), [], {}).objects == (run(0),)


def test_the_next_micro_batch_is_copied_while_one_is_worked_on():
    reads = block("forward", [instruction("kernel", reads=[0])], [slot("tokens", feed=True)])
    inputs = InputPipeline(None, None, None, 0.0, 1, 2)
    fed = RankInput.of([reads])
    codes = [reads, *input_codes(inputs, fed)]
    assert [code.name for code in codes[1:]] == ["input.copy"]
    assert codes[1].instructions[0].num_bytes == fed.num_bytes == 16
    made = add_input_executions(
        Executions.of([run(0, micro_batch=number) for number in range(3)]), codes, 2, [1]
    ).objects
    assert [f"{codes[each.code].name} {each.micro_batch}" for each in made] == [
        *("input.copy 1", "forward 0", "input.copy 2", "forward 1", "input.copy 0", "forward 2")
    ]
    # The first copy of a step was made at the end of the one before.
    assert made[1].after == ((4, 1),)
    assert made[3].after == ((0, 0),)


def test_samples_are_read_and_decoded_before_they_are_copied():
    feeds = [block("forward", [], [slot("tokens", feed=True)])]
    inputs = InputPipeline(None, HostPath.FROM_DISKS, 1e6, 0.001, 4, 2)
    read, decode, copy = input_codes(inputs, RankInput.of(feeds))
    assert [code.instructions[0].operation for code in (read, decode, copy)] == [
        *(HostPath.FROM_DISKS, HostPath.DECODE, HostPath.TO_DEVICE)
    ]
    assert read.instructions[0].num_bytes == 4_000_000
