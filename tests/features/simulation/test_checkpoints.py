"""Checkpoints of small runs on values, and what those of scenarios hold and cost."""

import json

import numpy as np
import pytest

from simcluster.errors import PlanError, ScenarioError
from simcluster.job import SourceSlices
from simcluster.program import build
from simcluster.scenario import Scenario
from simcluster.simulation import (
    load_for_inference,
    price_checkpoints,
    resume_checkpoint,
    save_small_run,
    simulate,
    strategy_file_of,
    transform_checkpoint,
)
from simcluster.simulation.checkpoints import content_of
from simcluster.simulation.compose import plan_scenario
from tests.support.checkpoint_pairs import assert_resumes, random_pair
from tests.support.covering import quick
from tests.support.scenarios import TINY, scenario
from tests.support.servers import BY_ROWS, WIDE_DEEP, server_scenario

ADAM = {"optimizer": "adamw", "precision": "bf16"}
STORAGE = {
    name: {"value": value, "source": "a test", "provenance": "assumed"}
    for name, value in (("read", "20 GB/s"), ("write", "10 GB/s"), ("host", "4 GB/s"))
}


def source():
    return scenario(
        {"data": 2, "tensor": 2, "pipeline": 2},
        training=ADAM,
        optimizer_sharding={"zero": 1, "min_bytes": "0 B"},
    )


def target():
    return scenario({"pipeline": 4, "data": 2}, training=ADAM)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints") / "small"
    assert save_small_run(source(), folder).agrees
    return folder


@pytest.mark.parametrize(
    "seed", [8, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (0, 6, 1409))]
)
def test_a_run_goes_on_under_another_plan(seed):
    """Sharded and replicated, with and without master copies, dense and with experts."""
    assert_resumes(*random_pair(seed))


@pytest.mark.parametrize("seed", quick(range(100, 121), later=range(110, 121)))
def test_runs_go_on_under_other_plans(seed):
    assert_resumes(*random_pair(seed))


@pytest.mark.exhaustive
@pytest.mark.parametrize("hundred", range(50))
def test_five_thousand_pairs(hundred):
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        assert_resumes(*random_pair(seed))


def test_cut_for_another_plan_and_gone_on_with(saved, tmp_path):
    index, slices = transform_checkpoint(saved, target(), tmp_path / "cut")
    assert index.content.mesh.num_ranks == 8 and slices.num_files.max() > 1
    assert len(list((tmp_path / "cut").glob("rank_*.safetensors"))) == 8
    found = resume_checkpoint(tmp_path / "cut", save=tmp_path / "merged", merged=True)
    found.check()
    assert {each.step for each in found.comparisons} == {2, 3}
    assert sorted(path.name for path in (tmp_path / "merged").iterdir()) == [
        "checkpoint.json",
        "merged.safetensors",
    ]
    assert resume_checkpoint(tmp_path / "merged", steps=1).agrees


@pytest.mark.parametrize(
    "what",
    [
        "layers.1.mlp.down.weight.moment2",
        pytest.param("layers.1.mlp.down.weight", marks=pytest.mark.thorough),
        pytest.param("head.norm.weight.master", marks=pytest.mark.thorough),
    ],
)
def test_one_wrong_element_is_noticed(saved, tmp_path, what):
    """What ranks go on with is what files hold: the comparison fails with any other value."""
    from safetensors.numpy import load_file, save_file

    transform_checkpoint(saved, target(), tmp_path / "cut")
    changed = 0
    for path in (tmp_path / "cut").glob("rank_*"):
        arrays = load_file(path)
        if what in arrays:
            arrays[what].reshape(-1)[0] += 0.5
            save_file(arrays, path)
            changed += 1
    assert changed == 2
    assert not resume_checkpoint(tmp_path / "cut").agrees


def _without_a_rank(folder):
    (folder / "rank_00003.safetensors").unlink()
    return "rank_00003.safetensors is missing"


def _garbage(folder):
    (folder / "rank_00003.safetensors").write_bytes(b"\x80\x04.not safetensors")
    return "is not a safetensors file"


def _without_a_tensor(folder):
    from safetensors.numpy import load_file, save_file

    arrays = load_file(folder / "rank_00000.safetensors")
    del arrays["embedding.tokens.weight.moment1"]
    save_file(arrays, folder / "rank_00000.safetensors")
    return "rank_00000.safetensors lacks embedding.tokens.weight.moment1"


def _of_another_shape(folder):
    from safetensors.numpy import load_file, save_file

    arrays = load_file(folder / "rank_00000.safetensors")
    arrays["embedding.tokens.weight"] = np.zeros((3, 3))
    save_file(arrays, folder / "rank_00000.safetensors")
    return r"has embedding.tokens.weight as \[3, 3\], not"


def _without_an_index(folder):
    (folder / "checkpoint.json").unlink()
    return "is not a checkpoint: it has no checkpoint.json"


def _broken_index(folder):
    index = json.loads((folder / "checkpoint.json").read_text())
    index["tensors"][0]["split"] = [["nowhere"], []]
    (folder / "checkpoint.json").write_text(json.dumps(index))
    return "which are not axes of the mesh"


@pytest.mark.parametrize(
    "broken",
    [_without_a_rank, _garbage, _without_a_tensor, _of_another_shape, _without_an_index, _broken_index],
)
def test_what_is_no_whole_checkpoint_is_refused(saved, tmp_path, broken):
    import shutil

    folder = tmp_path / "broken"
    shutil.copytree(saved, folder)
    says = broken(folder)
    with pytest.raises(ScenarioError, match=says):
        transform_checkpoint(folder, target(), tmp_path / "cut")
    assert not (tmp_path / "cut").exists() and not list(tmp_path.glob(".*"))


def test_other_models_and_optimizers_are_refused(saved, tmp_path):
    other = scenario({"data": 2}, model=TINY | {"layers": 6})
    with pytest.raises(ScenarioError, match="another model, that of 'test': layers 4, not 6"):
        transform_checkpoint(saved, other, tmp_path / "cut")
    momentum = scenario({"data": 2}, training={"optimizer": "momentum"})
    with pytest.raises(PlanError, match=r"embedding\.tokens\.weight\.velocity is missing"):
        transform_checkpoint(saved, momentum, tmp_path / "cut")
    wide = scenario({"tensor": 4}, training=ADAM)
    with pytest.raises(PlanError, match=r"on the small model \(layers 4, .*does not divide"):
        transform_checkpoint(saved, wide, tmp_path / "cut")
    assert not (tmp_path / "cut").exists()


def test_nothing_else_is_written_over(saved, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    with pytest.raises(ScenarioError, match="is there already, and is not a checkpoint"):
        transform_checkpoint(saved, target(), tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]


def test_weights_are_loaded_for_inference(saved):
    trained = source()
    data = trained.spec.model_dump(mode="json", exclude_unset=True)
    del data["training"]
    data["inference"] = {"batch": 2, "micro_batch": 2, "prompt": 4, "tokens": 3}
    data["parallel"] = {"mesh": {"tensor": 2}}
    data["cluster"]["hosts"] = 1
    found, slices = load_for_inference(saved, Scenario.of(data))
    found.check()
    assert {each.what for each in found.comparisons} == {"logits", "token"}
    assert slices.num_files.tolist() == [2, 2], "one of each stage"


# -- bytes and seconds ----------------------------------------------------------------------------------


def test_fourteen_bytes_for_every_parameter():
    """bf16 weights, fp32 master copies and two moments: 2 + 4 + 4 + 4 (BLOOM's README), each once."""
    trained = source()
    plan = plan_scenario(trained)
    content = content_of(build(plan))
    parameters = sum(kind.num_elements for _, kind in plan.logical.parameters())
    assert content.num_bytes == 14 * parameters == content.once_bytes.sum()
    weights = content_of(build(plan), weights_only=True)
    assert weights.num_bytes == 2 * parameters


def test_weights_that_are_made_from_master_copies_are_not_saved():
    """12 bytes for every parameter: 405B are 4.9 TB, not 5.7."""
    shared = {"storage": {"kind": "shared"}}
    saved, rebuilt = (price_checkpoints(costs({**shared, "weights": how})) for how in ("saved", "rebuilt"))
    assert rebuilt.content.num_bytes * 14 == saved.content.num_bytes * 12
    assert rebuilt.load.num_bytes == rebuilt.content.rank_bytes.sum() < saved.load.num_bytes
    with pytest.raises(PlanError, match="no weight has a master copy"):
        price_checkpoints(costs({**shared, "weights": "rebuilt"}, training={"precision": "fp32"})).document()
    # Another plan can be loaded from it: weights come out of master copies, of which 4 bytes are read.
    two, four = (content_of(build(plan_scenario(scenario({"data": n}, training=ADAM)))) for n in (2, 4))
    slices = SourceSlices(two.without_rebuilt(), four)
    assert slices.read_bytes.tolist() == [two.num_bytes // 14 * 16] * 4


def test_weights_of_fp32_are_read_whole_for_bf16():
    """Of a plan in fp32, 4 bytes for each weight and for its master copy are read, and 8 for the moments."""
    fp32, bf16 = (
        content_of(build(plan_scenario(scenario({"data": 2}, training=training))))
        for training in (ADAM | {"precision": "fp32"}, ADAM)
    )
    slices = SourceSlices(fp32, bf16)
    assert slices.read_bytes.tolist() == [fp32.num_bytes // 12 * 16] * 2


ZERO_3 = {"optimizer_sharding": {"zero": 3}}


def costs(checkpoints, *, training=None, **others):
    made = scenario(
        {"data": 4, "tensor": 2},
        host="dgx-h100",
        devices=4,
        model={"layers": 8, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 4096},
        training=ADAM | (training or {}),
        **others,
    )
    data = made.spec.model_dump(mode="json", exclude_unset=True)
    data["cluster"]["storage"] = STORAGE
    data["job"] = {"steps": 1000, "checkpoints": {"every": 10, **checkpoints}}
    return Scenario.of(data)


def test_seconds_of_a_save_to_disks_by_hand():
    found = price_checkpoints(costs({"storage": {"kind": "disks", "open": "0 s"}}))
    of_host = found.content.rank_bytes.reshape(-1, 4).sum(axis=1).max()
    phases = found.save_phases
    assert phases["write_s"] == pytest.approx(of_host / 24e9, rel=1e-3)
    assert phases["copy_s"] == pytest.approx(found.content.rank_bytes.max() / (63e9 * 0.83), rel=1e-3)
    assert found.save.blocking_s == pytest.approx(phases["write_s"] + phases["copy_s"])
    assert (found.save.background_s, found.save.step_s) == (0.0, found.step_s)
    assert found.load.num_bytes == found.content.rank_bytes.sum()


def test_seconds_of_a_save_to_shared_storage_by_hand():
    """Two hosts of 4 GB/s: their own links bind, not the 10 GB/s of all; written once halves nothing of them
    evenly, so the fuller host counts.
    """
    shared = {"kind": "shared", "open": "2 ms", "opens_per_second": 1000}
    every = price_checkpoints(costs({"storage": shared}))
    of_host = every.content.rank_bytes.reshape(-1, 4).sum(axis=1).max()
    assert every.save_phases["write_s"] == pytest.approx(of_host / 4e9, rel=1e-3)
    assert every.save_phases["open_s"] == pytest.approx(8 / 1000)
    once = price_checkpoints(costs({"storage": shared, "remove_redundancy": True}))
    assert once.save.num_bytes == once.content.num_bytes
    assert once.save_phases["write_s"] < every.save_phases["write_s"]


def test_the_first_of_those_that_hold_the_same_reads_it_for_all():
    """Ranks 0 and 1, of host 0, read all over its link of 4 GB/s; the others get it by broadcasts."""
    shared = {"storage": {"kind": "shared", "open": "0 s"}}
    every, first = (price_checkpoints(costs({**shared, "readers": readers})) for readers in ("all", "first"))
    content = first.content
    assert every.load.num_bytes == content.rank_bytes.sum() >= 4 * content.num_bytes
    assert first.load.num_bytes == content.num_bytes == content.first_bytes[:2].sum()
    assert first.loading.files.tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    own = content.rank_bytes.max()
    opened = 2 / 20_000
    before = opened + content.num_bytes / 4e9 + own / (63e9 * 0.83)
    # A group has two ranks on each host, and so two cards of 50 GB/s.
    assert before + own / 100e9 < first.load.seconds < before + 1.1 * own / 100e9
    every, first = (
        price_checkpoints(costs({**shared, "readers": readers}, **ZERO_3)) for readers in ("all", "first")
    )
    # All but norms is sharded over everything: each rank reads what nobody else does.
    assert first.load.num_bytes == first.content.num_bytes
    assert first.load.seconds == pytest.approx(every.load.seconds, rel=1e-3)


def test_merged_checkpoints_are_gathered():
    merged = price_checkpoints(costs({"storage": {"kind": "shared"}, "merged": True}))
    first = price_checkpoints(costs({"storage": {"kind": "shared"}, "merged": True, "writers": "first"}))
    assert merged.save_phases["gather_s"] == first.save_phases["gather_s"] > 0
    assert merged.save.num_bytes == 8 * first.save.num_bytes == 8 * first.content.num_bytes


def test_beside_training_steps_take_longer_where_links_are_shared():
    """Replicas cross the network that gradients cross; a file system on links of its own disturbs nobody."""
    found = price_checkpoints(costs({"storage": {"kind": "replicas"}, "asynchronous": True}))
    assert found.save.step_s > found.step_s * 1.01
    alone = price_checkpoints(costs({"storage": {"kind": "shared"}, "asynchronous": True}))
    assert alone.save.step_s == alone.step_s
    assert alone.save.blocking_s + alone.save.background_s >= sum(alone.save_phases.values()) * 0.999


def test_disks_are_shared_with_what_is_offloaded():
    away = {"offload": {"optimizer_states": "disk"}, "optimizer_sharding": {"zero": 1}}
    found = price_checkpoints(costs({"storage": {"kind": "disks"}, "asynchronous": True}, **away))
    assert found.save.step_s > found.step_s * 1.05
    # What lies on the disks already is not copied from devices again.
    assert found.content.device_bytes.sum() < found.content.rank_bytes.sum()


def test_checkpoints_that_are_kept_must_fit_onto_disks():
    many = {"storage": {"kind": "disks"}, "keep": 10_000_000}
    with pytest.raises(PlanError, match="10000000 checkpoints take 10000000 x"):
        price_checkpoints(costs(many)).document()


def test_what_is_not_written_in_time_is_waited_for():
    slow = {"kind": "object_store", "connections": 1, "connection": "1 MB/s"}
    found = price_checkpoints(costs({"storage": slow, "asynchronous": True}))
    assert found.save.background_s == pytest.approx(10 * found.save.step_s)
    assert found.save.blocking_s > 10


def test_loading_what_another_plan_saved(tmp_path):
    other = costs({"storage": {"kind": "disks"}})
    data = other.spec.model_dump(mode="json", exclude_unset=True)
    (tmp_path / "other.json").write_text(json.dumps(data))
    wanted = {"storage": {"kind": "disks"}, "load": {"from": "other.json", "read": "files"}}
    made = costs(wanted, **ZERO_3)
    here = Scenario(made.spec, None, tmp_path)
    found = price_checkpoints(here)
    told = found.document()["load"]["transformed"]
    assert told["slice_bytes"] == found.content.rank_bytes.sum()
    # On local disks all files go to all hosts first: one host's half from the other, and onto its disks.
    whole = found.source.source.rank_bytes.sum()
    assert found.load.seconds > whole / 2 / 24e9
    strategy = tmp_path / "strategy.json"
    strategy.write_text(json.dumps(strategy_file_of(other).document()))
    by_file = {**wanted, "load": {"strategy": "strategy.json", "read": "files"}}
    again = price_checkpoints(Scenario(costs(by_file, **ZERO_3).spec, None, tmp_path))
    assert again.load == found.load
    # The job begins with that load; what fails later is read from a checkpoint of its own.
    assert found.reload == price_checkpoints(costs({"storage": {"kind": "disks"}}, **ZERO_3)).load
    job = simulate(here).documents["job"]
    assert job["lost_s"]["launch"]["load"] == pytest.approx(found.load.seconds, abs=1e-9)


def test_failures_load_what_the_job_saved(tmp_path):
    saved = costs({"storage": {"kind": "shared"}}).spec.model_dump(mode="json", exclude_unset=True)
    (tmp_path / "other.json").write_text(json.dumps(saved))
    made = costs({"storage": {"kind": "shared"}, "load": {"from": "other.json", "read": "files"}}, **ZERO_3)
    data = made.spec.model_dump(mode="json", exclude_unset=True)
    for at, is_saved in (("301 s", False), ("305 s", True)):
        data["job"]["failures"] = {"events": [{"at": at, "device": 1}]}
        here = Scenario(Scenario.of(data).spec, None, tmp_path)
        lost, found = simulate(here).documents["job"]["lost_s"], price_checkpoints(here)
        assert found.load.seconds > 2 * found.reload.seconds
        loaded = found.reload if is_saved else found.load
        assert lost["failed device"]["load"] == pytest.approx(loaded.seconds, abs=1e-9)


@pytest.mark.parametrize(
    ("storage", "replaces", "said"),
    [
        ("disks", True, "local disks"),
        ("disks", False, ""),
        ("replicas", True, "2 hosts"),
        ("shared", True, ""),
    ],
)
def test_what_is_gone_with_a_host_is_said_to_be_read_all_the_same(storage, replaces, said):
    data = costs({"storage": {"kind": storage}}).spec.model_dump(mode="json", exclude_unset=True)
    data["job"]["failures"] = {"events": [{"at": "301 s", "host": 1, "replaces": replaces}]}
    notes = Scenario.of(data).spec.job.remarks
    assert [said in note for note in notes] == [True] * bool(said)


def test_a_run_has_the_figures():
    made = costs({"storage": {"kind": "shared"}})
    document = simulate(made).documents["job"]["checkpoints"]
    assert document == price_checkpoints(made).document()
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize(
    "checkpoints, says",
    [
        ({"storage": {"kind": "replicas", "copies": 2}}, "2 copies on other hosts, but the cluster has 2"),
        ({"storage": {"kind": "disks"}, "load": {"from": "nowhere.yaml"}}, "nowhere.yaml"),
    ],
)
def test_what_cannot_be_saved_so(checkpoints, says):
    with pytest.raises((PlanError, ScenarioError), match=says):
        price_checkpoints(costs(checkpoints)).document()


@pytest.mark.parametrize(
    "checkpoints, says",
    [
        ({"storage": {"kind": "disks"}, "writers": "first"}, "every rank has something else to write"),
        ({"storage": {"kind": "disks"}, "merged": True, "remove_redundancy": True}, "are equal"),
        ({"storage": {"kind": "replicas"}, "merged": True}, "not merged"),
        (
            {"storage": {"kind": "shared"}, "weights": "rebuilt", "optimizer_states": False},
            "no master copies",
        ),
        ({"storage": {"kind": "disks"}, "readers": "first"}, "not in reach of all hosts"),
        ({"storage": {"kind": "shared"}, "readers": "first", "merged": True}, "reads whole tensors"),
        (
            {"storage": {"kind": "shared"}, "readers": "first", "load": {"from": "a.yaml"}},
            "another plan's checkpoint by themselves",
        ),
        ({"storage": {"kind": "disks"}, "load": {}}, "one of the two"),
        ({"storage": {"kind": "tape"}}, "tape"),
        ({}, "storage"),
    ],
)
def test_keys_that_do_not_go_together(checkpoints, says):
    with pytest.raises(ScenarioError, match=says):
        costs(checkpoints)


# -- parameter servers ----------------------------------------------------------------------------------

DISKS = {
    name: {"value": value, "source": "a test", "provenance": "assumed"}
    for name, value in (("count", 2), ("capacity", "1 TB"), ("read", "6 GB/s"), ("write", "2 GB/s"))
}


def served(checkpoints, **servers):
    made = server_scenario(4, 2, **servers)
    data = made.spec.model_dump(mode="json", exclude_unset=True)
    for group in data["cluster"]["groups"]:
        group["host"]["disks"] = DISKS
    data["job"] = {"steps": 1000, "checkpoints": {"every": 10, "storage": {"kind": "disks"}, **checkpoints}}
    return Scenario.of(data)


def test_every_server_writes_its_keys():
    """Weights and one state in fp32, each on one server; workers have copies, which nobody saves."""
    found = price_checkpoints(served({}))
    elements = sum(kind.num_elements for _, kind in found.built.plan.logical.parameters())
    assert found.content.rank_bytes[:4].sum() == 0
    assert found.save.num_bytes == found.content.rank_bytes.sum() == 8 * elements
    assert found.save_phases["write_s"] == pytest.approx(found.content.rank_bytes.max() / 2e9, rel=1e-3)
    told = simulate(served({})).documents["job"]["checkpoints"]
    assert told == found.document()


def test_rows_in_caches_are_saved_by_the_workers_that_have_them():
    rows = {"model": WIDE_DEEP, "training": {"optimizer": BY_ROWS}, "vocab_cache_size": 100}
    content = price_checkpoints(served({}, ids="zipf:1.1", **rows)).content
    # A row of the wide table has one element and two states, one of the deep table eight and two states.
    assert content.rank_bytes[:4].tolist() == [100 * 4 * (3 + 24)] * 4


def test_what_servers_cannot_do_with_checkpoints():
    asked = {"merged": True, "asynchronous": True, "load": {"strategy": "other.json"}}
    with pytest.raises(PlanError) as raised:
        price_checkpoints(served(asked))
    problems = {problem.path: problem.message for problem in raised.value.problems}
    assert "parameter servers do not gather" in problems["job.checkpoints.merged"]
    assert "is the state of no step" in problems["job.checkpoints.asynchronous"]
    assert "are no layout" in problems["job.checkpoints.load"]


@pytest.mark.thorough
def test_disks_of_every_group_of_hosts_must_hold_what_is_kept():
    with pytest.raises(PlanError, match=r"1000000000 x .* of a host's disks of"):
        price_checkpoints(served({"keep": 10**9})).document()


def test_what_servers_hold_is_not_cut_for_other_plans(tmp_path):
    with pytest.raises(PlanError, match="only the servers of the same plan can load it"):
        save_small_run(served({}), tmp_path / "small")
