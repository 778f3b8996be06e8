"""The rule by which a plan fits, is tight, or does not fit, and that everything asks it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.memory_usage.memory_verdict import MemoryUse, MemoryVerdict, deciding_verdict
from simcluster.plan.spec import FrameworkSpec
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import plan_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios"

FITS, TIGHT, DOES_NOT_FIT = MemoryVerdict

BYTES = st.integers(0, 200)


@given(BYTES, BYTES, BYTES, BYTES)
def test_the_rule(held, fragments, capacity, headroom):
    use = MemoryUse(held, fragments, capacity, headroom)
    assert (use.verdict is DOES_NOT_FIT) == (held > capacity)
    assert (use.verdict is FITS) == (held + fragments + headroom <= capacity)
    assert (use.lacking <= 0) == (use.verdict is FITS)
    assert use.document()["fits"] == (use.verdict is FITS)
    more = MemoryUse(held, fragments, capacity + 1, headroom)
    assert more.verdict.severity <= use.verdict.severity


def small(memory, framework="megatron-core", **sections):
    """A language model on two devices with so much memory."""
    device = {"use": "h100-sxm", "memory": memory, "reserved": "0 B", "communicator": "0 B"}
    host = {"use": "dgx-h100", "devices": 2, "network": {"nics": 1}, "device": device}
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "small",
            "cluster": {"host": host, "hosts": 1},
            "framework": framework,
            "model": {"layers": 4, "hidden": 768, "heads": 12, "ffn": 2048, "vocab": 32_000},
            "training": {"global_batch": 16, "micro_batch": 4, "seq_len": 1024, "precision": "bf16"},
            "parallel": {"mesh": {"data": 2}},
        }
        | sections
    )


@pytest.fixture(scope="module")
def needs():
    """(held, fragments) of the plan, in bytes."""
    (entry,) = simulate(small("60 GiB")).documents["summary"]["peak_memory_bytes"]
    return entry["total"], entry["fragments"]


@pytest.mark.parametrize(
    ("spare", "headroom", "verdict"),
    [
        (lambda fragments: -1, "0 B", DOES_NOT_FIT),
        (lambda fragments: 0, "0 B", TIGHT),
        (lambda fragments: fragments - 1, "0 B", TIGHT),
        (lambda fragments: fragments, "0 B", FITS),
        (lambda fragments: fragments + 99, "100 B", TIGHT),
        (lambda fragments: fragments + 100, "100 B", FITS),
        (lambda fragments: fragments + (2 << 30) - 1, None, TIGHT),
        (lambda fragments: fragments + (2 << 30), None, FITS),
    ],
)
def test_fragments_and_headroom_count(needs, spare, headroom, verdict):
    """The last two: the headroom of the profile is 2 GiB."""
    held, fragments = needs
    assert fragments > 0
    run = {} if headroom is None else {"run": {"headroom": headroom}}
    found = simulate(small(f"{held + spare(fragments)} B", **run)).documents
    assert found["summary"]["verdict"] == verdict
    assert found["summary"]["fits"] == (verdict is FITS)
    (entry,) = found["summary"]["peak_memory_bytes"]
    assert entry["left"] == spare(fragments) - fragments
    assert ("excess" in entry) == (verdict is DOES_NOT_FIT)


def test_ideal_is_a_bound_without_headroom():
    assert FrameworkSpec.load("ideal").storage.headroom is None
    (entry,) = simulate(small("60 GiB", "ideal")).documents["summary"]["peak_memory_bytes"]
    assert simulate(small(f"{entry['total']} B", "ideal")).documents["summary"]["verdict"] == FITS


@pytest.mark.parametrize("name", sorted(set(FrameworkSpec.entries()) - {"ideal"}))
def test_every_profile_of_a_framework_has_a_headroom_with_its_reasoning(name):
    found = FrameworkSpec.load(name).storage.headroom
    assert found is not None and found.value > 0 and found.source
    assert found.provenance == "assumed"


def test_a_headroom_that_is_assumed_is_listed(needs):
    listed = {each["name"] for each in simulate(small("60 GiB")).documents["summary"]["assumptions"]}
    assert "headroom" in listed
    given_run = {"run": {"headroom": "1 GiB"}}
    told = simulate(small("60 GiB", **given_run)).documents
    assert "headroom" not in {each["name"] for each in told["summary"]["assumptions"]}
    assert not any("headroom" in each for each in told["plan"]["framework_changes"])


@pytest.mark.parametrize("section", ["recompute", "offload"])
def test_what_is_chosen_to_fit_fits_by_the_rule(needs, section):
    """Choosing by tensors alone would end with less than the headroom, or in fragments."""
    held, _ = needs
    parallel = {"mesh": {"data": 2}, section: "auto"}
    found = simulate(small(f"{held - (64 << 20)} B", parallel=parallel, run={"headroom": "16 MiB"}))
    assert found.documents["summary"]["verdict"] == FITS
    assert f"{section} auto" in " ".join(found.documents["plan"]["notes"])
    kept = plan_scenario(small("60 GiB", parallel=parallel)).notes
    assert any("everything fits" in note for note in kept)


@pytest.fixture(scope="module")
def mixed():
    return simulate(Scenario.load(SCENARIOS / "mixed-h100-ascend-cpu.yaml")).documents


def test_of_a_mixed_cluster_every_sort_of_devices_is_told(mixed):
    told = {(each["stage"], each["device"]): each for each in mixed["memory"]}
    peaks = mixed["summary"]["peak_memory_bytes"]
    assert set(told) == {(each["stage"], each["device"]) for each in peaks}
    for key, each in told.items():
        top = max(peak["total"] for peak in peaks if (peak["stage"], peak["device"]) == key)
        assert each["allocated"] + each["outside"] == top


def test_the_fullest_by_its_own_size_decides(mixed):
    largest = max(mixed["summary"]["peak_memory_bytes"], key=lambda each: each["total"])
    use = deciding_verdict(mixed["summary"])
    assert largest["device"] == "h100-sxm"
    assert (use.allocated, use.capacity) != (largest["total"], largest["capacity"])
    assert use.allocated / use.capacity > 0.9
