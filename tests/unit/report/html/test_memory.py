"""What reports say of memory beyond its peak: reserved, over time by stage, alive."""

from dataclasses import replace

import pytest

from simcluster.plan.spec import FrameworkSpec
from simcluster.report import report_page, summary_text
from simcluster.report.content.statements import fullest_device, reserved_text
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.h100_scenarios import h100
from tests.support.html_page import Page


@pytest.fixture(scope="module")
def torch_run():
    """Two stages under a profile with an allocator."""
    which = h100({"pipeline": 2, "data": 2, "tensor": 2})
    return simulate(
        Scenario(
            which.spec.model_copy(update={"framework": FrameworkSpec.load("megatron-core")}),
            None,
            which.folder,
        )
    )


def test_an_allocator_is_told_by_stage(torch_run):
    text = Page("".join(report_page(torch_run))).text
    assert "reserved, by replay through the allocator torch" in text
    entry = fullest_device(torch_run.documents)
    assert reserved_text(torch_run.documents) in " ".join(summary_text(torch_run, width=400).split())
    assert f"stage {entry['stage']}" in reserved_text(torch_run.documents)


def test_without_one_nothing_is_said_of_it(run):
    assert reserved_text(run.documents) == ""
    text = Page("".join(report_page(run))).text
    assert "by replay through the allocator" not in text
    assert "dashed" not in text


def test_files_of_earlier_versions_say_less(run):
    documents = {name: found for name, found in run.documents.items() if name != "memory"}
    earlier = replace(run, documents=documents)
    text = Page("".join(report_page(earlier))).text
    assert "at its peak" in text
    assert "Over time" in text
    assert reserved_text(documents) == ""
    assert summary_text(earlier, width=100)


def test_what_fits_only_once_blocks_are_given_back_is_said(torch_run):
    (entry, *_) = torch_run.documents["memory"]
    tight = entry | {"capacity": entry["outside"] + (entry["allocated"] + entry["reserved"]) // 2}
    assert "the allocator must return" in reserved_text({"memory": [tight]})
    assert "the allocator must return" not in reserved_text({"memory": [entry]})


def test_devices_on_which_nothing_is_reserved_have_no_fragments(torch_run):
    first, *others = torch_run.documents["memory"]
    empty = first | {"reserved": 0, "allocated": 0}
    shown = replace(torch_run, documents={**torch_run.documents, "memory": [empty, *others]})
    assert "0.0 %" in Page("".join(report_page(shown))).text
