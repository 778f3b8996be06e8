import gzip
import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import TraceError
from simcluster.report import write_perfetto
from simcluster.report.perfetto import event_blocks
from simcluster.report.perfetto import trace_file as perfetto
from simcluster.report.perfetto.event_blocks import WAITS, level_changes
from simcluster.report.perfetto.json_columns import json_microseconds
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.trace import Recording, Run, Table
from tests.unit.report.perfetto.trace_rules import checked, nanoseconds


@pytest.fixture(scope="module")
def trace(any_run, tmp_path_factory):
    return checked(written(any_run, tmp_path_factory.mktemp("trace") / "trace.json"))


def written(run, path, ranks=None):
    write_perfetto(run, path, ranks)
    return json.loads(path.read_bytes())


def test_every_trace_obeys_the_format(trace):
    assert trace.slices and trace.counters


def slice_of(start, length, **more):
    return {"ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": length, "name": "x", "cat": "c", **more}


def arrow(phase, start, **more):
    return {"ph": phase, "pid": 1, "tid": 1, "ts": start, "name": "x", "cat": "c", "id": 1, **more}


@pytest.mark.parametrize(
    "events",
    [
        [slice_of(0, 2), slice_of(1, 2)],
        [slice_of(0, 1), slice_of(0, 2)],
        [slice_of(0, -1)],
        [slice_of(0, 1, tid=2)],
        [slice_of(0, 3), arrow("s", 1)],
        [slice_of(0, 3), arrow("f", 1, bp="e")],
        [slice_of(0, 3), arrow("s", 1), arrow("f", 2)],
        [slice_of(0, 3), arrow("s", 1), arrow("f", 3, bp="e")],
        [slice_of(0, 3), arrow("s", 2), arrow("f", 1, bp="e")],
    ],
)
def test_the_rules_catch_what_breaks_them(events):
    names = [
        {"ph": "M", "pid": 1, "tid": 0, "ts": 0, "name": "process_name", "args": {"name": "p"}},
        {"ph": "M", "pid": 1, "tid": 0, "ts": 0, "name": "process_sort_index", "args": {"sort_index": 0}},
        {"ph": "M", "pid": 1, "tid": 1, "ts": 0, "name": "thread_name", "args": {"name": "compute"}},
        {"ph": "M", "pid": 1, "tid": 1, "ts": 0, "name": "thread_sort_index", "args": {"sort_index": 0}},
    ]
    sound = [slice_of(0, 3), slice_of(3, 2), slice_of(3, 1), arrow("s", 1), arrow("f", 2, bp="e")]
    with pytest.raises((AssertionError, ValueError)):
        checked({"displayTimeUnit": "ms", "traceEvents": [*names, *events]})
    checked({"displayTimeUnit": "ms", "traceEvents": [*names, *sound]})


def test_every_span_is_a_slice_at_its_very_nanosecond(any_run, trace):
    spans = any_run.spans
    wanted = Counter(
        zip(
            (spans["class"] + 1).tolist(),
            spans.text("stream").tolist(),
            spans["start"].tolist(),
            spans["end"].tolist(),
            spans.text("operator").tolist(),
            spans["bytes"].tolist(),
            strict=True,
        )
    )
    found = Counter(
        (
            each["pid"],
            trace.threads[each["pid"], each["tid"]],
            nanoseconds(each["ts"]),
            nanoseconds(each["ts"]) + nanoseconds(each["dur"]),
            each["args"]["operator"],
            each["args"]["bytes"],
        )
        for each in trace.slices
        if "operator" in each.get("args", {})
    )
    assert found == wanted


def test_a_process_per_class_says_which_ranks(any_run, trace):
    classes = any_run.documents["classes"]
    assert list(trace.processes) == [each["class"] + 1 for each in classes]
    assert sorted(trace.process_order, key=trace.process_order.__getitem__) == list(trace.processes)
    for each, name in zip(classes, trace.processes.values(), strict=True):
        assert name == f"stage {each['stage']} - ranks {each['members']} ({each['ranks']})"


def test_kernels_lie_in_their_layer_and_layers_in_their_action(any_run, trace):
    for process in trace.processes:
        compute = trace.on(process, "compute")
        actions = [(a, b, each) for a, b, each in compute if each["cat"] == "action"]
        layers = [(a, b, each) for a, b, each in compute if each["cat"] == "instance"]
        assert actions and layers
        for start, end, each in compute:
            args = each["args"]
            if each["cat"] == "action":
                continue
            (action,) = [found for a, b, found in actions if a <= start and end <= b]
            assert action["name"] == args["action"]
            assert action["args"].get("step") == args.get("step")
            if each["cat"] == "compute":
                (layer,) = [found for a, b, found in layers if a <= start and end <= b]
                assert args["operator"] == f"{layer['name']}.{each['name']}"


def test_actions_are_those_of_the_schedule_in_order(any_run, trace):
    plan = any_run.documents["plan"]
    rows = [row.split() for row in plan["schedule"]["text"].splitlines()]
    steps = any_run.spans["step"].max() + 1
    for each in any_run.documents["classes"]:
        compute = sorted(trace.on(each["class"] + 1, "compute"), key=lambda found: found[0])
        found = [slice_["name"] for _, _, slice_ in compute if slice_["cat"] == "action"]
        expected = [*rows[each["stage"]], "end"] * steps
        assert [name for name in found if name != "begin"] == expected


def test_an_arrow_for_every_transfer(any_run, trace):
    kinds = any_run.spans.text("kind")
    assert len(trace.arrows) == (kinds == "send").sum() == (kinds == "receive").sum()
    for send, receive in trace.arrows.values():
        assert send["cat"] == "send" and receive["cat"] == "receive"
        assert send["args"]["micro_batch"] == receive["args"]["micro_batch"]
        assert send["args"].get("step") == receive["args"].get("step")
        assert send["args"]["bytes"] == receive["args"]["bytes"]
        assert (send["ts"], send["dur"]) == (receive["ts"], receive["dur"])
        tensor = send["args"]["operator"].replace(".send ", ".receive ")
        assert tensor == receive["args"]["operator"]
        classes = any_run.documents["classes"]
        stages = [classes[each["pid"] - 1]["stage"] for each in (send, receive)]
        forward = trace.threads[send["pid"], send["tid"]] == "send_next"
        assert stages[1] - stages[0] == (1 if forward else -1)


def test_no_transfer_has_two_arrows(any_run, trace):
    ends = [id(each) for pair in trace.arrows.values() for each in pair]
    assert len(set(ends)) == len(ends)


def test_counters_follow_the_account(any_run, trace):
    for entry in any_run.documents["summary"]["peak_memory_bytes"]:
        process = entry["class"] + 1
        peak = max(value for _, value in trace.counters[process, "memory bytes"])
        assert peak == entry["total"]
        when = next(time for time, value in trace.counters[process, "memory bytes"] if value == peak)
        assert when == round(entry["time_s"] * 1e9)
        for category, size in entry["breakdown"].items():
            values = [
                value for time, value in trace.counters[process, f"memory {category} bytes"] if time <= when
            ]
            assert values[-1] == size


def test_waits_fill_the_gaps_between_kernels(any_run, trace):
    for process in trace.processes:
        kernels = [(a, b) for a, b, each in trace.on(process, "compute") if each["cat"] == "compute"]
        waits = [(a, b) for a, b, _ in trace.on(process, WAITS)]
        filled = sorted([*kernels, *waits])
        assert filled[0][0] == 0
        assert all(a[1] == b[0] for a, b in pairwise(filled))


def on_one_process(events, pid):
    """The events of a process, less what says which process it is."""
    found = Counter()
    for each in events:
        if each["pid"] == pid and each["ph"] in "XC":
            thread = each.get("tid", 0)
            assert not thread or thread // 100 == pid
            found[json.dumps({**each, "pid": 0, "tid": thread % 100}, sort_keys=True)] += 1
    return found


def test_chosen_ranks_are_the_tracks_of_their_classes(any_run, tmp_path):
    whole = written(any_run, tmp_path / "all.json")["traceEvents"]
    count = len(any_run.ranks)
    ranks = sorted({0, 1, count // 2, count - 1})
    document = written(any_run, tmp_path / "some.json", iter(reversed(ranks)))
    found = checked(document)
    assert sorted(found.processes) == [rank + 1 for rank in ranks]
    assert sorted(found.process_order, key=found.process_order.__getitem__) == [rank + 1 for rank in ranks]
    for rank in ranks:
        index = int(any_run.ranks["class"][rank])
        stage = any_run.documents["classes"][index]["stage"]
        assert found.processes[rank + 1] == f"rank {rank} (class {index}, stage {stage})"
        mine = on_one_process(document["traceEvents"], rank + 1)
        assert mine and mine == on_one_process(whole, index + 1)


def test_arrows_lead_between_chosen_neighbours_only(run, tmp_path):
    # Mesh pipeline 4, data 2, tensor 2: rank 5 follows rank 1, and nobody chosen follows or precedes 14.
    assert run.ranks["next"][[1, 5, 10]].tolist() == [5, 9, 14]
    found = checked(written(run, tmp_path / "t.json", [1, 5, 14]))
    pairs = Counter((send["pid"] - 1, receive["pid"] - 1) for send, receive in found.arrows.values())
    spans = run.spans
    for ends, stream in (((1, 5), "send_next"), ((5, 1), "send_prev")):
        mine = (spans["class"] == run.ranks["class"][ends[0]]) & (spans.text("stream") == stream)
        assert pairs.pop(ends) == mine.sum() > 0
    assert not pairs
    assert not checked(written(run, tmp_path / "t.json", [0, 5])).arrows


def test_the_trace_of_ranks_is_the_same_from_the_file(run, tmp_path):
    run.save(tmp_path / "run")
    write_perfetto(run, tmp_path / "a.gz", [3, 7])
    write_perfetto(Run.load(tmp_path / "run"), tmp_path / "b.gz", [3, 7])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_rank_that_is_not_there_leaves_the_file_as_it_was(run, tmp_path):
    path = tmp_path / "trace.json.gz"
    path.write_text("before")
    with pytest.raises(TraceError, match="there is no rank 16; the run has 16, from 0 on"):
        write_perfetto(run, path, [0, 16])
    assert [each.name for each in tmp_path.iterdir()] == ["trace.json.gz"]
    assert path.read_text() == "before"


def test_large_pieces_are_packed_in_order(run, tmp_path, monkeypatch):
    write_perfetto(run, tmp_path / "once.gz")
    monkeypatch.setattr(perfetto, "_PACKED", 1000)
    write_perfetto(run, tmp_path / "often.gz")
    once, often = ((tmp_path / name).read_bytes() for name in ("once.gz", "often.gz"))
    assert gzip.decompress(once) == gzip.decompress(often)


@pytest.mark.parametrize("ranks", [None, [0, 1, 4, 5]])
def test_classes_that_ran_alike_share_their_text(unfolded, tmp_path, monkeypatch, ranks):
    made = []
    monkeypatch.setattr(
        event_blocks, "json_microseconds", lambda times: made.append(len(times)) or json_microseconds(times)
    )
    write_perfetto(unfolded, tmp_path / "shared.json", ranks)
    shared, made[:] = sum(made), []
    monkeypatch.setattr(event_blocks, "MOST_KEPT", -1)
    write_perfetto(unfolded, tmp_path / "single.json", ranks)
    assert (tmp_path / "shared.json").read_bytes() == (tmp_path / "single.json").read_bytes()
    assert shared < 0.7 * sum(made)


def test_no_span_is_expanded_but_those_of_the_chosen(unfolded, tmp_path, monkeypatch):
    asked, expand = [], Recording.spans
    monkeypatch.setattr(Recording, "spans", lambda self, index: asked.append(index) or expand(self, index))
    monkeypatch.setattr(Recording, "table", None)
    write_perfetto(replace(unfolded), tmp_path / "t.json", [2, 5])
    assert asked == [2, 5]


def test_compressed_and_plain_hold_the_same(run, tmp_path):
    plain, packed = tmp_path / "trace.json", tmp_path / "trace.json.gz"
    write_perfetto(run, plain)
    write_perfetto(run, packed)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    again = tmp_path / "again.json.gz"
    write_perfetto(run, again)
    assert again.read_bytes() == packed.read_bytes()


def test_names_are_quoted(run, tmp_path):
    document = dict(run.documents)
    document["plan"] = {**document["plan"], "name": 'a "name" \\ of\nlines'}
    found = written(replace(run, documents=document), tmp_path / "t.json")
    assert found["otherData"]["name"] == 'a "name" \\ of\nlines'
    codes = run.recording.codes
    names = {**codes.names, "name": [f'"{name}\x01"\\' for name in codes.names["name"]]}
    recording = replace(run.recording, codes=Table(codes.columns, names))
    found = checked(written(replace(run, recording=recording), tmp_path / "t.json"))
    operators = {each["args"]["operator"] for each in found.slices if "operator" in each.get("args", {})}
    assert operators == set(recording.operators)


def test_nothing_is_left_after_an_error(run, tmp_path, monkeypatch):
    path = tmp_path / "trace.json"
    path.write_text("before")
    calls, dumps = iter(range(100)), orjson.dumps

    def broken(value, *rest, **options):
        if next(calls, None) is None:
            raise OSError(28, "No space left on device")
        return dumps(value, *rest, **options)

    monkeypatch.setattr("simcluster.report.perfetto.json_columns.orjson.dumps", broken)
    with pytest.raises(TraceError, match="No space left on device"):
        write_perfetto(run, path)
    assert [each.name for each in tmp_path.iterdir()] == ["trace.json"]
    assert path.read_text() == "before"


def test_nothing_is_left_after_an_interruption(run, tmp_path, monkeypatch):
    def interrupted(run, ranks):
        yield run.documents["plan"]["name"].encode() * 2**20
        raise KeyboardInterrupt

    monkeypatch.setattr("simcluster.report.perfetto.trace_file.event_blocks_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_perfetto(run, tmp_path / "trace.json.gz")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(run, tmp_path):
    with pytest.raises(TraceError, match=r"cannot write .*No such file"):
        write_perfetto(run, tmp_path / "no" / "trace.json")


@given(st.lists(st.integers(0, 10**15), min_size=1))
def test_readers_get_the_exact_nanosecond(times):
    texts = json_microseconds(np.array(times))
    assert [nanoseconds(float(text)) for text in texts] == times
    assert [round(float(text) * 1000) for text in texts] == times


def test_levels_have_one_value_per_time_and_none_that_repeats():
    times, counters = np.array([0, 0, 1, 1, 2, 2, 3, 4, 4]), np.array([0, 0, 0, 0, 1, 0, 1, 0, 1])
    moments, levels = level_changes(times, counters, np.array([5, 2, -3, 3, 4, -4, -2, -3, 3]), 3)
    assert moments.tolist() == [0, 2, 3, 4]
    assert levels.tolist() == [[7, 3, -1, 0], [-1, 4, 2, 5], [-1, -1, -1, -1], [7, -1, 5, -1]]
    nothing = np.zeros(0, np.int64)
    moments, levels = level_changes(nothing, nothing, nothing, 3)
    assert not len(moments) and levels.shape == (4, 0)


def test_counters_that_change_at_one_moment_are_one_event(run):
    events = orjson.loads(b"".join(perfetto.trace_events(run)))["traceEvents"]
    moments = Counter((event["pid"], event["ts"]) for event in events if event["ph"] == "C")
    assert moments and set(moments.values()) == {1}


CHUNKED = {
    "simcluster": 1,
    "name": "chunks",
    "cluster": {"host": {"use": "dgx-h100", "devices": 3, "network": {"nics": 1}}, "hosts": 1},
    "model": {"layers": 6, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 64},
    "training": {"global_batch": 6, "micro_batch": 1, "seq_len": 64},
}


@pytest.mark.parametrize("kind", ["interleaved", "zb_v"])
def test_chunks_have_arrows_around_the_ring_and_back_from_the_turn(kind, tmp_path):
    run = simulate(Scenario.of(CHUNKED | {"parallel": {"mesh": {"pipeline": 3}, "schedule": kind}}))
    found = checked(written(run, tmp_path / "t.json"))
    kinds = run.spans.text("kind")
    assert len(found.arrows) == (kinds == "send").sum() > 0
    stages = [each["stage"] for each in run.documents["classes"]]
    hops = Counter()
    for send, receive in found.arrows.values():
        assert send["args"]["micro_batch"] == receive["args"]["micro_batch"]
        assert send["args"]["bytes"] == receive["args"]["bytes"]
        hops[stages[send["pid"] - 1], stages[receive["pid"] - 1]] += 1
    # Of six micro-batches, activations one way and gradients the other: around, or there and back.
    ring = {(0, 1): 12, (1, 2): 12, (2, 0): 6, (1, 0): 12, (2, 1): 12, (0, 2): 6}
    there = {(0, 1): 12, (1, 2): 12, (1, 0): 12, (2, 1): 12}
    assert hops == (ring if kind == "interleaved" else there)
