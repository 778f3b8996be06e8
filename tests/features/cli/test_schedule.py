"""schedule: grids, figures and pages of pipeline schedules, without a model."""

from __future__ import annotations

import pytest

from simcluster.plan.pipeline.schedule import render
from simcluster.plan.spec.schedule_spec import schedule_kinds


def test_a_schedule_is_drawn_with_what_stages_wait_and_hold(simcluster):
    code, out, err = simcluster("schedule", "1f1b", "--stages", 3, "--micro-batches", 4)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "1f1b: 3 stages, 4 micro-batches"
    assert " ".join(lines[2].split()) == "stage 0 F0 F1 F2 · · · · B0─── F3 B1─── · B2─── · B3───"
    assert lines[4].startswith("stage 2  ·  ·  F0 B0─── F1 B1───")
    assert [line.split() for line in lines[6:10]] == [
        ["work", "wait", "activations"],
        ["stage", "0", "12", "6", "3"],
        ["stage", "1", "12", "6", "2"],
        ["stage", "2", "12", "6", "1"],
    ]
    assert lines[-1] == "18 units of time; bubble 18 / 36 = 0.5 of the work"


def test_folded_chunks_are_timed_the_way_they_lie(simcluster):
    out = simcluster("schedule", "zb_v", "--stages", 4, "--micro-batches", 8).out
    assert out.endswith("51 units of time; bubble 12 / 192 = 0.0625 of the work\n")
    assert "stage 3    48     3                      8          4\n" in out


def test_slices_of_sequences_are_drawn_one_by_one(simcluster):
    out = simcluster("schedule", "seqpipe", "--stages", 2, "--micro-batches", 2, "--slices", 2).out
    lines = out.splitlines()
    assert lines[0] == "seqpipe: 2 stages, 2 micro-batches of 2 slices"
    assert " ".join(lines[2].split()).startswith("stage 0 F0── F0s1 F1── · · B0s1─────")
    assert "activations of slices" in lines[5]
    assert lines[6].split() == ["stage", "0", "12", "3", "3", "1.5"]
    assert lines[-1] == "15 units of time; bubble 6 / 24 = 0.25 of the work"


def test_times_are_those_that_are_given(simcluster):
    out = simcluster("schedule", "zb_h1", "--stages", 4, "--micro-batches", 8, "--times", "F=3,I=2,W=2").out
    assert f"{8 * 7 + 3 * 3} units of time" in out


def test_every_rule_is_drawn_as_it_says(simcluster, tmp_path):
    for kind, made in schedule_kinds().items():
        if kind == "text":
            continue
        page = tmp_path / f"{kind}.html"
        code, out, err = simcluster("schedule", kind, "--html", page)
        assert (code, err) == (0, f"written: {page}\n")
        assert out.startswith(f"{kind}: 4 stages")
        text = render(made().timetable(4, 8))
        assert simcluster("schedule", kind, "--text").out == text + "\n"
        drawn = page.read_text()
        assert text.replace("&", "&amp;") in drawn
        assert "<svg" in drawn


def test_a_file_says_its_own_stages_and_micro_batches(simcluster, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(simcluster("schedule", "zb_v", "--stages", 3, "--micro-batches", 5, "--text").out)
    code, out, err = simcluster("schedule", file, "--placement", "folded")
    assert (code, err) == (0, "")
    title, _, rest = out.partition("\n\n")
    assert title.replace("\n", " ") == f"{file}: 3 stages of 2 chunks, 5 micro-batches"
    wanted = simcluster("schedule", "zb_v", "--stages", 3, "--micro-batches", 5).out
    assert rest == wanted.partition("\n\n")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["zb"], "unknown schedule 'zb'; did you mean 'zb_v'?"),
        (
            ["1f1b", "--chunks", "2"],
            "schedule 1f1b takes no chunks; leave it out, or take another kind: interleaved,",
        ),
        (["text"], "schedule text needs its text"),
        (
            ["interleaved", "--micro-batches", "6"],
            "6 micro-batches are not a multiple of the 4 pipeline stages",
        ),
        (["gpipe", "--times", "F=1,B=2"], "--times F=1,B=2: 'B=2' is not a time of an action"),
        (["gpipe", "--placement", "wrapped"], "schedule gpipe takes no placement"),
        (
            ["1f1b", "--stages", "10000", "--micro-batches", "100000"],
            "10,000 stages x 100,000 micro-batches = 1,000,000,000 forwards; at most 131,072 are drawn\n"
            "    use fewer micro-batches",
        ),
        (["interleaved", "--chunks", "1000000000"], "use fewer chunks"),
        (["seqpipe", "--slices", "1000000000"], "use fewer slices"),
        (["gpipe", "--html", "nowhere/page.html"], "there is no folder 'nowhere'"),
    ],
)
def test_what_cannot_be_is_said(simcluster, words, message):
    code, out, err = simcluster("schedule", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_what_a_file_says_wrong_is_said(simcluster, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("F999999999 B999999999\n")
    assert (
        "1 stages x 1,000,000,000 micro-batches = 1,000,000,000 forwards" in simcluster("schedule", file).err
    )
    file.write_text("F0 X0\n")
    assert "'X0' is not an action" in simcluster("schedule", file).err
    file.write_text("F0 B0\nB0 F0\n")
    assert "cannot run to its end: stage 0 at B0; stage 1 at B0" in simcluster("schedule", file).err


@pytest.mark.parametrize(
    "text", ["F0 X0\n", "F0 B0\nB0 F0\n", "F0 F1\n", "F0 B0\nF1 B1\n", "\n", "F0 B0 \xe9\n"]
)
def test_the_file_that_is_wrong_is_named(simcluster, here, text):
    (here / "mine.txt").write_text(text, encoding="latin-1")
    code, out, err = simcluster("schedule", "mine.txt")
    assert (code, out) == (2, "")
    assert err.startswith("mine.txt"), err
