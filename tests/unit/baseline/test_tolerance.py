import pytest

from simcluster.baseline.tolerance import DEFAULT, FigureTolerance, Tolerances
from simcluster.errors import ScenarioError


def test_shares_and_amounts():
    found = Tolerances.parse(
        "step_time=1%, peak_memory=512 MiB,mfu=0.01,idle=5ms,tokens_per_s_per_device=2 %"
    )
    assert found["step_time_s"] == FigureTolerance(0.01)
    assert found["peak_memory_bytes_max"] == FigureTolerance(512 * 2**20, relative=False)
    assert found["mfu"] == FigureTolerance(0.01, relative=False)
    assert found["idle_s"] == FigureTolerance(0.005, relative=False)
    assert found["tokens_per_s_per_device"] == FigureTolerance(0.02)
    assert found["hfu"] == DEFAULT


def test_several_texts_and_a_tolerance_of_all():
    found = Tolerances.parse(["1%", "mfu=0%"])
    assert found["step_time_s"] == FigureTolerance(0.01)
    assert found["mfu"] == FigureTolerance(0.0)
    assert Tolerances.parse(()) == Tolerances()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step_tim=1%", "did you mean 'step_time'"),
        ("step_time=fast", "write a number with a unit"),
        ("step_time=1 GiB", "unknown unit 'GiB'"),
        ("mfu=x", "'x' is not a number"),
        ("step_time=x%", "'x%' is not a number"),
        ("step_time=-1%", "at least 0"),
        ("step_time=nan%", "at least 0"),
        ("step_time=inf", "at least 0"),
        ("0.1", "write it with '%'"),
        ("", "is not a number"),
        ("step_time=1%,", "is not a number"),
    ],
)
def test_anything_else_is_refused_with_the_form(text, message):
    with pytest.raises(ScenarioError) as caught:
        Tolerances.parse(text)
    assert message in str(caught.value)
    assert "step_time=1%" in str(caught.value)


def test_what_is_allowed():
    assert FigureTolerance(0.01).allows(100, 101)
    assert not FigureTolerance(0.01).allows(100, 101.1)
    assert FigureTolerance(0.01).allows(-100, -101)
    assert FigureTolerance(0.01).allows(0, 0)
    assert not FigureTolerance(0.01).allows(0, 1e-12)
    assert FigureTolerance(5, relative=False).allows(0, 5)


def test_tolerances_to_read():
    assert FigureTolerance(0.001).shown("mfu") == "0.1 %"
    assert FigureTolerance(512 * 2**20, relative=False).shown("peak_memory_bytes_max") == "512 MiB"
    assert FigureTolerance(0.005, relative=False).shown("idle_s") == "5.00 ms"
