"""Who makes, books and releases the buffers of a block, instruction by instruction."""

from __future__ import annotations

import pickle

import pytest

from simcluster.program import Scope
from simcluster.program.isa.instruction import StreamId, charged_to, record_producer
from tests.support.instruction_blocks import block, instruction, run, slot


def test_of_every_stream_the_last_producer_counts_unless_it_adds():
    makers = {}
    for stream, at, adds in (("compute", 0, False), ("data", 1, True), ("data", 2, True)):
        record_producer(makers, stream, at, adds=adds)
    assert makers == {"compute": 0, "data": 2}
    record_producer(makers, "data", 3, adds=False)
    assert makers == {"data": 3}


def test_what_a_slot_holds_at_the_end_is_made_by_the_last_of_every_stream():
    code = block(
        "sum",
        [
            instruction("first", writes=[0]),
            instruction("more", writes=[0], stream="data", adds=[0]),
            instruction("other", writes=[1]),
        ],
        [slot("sum"), slot("other")],
    )
    assert code.written == {0: (0, 1), 1: (2,)}


def test_the_first_writer_books_and_every_last_user_releases():
    code = block(
        "layer",
        [
            instruction("up", reads=[0], writes=[1]),
            instruction("down", reads=[1], writes=[2], last_uses=(1,)),
            instruction("norm", reads=[1, 2], stream="data", last_uses=(1, 2)),
        ],
        [slot("in", feed=True), slot("hidden"), slot("out")],
    )
    # What comes from the batch is there when the code begins, or when its reader does.
    assert code.books == {0: (0,), 1: (0,), 2: (1,)}
    assert code.dropped == {1: (1, 2), 2: (2,)}


def test_a_backward_books_nothing_of_the_batch():
    code = block("layer", [instruction("up", reads=[0])], [slot("in", feed=True)], phase="backward")
    assert code.books == {}


@pytest.mark.parametrize(
    ("scope", "label"), [(Scope.STEP, -1), (Scope.LOCAL, -1), (Scope.MICRO_BATCH, 3), (Scope.KEPT, 1)]
)
def test_the_micro_batch_of_a_buffer_is_that_of_its_scope(scope, label):
    assert run(0, micro_batch=3, weights_of_micro_batch=1).label(scope) == label


def test_streams_say_what_waits_for_them_are_charged_to():
    stream = StreamId("data.0 (gradients)", ("data",))
    assert charged_to(stream, "pipeline") == ("data",)
    assert charged_to(pickle.loads(pickle.dumps(stream)), "pipeline") == ("data",)
    assert charged_to("send_next", "pipeline") == ("pipeline",)
    assert charged_to("compute", "pipeline") == ("compute",)
