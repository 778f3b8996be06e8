import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.analysis.metrics.inference_metrics import INFERENCE_METRICS
from simcluster.analysis.metrics.summary import METRICS
from simcluster.baseline import Bound, bounds_of, check_bounds
from simcluster.baseline.figure import dimension, figure_text, figure_texts, is_share, short_name
from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from tests.unit.baseline.runs import made, write

EVERY = (*METRICS, *INFERENCE_METRICS)


def scenario(tmp_path, expect):
    write(tmp_path, "a", extra=f"expect: {expect}\n")
    return Scenario.load(tmp_path / "a.yaml")


def test_bounds_by_either_name(tmp_path):
    found = bounds_of(scenario(tmp_path, "{step_time: {max: 9}, peak_memory_bytes_max: {min: 1}}"))
    assert list(found) == ["step_time_s", "peak_memory_bytes_max"]


def test_wrong_names_point_into_the_file(tmp_path):
    with pytest.raises(ScenarioError) as caught:
        bounds_of(scenario(tmp_path, "{step_tme: {max: 9}, mfu: {min: 0}, fast: {min: 1}}"))
    text = str(caught.value)
    assert "a.yaml:7:10: no figure is called 'step_tme'; did you mean 'step_time'?" in text
    assert "'fast'" in text


def test_an_unknown_name_lists_the_figures_there_are(tmp_path):
    with pytest.raises(ScenarioError) as caught:
        bounds_of(scenario(tmp_path, "{fast: {max: 9}, quick: {min: 0}}"))
    text = str(caught.value)
    listed = text.partition("figures: ")[2].partition("\n")[0].split(", ")
    assert listed == [short_name(figure) for figure in METRICS]
    assert text.count("figures: ") == 1


@pytest.mark.parametrize(
    ("written", "limits"),
    [
        ("step_time: {max: 8.5 s}", (None, 8.5)),
        ("step_time: {min: 850 ms, max: 2 min}", (0.85, 120.0)),
        ("step_time: {max: 8}", (None, 8)),
        ("peak_memory: {max: 64 GiB}", (None, 64 * 2**30)),
        ("mfu: {min: 45 %, max: 0.5}", (0.45, 0.5)),
        ("bubble_fraction: {max: 12%}", (None, 0.12)),
        ("tokens_per_s: {min: 250 k tokens/s}", (250e3, None)),
        ("tokens_per_s_per_device: {min: 994 tokens/s}", (994.0, None)),
        ("samples_per_s: {min: 31.5 samples/s}", (31.5, None)),
        ("model_flops_per_s_per_device: {min: 446 TFLOP/s}", (446e12, None)),
        ("num_events: {max: 5000}", (None, 5000)),
    ],
)
def test_limits_have_units(tmp_path, written, limits):
    (found,) = bounds_of(scenario(tmp_path, f"{{{written}}}")).values()
    assert (found.least, found.most) == pytest.approx(limits)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("step_time: {max: 8 GiB}", "a.yaml:7:27: unknown unit 'GiB'; write for example '1.5 us'"),
        ("step_time: {max: fast}", "write a number with a unit, such as '1.5 us'"),
        ("mfu: {min: 45 s}", "'45 s' is not a share; write for example '45 %', or 0.45"),
        ("tokens_per_s: {min: 250 k samples/s}", "unknown unit 'k samples/s'"),
        ("num_ranks: {max: 8 s}", "num_ranks is a number without a unit"),
        ("step_time: {min: 2 s, max: 900 ms}", "min 2 s is above max 900 ms"),
        ("step_time: {min: 2 s, max: 1}", "min 2 s is above max 1.0"),
    ],
)
def test_limits_that_cannot_be(tmp_path, written, message):
    with pytest.raises(ScenarioError) as caught:
        bounds_of(scenario(tmp_path, f"{{{written}}}"))
    assert message in str(caught.value)


@settings(max_examples=200, deadline=None)
@given(
    figure=st.sampled_from([figure for figure in EVERY if dimension(figure) or is_share(figure)]),
    value=st.floats(1e-6, 1e18).map(lambda value: float(f"{value:.3g}")),
)
def test_what_a_check_prints_may_be_written_as_a_limit(figure, value):
    (told,) = figure_texts(figure, value)
    assert figure_text(figure, told.replace(",", "")) == pytest.approx(value, rel=6e-3, abs=1e-9)


def test_one_figure_under_two_names(tmp_path):
    with pytest.raises(ScenarioError, match="'step_time' and 'step_time_s' are one figure"):
        bounds_of(scenario(tmp_path, "{step_time: {max: 9}, step_time_s: {max: 8}}"))


def test_figures_are_held_against_their_bounds(tmp_path):
    expect = "{step_time: {max: 8}, mfu: {min: 0.41}, peak_memory: {min: 1e9, max: 2e9}}"
    time, mfu, memory = check_bounds(scenario(tmp_path, expect), made())
    assert time.holds
    assert not mfu.holds
    assert not memory.holds
    assert str(mfu) == "mfu is 40.0 %, expected at least 41.0 %"
    assert str(memory) == "peak_memory is 40.0 GiB, expected at least 0.931 GiB and at most 1.86 GiB"


def test_a_figure_of_attention_is_refused_where_a_model_has_none(tmp_path):
    run = made()
    del run.documents["summary"]["mfu_full_attention"]
    with pytest.raises(ScenarioError, match="only a model with attention has a mfu_full_attention"):
        check_bounds(scenario(tmp_path, "{mfu_full_attention: {min: 0.1}}"), run)


def test_bounds_are_included():
    assert Bound("mfu", 0.4, 0.4, 0.4).holds
    assert not Bound("mfu", 0.4, None, 0.3999).holds


def test_a_plan_that_is_to_run_out_of_memory_stays_a_case(tmp_path):
    written = scenario(tmp_path, "{memory: {verdict: does not fit}}")
    (bound,) = check_bounds(written, made(fits=False, verdict="does not fit"))
    assert bound.holds
    (bound,) = check_bounds(written, made(verdict="fits"))
    assert str(bound) == "its memory: fits, expected: does not fit"
    assert not bound.holds


@pytest.mark.parametrize(
    "written", ["memory: {max: 3}", "memory: {verdict: fits, min: 3}", "mfu: {verdict: fits}"]
)
def test_only_memory_has_a_verdict(tmp_path, written):
    with pytest.raises(ScenarioError, match=r"memory: \{verdict: does not fit\}"):
        bounds_of(scenario(tmp_path, f"{{{written}}}"))
