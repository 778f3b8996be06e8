"""The rules of the trace event format, and what ui.perfetto.dev makes of a trace, as checks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Event = dict[str, Any]


def nanoseconds(microseconds):
    """As readers do it: times a thousand, cut off."""
    return int(microseconds * 1000.0)


@dataclass
class Checked:
    """A trace that obeys every rule, in parts."""

    slices: list[Event] = field(default_factory=list)
    counters: dict[tuple[int, str], list[tuple[int, int]]] = field(default_factory=dict)
    arrows: dict[int, tuple[Event, Event]] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    process_order: dict[int, int] = field(default_factory=dict)
    thread_order: dict[tuple[int, int], int] = field(default_factory=dict)

    def on(self, process, thread):
        """The slices of a thread by name, with start and end in nanoseconds."""
        return [
            (nanoseconds(each["ts"]), nanoseconds(each["ts"]) + nanoseconds(each["dur"]), each)
            for each in self.slices
            if (each["pid"], self.threads[each["pid"], each["tid"]]) == (process, thread)
        ]


def checked(document) -> Checked:
    """Fails on the first rule that is broken."""
    assert document["displayTimeUnit"] in ("ms", "ns")
    found = Checked()
    flows = defaultdict(list)
    for event in document["traceEvents"]:
        assert isinstance(event["pid"], int) and event["pid"] > 0
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0
        assert isinstance(event["name"], str) and event["name"]
        _KINDS[event["ph"]](found, event, flows)
    _levels(found)
    _names(found)
    _nesting(found)
    _arrows(found, flows)
    return found


def _metadata(found, event, flows):
    key, args = (event["pid"], event["tid"]), event["args"]
    if event["name"] == "process_name":
        assert found.processes.setdefault(event["pid"], args["name"]) is args["name"], "named once"
    elif event["name"] == "process_sort_index":
        found.process_order[event["pid"]] = args["sort_index"]
    elif event["name"] == "thread_name":
        assert found.threads.setdefault(key, args["name"]) is args["name"], "named once"
    elif event["name"] == "thread_sort_index":
        found.thread_order[key] = args["sort_index"]
    else:
        assert event["name"] == "process_labels" and isinstance(args["labels"], str)


def _complete(found, event, flows):
    assert isinstance(event["tid"], int)
    assert isinstance(event["dur"], (int, float)) and event["dur"] >= 0
    assert isinstance(event["cat"], str)
    assert isinstance(event.get("args", {}), dict)
    found.slices.append(event)


def _counter(found, event, flows):
    assert event["args"]
    for argument, value in event["args"].items():
        assert isinstance(value, int) and value >= 0
        # Readers name a counter so.
        values = found.counters.setdefault((event["pid"], f"{event['name']} {argument}"), [])
        values.append((nanoseconds(event["ts"]), value))


def _levels(found):
    for values in found.counters.values():
        values.sort()  # as readers do
        for (earlier, before), (later, value) in pairwise(values):
            assert earlier < later, "one value at a time"
            assert before != value, "only when it changes"


def _flow(found, event, flows):
    assert isinstance(event["tid"], int) and isinstance(event["id"], int)
    assert (event["ph"] == "f") == (event.get("bp") == "e"), "an end binds to the slice around it"
    flows[event["id"]].append(event)


_KINDS = {"M": _metadata, "X": _complete, "C": _counter, "s": _flow, "f": _flow}


def _names(found):
    used = {(each["pid"], each["tid"]) for each in found.slices}
    assert used <= found.threads.keys(), "every thread has a name"
    assert {pid for pid, _ in used} <= found.processes.keys(), "every process has a name"
    assert found.process_order.keys() == found.processes.keys()
    assert found.thread_order.keys() == found.threads.keys()
    assert len(set(found.process_order.values())) == len(found.processes)
    assert len({tid for _, tid in found.threads}) == len(found.threads), "thread numbers are unique"
    for pid in found.processes:
        names = {found.threads[key]: order for key, order in found.thread_order.items() if key[0] == pid}
        assert len(set(names.values())) == len(names)
        assert min(names, key=names.__getitem__) == "compute"


def _nesting(found):
    """Sorted by start as readers do it (stable), slices lie in those that are open, or after them."""
    threads = defaultdict(list)
    for each in found.slices:
        start = nanoseconds(each["ts"])
        threads[each["pid"], each["tid"]].append((start, start + nanoseconds(each["dur"]), each["name"]))
    for slices in threads.values():
        open_slices = []
        for start, end, name in sorted(slices, key=lambda each: each[0]):
            while open_slices and open_slices[-1][1] <= start:
                open_slices.pop()
            if open_slices:
                assert end <= open_slices[-1][1], f"{name} ends after {open_slices[-1][2]}, in which it lies"
            open_slices.append((start, end, name))


def _arrows(found, flows):
    slices = defaultdict(list)
    for each in found.slices:
        start = nanoseconds(each["ts"])
        slices[each["pid"], each["tid"]].append((start, start + nanoseconds(each["dur"]), each))
    for number, events in flows.items():
        assert [event["ph"] for event in events] == ["s", "f"], "a start, then its end"
        start, end = events
        assert (start["name"], start["cat"]) == (end["name"], end["cat"])
        assert start["ts"] <= end["ts"]
        ends = []
        for event in events:
            when = nanoseconds(event["ts"])
            (around,) = [each for a, b, each in slices[event["pid"], event["tid"]] if a <= when < b]
            ends.append(around)
        found.arrows[number] = (ends[0], ends[1])
