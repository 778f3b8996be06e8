import pytest

from simcluster.analysis.metrics.inference_metrics import INFERENCE_METRICS
from simcluster.analysis.metrics.summary import METRICS
from simcluster.baseline.figure import (
    JUDGED,
    GoodDirection,
    dimension,
    figure_named,
    figure_texts,
    good_direction,
    is_share,
    short_name,
)
from simcluster.units import Dimension

EVERY = (*METRICS, *INFERENCE_METRICS)


@pytest.mark.parametrize(
    ("figure", "name"),
    [
        ("step_time_s", "step_time"),
        ("peak_memory_bytes_max", "peak_memory"),
        ("pipeline_wait_s_max", "pipeline_wait_max"),
        ("tokens_per_s", "tokens_per_s"),
        ("tokens_per_s_per_device", "tokens_per_s_per_device"),
        ("mfu", "mfu"),
        ("num_events", "num_events"),
    ],
)
def test_short_names_are_without_unit(figure, name):
    assert short_name(figure) == name
    assert figure_named(name) == figure_named(figure) == figure


def test_every_figure_has_one_short_name():
    assert len({short_name(figure) for figure in EVERY}) == len(EVERY)
    assert set(JUDGED) <= set(EVERY)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ValueError, match="no figure is called 'step_tme'; did you mean 'step_time'"):
        figure_named("step_tme")


@pytest.mark.parametrize("figure", EVERY)
def test_every_figure_has_a_direction(figure):
    more = {
        "tokens_per_s",
        "tokens_per_s_per_device",
        "samples_per_s",
        "model_flops_per_s_per_device",
        "mfu",
        "hfu",
        "mfu_full_attention",
        "hfu_full_attention",
        "prefill_mfu",
        "decode_mbu",
    }
    expected = (
        GoodDirection.UP
        if figure in more
        else GoodDirection.NOWHERE
        if figure.startswith("num_")
        else GoodDirection.DOWN
    )
    assert good_direction(figure) is expected


def test_dimensions():
    assert dimension("step_time_s") is dimension("idle_s_max") is Dimension.TIME
    assert dimension("peak_memory_bytes_max") is Dimension.BYTES
    assert dimension("tokens_per_s") is dimension("tokens_per_s_per_device") is Dimension.TOKEN_RATE
    assert dimension("model_flops_per_s_per_device") is Dimension.COMPUTE
    assert dimension("mfu") is dimension("num_ranks") is dimension("slowdown") is None
    assert is_share("mfu") and is_share("bubble_fraction")
    assert not is_share("num_ranks") and not is_share("slowdown") and not is_share("step_time_s")


@pytest.mark.parametrize(
    ("figure", "values", "expected"),
    [
        ("step_time_s", (7.9562,), ("7.96 s",)),
        ("step_time_s", (7.9562, 7.9601), ("7.956 s", "7.960 s")),
        ("step_time_s", (0.9, 1.2), ("0.900 s", "1.20 s")),
        ("step_time_s", (3e-8,), ("30.0 ns",)),
        ("step_time_s", (0.0, 0.0), ("0 s", "0 s")),
        ("step_time_s", (0.0, 0.25), ("0 ms", "250 ms")),
        ("peak_memory_bytes_max", (40 * 2**30, 41 * 2**30), ("40.0 GiB", "41.0 GiB")),
        ("mfu", (0.4567, 0.4), ("45.7 %", "40.0 %")),
        ("tokens_per_s", (263587.2,), ("263,587 tokens/s",)),
        ("model_flops_per_s_per_device", (4.6e14,), ("460 TFLOP/s",)),
        ("num_events", (63838, 32286), ("63,838", "32,286")),
        ("num_events", (100000, 100001), ("100,000", "100,001")),
    ],
)
def test_values_are_read_in_one_unit_with_digits_that_tell_them_apart(figure, values, expected):
    assert figure_texts(figure, *values) == expected


def test_values_that_no_sensible_digits_tell_apart():
    shown = figure_texts("step_time_s", 1.0, 1.0 + 1e-15)
    assert shown[0] == shown[1]
