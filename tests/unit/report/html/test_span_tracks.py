import numpy as np

from simcluster.report.html import report_page
from simcluster.report.html.span_tracks import SCHEDULE, WAITS, Timeline
from simcluster.trace import COMPUTE
from tests.support.page_data import document, numbers, piece, tracks


def test_the_page_gives_every_span_back(any_run):
    page = "".join(report_page(any_run))
    known = document(page, "timeline")
    operators, kinds, graphs = numbers(piece(page, "timeline.kinds")).reshape(3, -1)
    actions, batches, steps = numbers(piece(page, "timeline.contexts")).reshape(3, -1)
    sizes, flops = (np.array(column) for column in known["sizes"])
    classes = 0
    for number, group in enumerate(known["groups"]):
        if "class" not in group:
            continue
        classes += 1
        spans = any_run.recording.spans(group["class"])
        found = tracks(page, number)
        assert {*found} - {SCHEDULE, WAITS} == set(np.unique(spans.text("stream")))
        for name, (starts, ends, kind, context) in found.items():
            if name in (SCHEDULE, WAITS):
                continue
            own = spans.where(spans.text("stream") == name)
            assert starts.tolist() == own["start"].tolist() and ends.tolist() == own["end"].tolist()
            assert [known["operators"][at] for at in operators[kind]] == own.text("operator").tolist()
            assert [known["kinds"][at] for at in kinds[kind]] == own.text("kind").tolist()
            assert [known["graphs"][at] for at in graphs[kind]] == own.text("graph").tolist()
            assert sizes[kind].tolist() == own["bytes"].tolist()
            assert flops[kind].tolist() == own["flops"].astype(np.int64).tolist()
            assert [known["actions"][at] for at in actions[context]] == own.text("action").tolist()
            assert batches[context].tolist() == own["micro_batch"].tolist()
            assert steps[context].tolist() == own["step"].tolist()
    assert classes == len(any_run.recording.sizes)
    ranks = numbers(piece(page, "ranks"))
    assert ranks.tolist() == any_run.ranks["class"].tolist()


def test_waits_and_the_schedule_have_tracks(run):
    first = next(entry for entry in Timeline.of(run).classes if entry.entry)
    found = {track.name: track for track in first.tracks}
    waits = run.waits.among("class", 0)
    assert (found[WAITS].ends - found[WAITS].starts).sum() == (waits["end"] - waits["start"]).sum()
    kernels = found[COMPUTE]
    assert found[SCHEDULE].starts[0] == kernels.starts[0] and found[SCHEDULE].ends[-1] == kernels.ends[-1]


def test_classes_beyond_the_limit_are_counted(run):
    sizes = run.recording.sizes
    cut = Timeline.of(run, most=int(sizes[:2].sum()))
    assert [entry.entry["class"] for entry in cut.classes if entry.entry] == [0, 1]
    assert cut.left_out == (len(sizes) - 2, int(sizes[2:].sum()))
    assert Timeline.of(run).left_out == (0, 0)


def test_one_class_is_shown_however_large(run):
    assert len([entry for entry in Timeline.of(run, most=1).classes if entry.entry]) == 1
