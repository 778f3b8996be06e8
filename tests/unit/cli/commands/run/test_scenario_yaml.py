from __future__ import annotations

import pytest

from simcluster.cli.commands.run.scenario_yaml import scenario_text
from simcluster.document import Document
from simcluster.scenario import Scenario
from tests.support.scenario_texts import SMALL

FLOWING = SMALL + "  strategies:\n    - {match: 'layers.*.mlp.up', split: {ffn: tensor}}  # kept\n"
ALIASED = SMALL.replace("hidden: 64", "hidden: &size 64").replace("seq_len: 16", "seq_len: *size")


@pytest.fixture
def load(tmp_path):
    def load(text, *changes):
        (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
        return Scenario.load(tmp_path / "s.yaml", changes)

    return load


@pytest.mark.parametrize(
    "changes",
    [
        [("training.micro_batch", "2")],
        [("training.global_batch", "16"), ("training.global_batch", "32")],
        [("parallel.schedule", "gpipe"), ("run.steps", "1_0"), ("expect.mfu.min", "1e-3")],
        [("parallel.strategies.0.split", "{ffn: [tensor]}")],
        [("name", "'a: # b'")],
        [("name", "näme")],
        [("model.layers", "0x4")],
        [("cluster.hosts", "0o4")],
        [("parallel.mesh", "{pipeline: 2,\n data: 2, tensor: 2}")],
    ],
)
def test_the_text_reads_as_the_changed_scenario(load, changes):
    scenario = load(FLOWING, *changes)
    text = scenario_text(scenario, changes)
    assert Document.parse(text).data == scenario.document.data
    assert "# A comment to keep." in text
    assert "# kept" in text


def test_without_changes_it_is_what_was_read(load):
    text = SMALL.replace("\n", "   \n\n")
    assert scenario_text(load(text), []) == text


def test_where_the_text_cannot_be_edited_the_data_is_written(load):
    """Behind an alias the same value stands twice; only one of them is changed."""
    changes = [("model.hidden", "32")]
    scenario = load(ALIASED, *changes)
    assert scenario.document.data["training"]["seq_len"] == 64
    assert Document.parse(scenario_text(scenario, changes)).data == scenario.document.data


def test_merged_keys(load):
    text = SMALL.replace("training: {", "training: &t {") + "  schedule: gpipe\n"
    changes = [("training.precision", "bf16")]
    scenario = load(text, *changes)
    assert Document.parse(scenario_text(scenario, changes)).data == scenario.document.data
