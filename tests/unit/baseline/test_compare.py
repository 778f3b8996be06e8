import pytest

from simcluster.baseline.compare import CheckOutcome, CheckStatus, Drift, DriftVerdict, drifts
from simcluster.baseline.record import Record
from simcluster.baseline.tolerance import FigureTolerance, Tolerances
from simcluster.errors import ScenarioError
from tests.unit.baseline.runs import made, slower

OLD = Record.of(made())


def outcome(run, tolerances=""):
    new = Record.of(run)
    wanted = Tolerances.parse(tolerances) if tolerances else Tolerances()
    return CheckOutcome("a.yaml", OLD, new, drifts(OLD, new, wanted))


def moved(found):
    return {drift.figure: drift.verdict for drift in found.drifts}


def test_the_same_figures():
    found = outcome(made())
    assert found.drifts == ()
    assert found.status is CheckStatus.SAME


def test_slower_is_worse_and_faster_better():
    assert outcome(slower(1.02)).status is CheckStatus.WORSE
    assert outcome(slower(0.98)).status is CheckStatus.BETTER
    assert moved(outcome(slower(1.02))) == {"step_time_s": DriftVerdict.WORSE}


def test_throughput_that_follows_the_step_time_is_judged_with_it():
    """mfu falls by 0.5 %, beyond its own default of 0.1 %, because the step takes 0.5 % longer."""
    assert outcome(slower(1.005), "step_time=1%").status is CheckStatus.SAME
    assert outcome(slower(1.005), "step_time=1%,mfu=0.1%").status is CheckStatus.WORSE


def test_throughput_that_moves_by_itself_is_judged():
    assert moved(outcome(made(mfu=0.39))) == {"mfu": DriftVerdict.WORSE}
    assert moved(outcome(made(tokens_per_s=1010.0))) == {"tokens_per_s": DriftVerdict.BETTER}


def test_more_memory_is_worse():
    assert outcome(made(peak_memory_bytes_max=41 * 2**30)).status is CheckStatus.WORSE
    assert outcome(made(peak_memory_bytes_max=41 * 2**30), "peak_memory=1GiB").status is CheckStatus.SAME


def test_better_and_worse_together_is_worse():
    assert outcome(slower(0.9, peak_memory_bytes_max=50 * 2**30)).status is CheckStatus.WORSE


def test_what_explains_is_shown_but_judged_only_on_request():
    run = made(pipeline_wait_s=1.5, num_events=2.0)
    found = outcome(run)
    assert moved(found) == {"pipeline_wait_s": DriftVerdict.WORSE, "num_events": DriftVerdict.MOVED}
    assert found.status is CheckStatus.DRIFTED
    assert outcome(run, "pipeline_wait=10%").status is CheckStatus.WORSE
    assert outcome(run, "num_events=10%").status is CheckStatus.WORSE
    assert outcome(run, "num_events=200%,pipeline_wait=200%").status is CheckStatus.SAME


def test_fitting_is_judged_whatever_the_figures_say():
    assert outcome(made(fits=False)).status is CheckStatus.WORSE
    old = Record.of(made(fits=False))
    assert CheckOutcome("a.yaml", old, Record.of(made())).status is CheckStatus.BETTER
    assert CheckOutcome("a.yaml", old, old).status is CheckStatus.SAME


def test_what_becomes_tight_is_worse_but_not_by_the_rule_of_an_older_version():
    fits, tight, over = (
        Record.of(made(fits=said == "fits", verdict=said)) for said in ("fits", "tight", "does not fit")
    )
    order = (fits, tight, over)
    for before, old in enumerate(order):
        for after, new in enumerate(order):
            expected = {-1: CheckStatus.BETTER, 0: CheckStatus.SAME, 1: CheckStatus.WORSE}
            sign = (after > before) - (after < before)
            assert CheckOutcome("a.yaml", old, new).status is expected[sign]
    earlier = Record.of(made(fits=True))
    assert earlier.verdict is None
    assert CheckOutcome("a.yaml", earlier, tight).status is CheckStatus.SAME
    assert CheckOutcome("a.yaml", earlier, over).status is CheckStatus.WORSE


def test_other_ends():
    assert CheckOutcome("a.yaml", None, OLD).status is CheckStatus.NEW
    assert CheckOutcome("a.yaml", OLD).status is CheckStatus.MISSING
    assert CheckOutcome("a.yaml", OLD, error=ScenarioError("broken")).status is CheckStatus.WRONG


def test_figures_of_another_version_are_left_out():
    old = Record(name="n", program="p", fits=True, metrics={"step_time_s": 8.0, "gone_s": 1.0})
    assert drifts(old, OLD, Tolerances()) == ()


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (8.0, 8.25, "+3.1 %"),
        (8.0, 7.9, "-1.2 %"),
        (100.0, 100.2, "+0.20 %"),
        (0.0, 1.0, "from 0"),
        (1.0, 31.0, "+3,000.0 %"),
    ],
)
def test_changes_to_read(old, new, text):
    assert Drift("step_time_s", old, new, FigureTolerance(0.001), True).change == text
