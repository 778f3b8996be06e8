import re
from dataclasses import replace
from pathlib import Path

import pytest

from simcluster import units
from simcluster.report import summary_text
from simcluster.report.content.bar_parts import memory, step_parts
from simcluster.report.content.run_header import header_rows
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.trace import Run

SCENARIOS = Path(__file__).parents[4] / "scenarios"
ANSI = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("colour", [False, True])
def test_no_line_is_wider_than_the_screen(any_run, width, colour):
    text = summary_text(any_run, width=width, colour=colour)
    assert all(len(ANSI.sub("", line)) <= width for line in text.split("\n"))
    assert "…" not in text
    assert bool(ANSI.search(text)) == colour


def test_colour_says_nothing_that_is_not_said_without(any_run):
    bars = re.compile(r"[█▓▒░#=+x*:·┃ ]+")
    plain = summary_text(any_run, width=100)
    coloured = ANSI.sub("", summary_text(any_run, width=100, colour=True))
    assert bars.sub(" ", coloured) == bars.sub(" ", plain)
    assert not any(line.endswith(" ") for line in coloured.split("\n"))


def test_everything_stays_on_one_screen(any_run):
    assert len(summary_text(any_run, width=100).split("\n")) <= 45


@pytest.mark.parametrize("name", ["tiny-gpt-cpu.yaml", "llama3-8b-atlas-800t-a2.yaml"])
def test_shipped_scenarios_stay_on_one_screen(name):
    assert len(summary_text(simulate(Scenario.load(SCENARIOS / name)), width=100).split("\n")) <= 40


def test_the_figures_that_people_quote(any_run):
    text, found = summary_text(any_run, width=100), any_run.documents["summary"]
    assert f"Step time {units.seconds(found['step_time_s'])}" in text
    assert f"{units.count(found['tokens_per_s'])} tokens/s" in text
    assert f"MFU {units.percent(found['mfu'])} (HFU {units.percent(found['hfu'])})" in text
    full = (
        f"MFU {units.percent(found['mfu_full_attention'])}, HFU {units.percent(found['hfu_full_attention'])}"
    )
    assert f"causal attention counted as half; as the full square: {full}" in text


def test_who_and_what_was_simulated(run):
    text = summary_text(run, width=120)
    assert "pipeline 4 x data 2 x tensor 2; 1f1b, 4 x 2 layers; recipe megatron_sp" in text
    assert "2 x dgx-h100 = 16 x h100-sxm of 79.1 GiB" in text
    assert "16 samples of 256 tokens (4.10 k) = 2 data-parallel ways x 8 micro-batches x 1" in text
    assert "fp32 adamw states sharded over data" in text
    assert "framework profile ideal" in text
    assert f"{len(run.documents['summary']['assumptions'])} assumptions" in text


def test_layers_that_differ_by_stage_are_spelled_out(run):
    plan = {**run.documents["plan"], "layers_per_stage": [7, *[8] * 14, 7]}
    rows = dict(header_rows({**run.documents, "plan": plan}))
    assert "1f1b, 7 + 14 x 8 + 7 layers; " in rows["plan"]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"layers": "none", "operators": []}, ""),
        ({"layers": "all", "operators": []}, "; recompute all layers"),
        ({"layers": 3, "operators": []}, "; recompute 3 layers of each stage"),
        ({"layers": [2, 2, 0], "operators": []}, "; recompute 2 x 2 + 0 layers of the stages"),
        (
            {"layers": ["layers.{0,5}"], "operators": [], "slice": True, "gathers": True},
            "; recompute layers.{0,5}, gathering their weights again, keeping slices of their inputs",
        ),
        (
            {"layers": "none", "operators": ["layers.*.mlp.*"], "collectives": False},
            "; recompute layers.*.mlp.*, not their collectives",
        ),
        (
            {"layers": "none", "operators": ["*.norm", "*.core"], "keep_outputs": ["*.core"]},
            "; recompute *.norm, *.core, keeping what others read of *.core",
        ),
    ],
)
def test_what_is_recomputed(run, written, told):
    plan = {**run.documents["plan"], "recompute": written, "fusion": []}
    plain = {**plan, "recompute": {"layers": "none", "operators": []}}
    found, without = (dict(header_rows({**run.documents, "plan": each}))["plan"] for each in (plan, plain))
    assert found == without + told


def test_what_is_on_hosts(run):
    states = {"to": "disk", "match": ["layers.*"], "fraction": 0.5, "prefetch": 1, "pinned": True}
    plan = {**run.documents["plan"], "offload": {"optimizer_states": states}, "host": ["*.update", "head.*"]}
    told = dict(header_rows({**run.documents, "plan": plan}))["plan"]
    assert told.endswith("; 50.0 % of optimizer states of layers.* to the disk; *.update, head.* on the host")


def test_the_cut_sums_to_the_step(any_run):
    found = any_run.documents["summary"]
    parts = step_parts(found)
    assert sum(part.value for part, _ in parts) == pytest.approx(found["step_time_s"], rel=1e-9)
    assert all(part.value <= most * (1 + 1e-9) for part, most in parts)
    assert len({part.tone for part, _ in parts}) == len(parts)
    text = summary_text(any_run, width=100)
    for part, _ in parts:
        share = units.percent(part.value / found["step_time_s"])
        assert re.search(rf"{re.escape(part.name)} +{re.escape(units.seconds(part.value))} +{share}", text)


def test_the_bar_of_the_cut_fills_the_line(run):
    lines = summary_text(run, width=100).split("\n")
    (bar,) = [line for line in lines if re.fullmatch(r"  [█▓▒░#=+x*:]{90,}", line)]
    assert len(bar) == 100
    found = run.documents["summary"]
    assert bar.count("█") / 98 == pytest.approx(found["compute_s"] / found["step_time_s"], abs=0.01)


def test_every_stage_has_a_bar(run):
    text = summary_text(run, width=100)
    for entry in run.documents["summary"]["peak_memory_bytes"]:
        share = f"{100 * entry['total'] / entry['capacity']:.0f} %"
        line = next(line for line in text.split("\n") if line.startswith(f"  stage {entry['stage']} "))
        assert units.size(entry["total"]) in line and share in line


def test_memory_in_all_categories_sums_to_the_peak(any_run):
    for entry in any_run.documents["summary"]["peak_memory_bytes"]:
        assert sum(part.value for part in memory(entry["breakdown"])) == entry["total"]


def test_a_category_nobody_knows_yet_is_drawn_too():
    (known, unknown) = memory({"offload": 5, "runtime": 1})
    assert (known.name, unknown.name) == ("runtime", "offload")


def test_communication_by_axis(run):
    text, found = summary_text(run, width=120), run.documents["summary"]
    for axis, operations in found["communication_bytes"].items():
        line = next(
            line for line in text.split("\n") if line.startswith(f"  {axis} ") and " B" not in line[:6]
        )
        assert axis in line
        assert units.volume(sum(operations.values())) in text
    assert "send_receive" in text and "reduce_scatter" in text


def test_no_communication_no_table():
    alone = simulate(
        Scenario.of(
            {
                "simcluster": 1,
                "name": "one device",
                "cluster": {"host": {"use": "cpu-server", "devices": 1}, "hosts": 1},
                "model": {"layers": 1, "hidden": 32, "heads": 4, "kv_heads": 4, "ffn": 64, "vocab": 100},
                "training": {"global_batch": 1, "micro_batch": 1, "seq_len": 8},
                "parallel": {"mesh": {}},
            }
        )
    )
    text = summary_text(alone, width=100)
    assert "collectives" not in text
    assert "one device" in text
    assert "all ranks" in text
    assert "Simulated 1 rank:" in text


def test_a_misfit_comes_first_with_device_moment_amount_and_what_was_alive(misfit):
    found = misfit.documents["summary"]
    assert not found["fits"]
    first, where, alive, *_ = summary_text(misfit, width=100).split("\n")
    worst = max(found["peak_memory_bytes"], key=lambda entry: entry["total"])
    over = [entry for entry in found["peak_memory_bytes"] if not entry["fits"]]
    assert first.startswith(f"DOES NOT FIT: {sum(entry['ranks'] for entry in over)} of 8 ranks")
    assert f"class {worst['class']} (stage {worst['stage']}, rank {worst['rank']})" in where
    assert units.size(worst["excess"]) in where
    assert units.seconds(worst["exceeded_at_s"]) in where or "from the start" in where
    assert units.seconds(worst["time_s"]) in alive
    text = summary_text(misfit, width=100)
    assert "and lacks" not in text, "there are neither fragments nor headroom"
    assert f"{worst['alive'][0]['buffer']} {units.size(worst['alive'][0]['bytes'])}" in text
    assert "┃" in text and "too much" in text
    assert summary_text(misfit, width=100, colour=True).startswith("\x1b[1;31mDOES NOT FIT")


def test_what_a_misfit_lacks_is_told_with_fragments_and_headroom(misfit):
    summary = misfit.documents["summary"]
    peaks = [entry | {"fragments": 3 << 30, "headroom": 1 << 30} for entry in summary["peak_memory_bytes"]]
    documents = {**misfit.documents, "summary": {**summary, "peak_memory_bytes": peaks}}
    text = summary_text(replace(misfit, documents=documents), width=120)
    worst = max(peaks, key=lambda entry: entry["excess"])
    needed, lacking = (units.size(size + (4 << 30)) for size in (worst["total"], worst["excess"]))
    told = f"with 3.00 GiB of fragments and 1.00 GiB of headroom it needs {needed} and lacks {lacking}"
    assert told in " ".join(text.split())


def test_what_fits_says_nothing_of_fitting(run):
    assert "FIT" not in summary_text(run, width=100) and "too much" not in summary_text(run, width=100)


def test_ideal_is_called_a_bound(run):
    assert "framework profile ideal (a bound, not an estimate)" in summary_text(run, width=120)
    plan = {**run.documents["plan"], "framework": "ddp"}
    assert "bound" not in dict(header_rows({**run.documents, "plan": plan}))["model"]


def test_what_is_left_is_said(run):
    found = run.documents["summary"]
    worst = max(found["peak_memory_bytes"], key=lambda entry: entry["total"])
    needs = f"{units.size(worst['total'])} of {units.size(worst['capacity'])}"
    told = f"Fits: stage {worst['stage']} needs {needs}; {units.size(worst['left'])} left"
    assert told in summary_text(run, width=120)


def test_the_bars_of_a_mixed_cluster_have_scales_of_their_own():
    """A bar is as full as its own device, whatever others have."""
    found = simulate(Scenario.load(SCENARIOS / "mixed-h100-ascend-cpu.yaml"))
    text = summary_text(found, width=120)
    assert "Fits: stage 1 on ascend-910b-313t needs" in text
    peaks = {each["device"]: each for each in found.documents["summary"]["peak_memory_bytes"]}
    for device in ("h100-sxm", "ascend-910b-313t"):
        (line,) = (line for line in text.split("\n") if line.startswith(f"  stage 1, {device} "))
        drawn = re.search(r"[█▓▒░#=+x*:·]{10,}", line)[0]
        share = peaks[device]["total"] / peaks[device]["capacity"]
        assert len(drawn.rstrip("·")) / len(drawn) == pytest.approx(share, abs=0.02)
        assert f"{100 * share:.0f} %" in line


def test_names_are_not_read_as_markup(misfit):
    assert "\n[red]<b>\n" in summary_text(misfit, width=100)


def test_the_same_summary_from_the_file(run, tmp_path):
    run.save(tmp_path / "run")
    assert summary_text(Run.load(tmp_path / "run"), width=100) == summary_text(run, width=100)


def test_a_sample_that_is_no_sequence_counts_as_one():
    """Pictures and clicks have no tokens to speak of."""
    shown = summary_text(simulate(Scenario.load(SCENARIOS / "wide-deep-8-ascend-910.yaml")))
    assert "128,000 samples = 8 data-parallel ways" in shown
    assert "samples/s (" in shown
    assert "token" not in shown
