from __future__ import annotations

from dataclasses import fields

import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.plan.diagnostics.profile_description import describe_profile
from simcluster.plan.execution import ExecutionPolicy
from simcluster.plan.pass_list import PASSES
from simcluster.plan.spec.framework import IDEAL, FrameworkSpec
from simcluster.plan.switches import FrameworkSwitch
from simcluster.registry import kinds

EVERY = FrameworkSpec.load(IDEAL).settings()


def changed(**switches):
    return validate_data({"use": IDEAL, **switches}, FrameworkSpec)


def test_ideal_changes_nothing():
    assert FrameworkSpec.load(IDEAL).changes() == {}


@pytest.mark.parametrize("key", EVERY)
def test_every_switch_has_words(key):
    assert FrameworkSpec.describe(key, EVERY[key])


def test_changes_are_told_by_key_path():
    spec = changed(gather="exposed", reduction={"overlap": False, "bucket": "whole"})
    assert spec.changes() == {
        "reduction.overlap": False,
        "reduction.bucket": "whole",
        "gather": "exposed",
    }
    assert describe_profile(spec.changes()) == [
        "gradients reduced after the backward",
        "in one bucket",
        "sharded weights gathered before the forward",
    ]


def test_a_limit_is_told_with_its_size_alone():
    spec = changed(reduction={"bucket": "whole", "limit": {"bytes": "25 MiB", "first_bytes": "1 MiB"}})
    assert describe_profile(spec.changes()) == ["gradient buckets of 25 MiB, the first of 1 MiB"]
    spec = changed(
        reduction={"bucket": "whole", "limit": {"elements": 40_000_000, "elements_per_rank": 1_000_000}}
    )
    assert describe_profile(spec.changes()) == [
        "gradient buckets of 40,000,000 elements or 1,000,000 per data rank"
    ]
    spec = changed(reduction={"bucket": "whole", "limit": {"bytes": "1 B"}})
    assert describe_profile(spec.changes()) == ["every gradient reduced by itself"]


def test_a_profile_may_start_from_another():
    core, nemo = FrameworkSpec.load("megatron-core"), FrameworkSpec.load("nemo")
    assert nemo.fuse == core.fuse
    assert nemo.title != core.title
    assert nemo.reduction.overlap
    assert not core.reduction.overlap


@pytest.mark.parametrize(
    ("reduction", "message"),
    [
        ({"limit": {"bytes": "1 MB"}}, "goes with bucket: whole"),
        ({"buffers": 2.0}, "give a limit"),
        ({"bucket": "whole", "limit": {}}, "give either bytes or elements"),
        ({"bucket": "whole", "limit": {"bytes": "1 MB", "elements": 5}}, "give either bytes or elements"),
        ({"bucket": "whole", "limit": {"bytes": "1 MB", "elements_per_rank": 5}}, "goes with elements"),
        ({"bucket": "whole", "limit": {"elements": 5, "first_bytes": "1 kB"}}, "goes with bytes"),
    ],
)
def test_what_contradicts_itself_is_refused(reduction, message):
    with pytest.raises(ScenarioError, match=message):
        changed(reduction=reduction)


def test_gradients_by_compute_format():
    spec = FrameworkSpec.load("megatron-core")
    assert spec.gradients_in("fp16") == "compute"
    assert spec.gradients_in("bf16") == "fp32"
    assert spec.gradients_in("fp32") == "fp32"
    assert FrameworkSpec.load("deepspeed-zero").gradients_in("bf16") == "compute"


@pytest.mark.parametrize("switch", kinds("simcluster.plan.switches", FrameworkSwitch).values())
def test_values_of_a_switch_have_words_and_change_what_there_is(switch):
    for value in switch:
        assert value.words == FrameworkSpec.describe(switch.kind, value.value)
        assert set(value.execution) <= {field.name for field in fields(ExecutionPolicy)}
        assert set(value.settings) <= set(PASSES)
        assert changed(**{switch.kind: value.value}).settings()[switch.kind] == value.value


@pytest.mark.parametrize(
    ("switches", "path"),
    [
        ({"calls": {"matmull": 3}}, "calls"),
        ({"traffic": {"rms_norm": 2, "weighed_swigluu": 2}}, "traffic"),
        ({"fuse": [["matmul", "byas"]]}, "fuse"),
        ({"storage": {"in_place": ["los"]}}, "storage.in_place"),
    ],
)
def test_an_operator_that_nobody_has_is_refused(switches, path):
    """A slip of the pen would change nothing, and nothing would say so."""
    with pytest.raises(ScenarioError, match="no operator and no family of operators is called") as refused:
        changed(**switches)
    assert [problem.path for problem in refused.value.problems] == [path]


def test_names_of_kinds_families_and_weighed_functions_are_known():
    assert changed(calls={"matmul": 3, "router": 2}, traffic={"weighed_swiglu_grad": 2}).calls["router"] == 2
