import json
from dataclasses import replace

from simcluster.report import result_json

CONTRACT = (
    *("step_time_s", "tokens_per_s", "tokens_per_s_per_device", "samples_per_s"),
    *("model_flops_per_s_per_device", "mfu", "hfu", "bubble_fraction", "bubble_over_compute"),
    *("mfu_full_attention", "hfu_full_attention"),
    *("compute_s", "exposed_communication_s", "pipeline_wait_s", "host_s", "idle_s"),
    *("communication_bytes", "peak_memory_bytes", "fits", "num_ranks", "num_classes", "num_events"),
    *("wall_s", "assumptions"),
)


def test_the_summary_as_it_is_with_name_and_plan(any_run):
    found = json.loads(result_json(any_run))
    summary, plan = any_run.documents["summary"], any_run.documents["plan"]
    assert found.pop("name") == plan["name"]
    assert found.pop("plan") == json.loads(json.dumps(plan))
    assert found == json.loads(json.dumps(summary))


def test_every_figure_of_the_contract_is_there(any_run):
    found = json.loads(result_json(any_run))
    for name in CONTRACT:
        assert name in found
    assert isinstance(found["fits"], bool) and isinstance(found["num_ranks"], int)
    assert isinstance(found["step_time_s"], float)


def test_same_run_same_bytes(run):
    assert result_json(run) == result_json(replace(run))
    assert result_json(run).endswith(b"}\n")


def test_a_misfit_carries_everything(misfit):
    found = json.loads(result_json(misfit))
    assert found["fits"] is False and found["step_time_s"] > 0
    worst = max(found["peak_memory_bytes"], key=lambda entry: entry["total"])
    assert worst["excess"] == worst["total"] - worst["capacity"]
    assert worst["alive"] and worst["exceeded_at_s"] <= worst["time_s"]
