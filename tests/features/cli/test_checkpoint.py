"""simcluster checkpoint, and verify --save."""

import pytest


@pytest.fixture
def saved(simcluster, small):
    assert simcluster("verify", small, "--save", "saved").code == 0
    return "saved"


def test_saved_cut_and_gone_on_with(simcluster, small, saved):
    cut = simcluster("checkpoint", "transform", saved, "--to", small, "--out", "cut", "--rank", "0")
    assert cut.code == 0 and "rank 0 needs" in cut.out and "written: cut" in cut.err
    resumed = simcluster("checkpoint", "resume", "cut", "--steps", "1", "--save", "more", "--merged")
    assert resumed.code == 0 and "agrees with one device" in resumed.out


def test_what_is_refused(simcluster, small, saved, here):
    (here / "saved" / "rank_00000.safetensors").write_bytes(b"nothing")
    refused = simcluster("checkpoint", "resume", saved)
    assert refused.code == 2 and "is not a safetensors file" in refused.err
    refused = simcluster("checkpoint", "transform", small, "--to", small, "--out", "cut")
    assert refused.code == 2 and "has no values to write" in refused.err
    refused = simcluster("checkpoint", "transform", saved, "--to", small)
    assert refused.code == 2 and "--out DIR" in refused.err
    refused = simcluster("checkpoint", "costs", small)
    assert refused.code == 2 and "has no job.checkpoints" in refused.err
    refused = simcluster("verify", small, small, "--save", "both")
    assert refused.code == 2 and "--save takes one scenario" in refused.err
    assert not (here / "cut").exists() and not (here / "both").exists()


def test_costs(simcluster, small):
    checkpoints = "job={steps: 100, checkpoints: {every: 10, storage: {kind: disks}}}"
    shown = simcluster("checkpoint", "costs", small, "--set", checkpoints)
    assert (shown.code == 0 and "training waits" in shown.out) or "have no disks" in shown.err


def test_files_of_mindspore(simcluster, small, here):
    from simcluster.job import GroupFile, StrategyFile

    assert simcluster("checkpoint", "strategy", small, "--out", "strategy.json").code == 0
    assert StrategyFile.read(here / "strategy.json").stages
    (here / "stages").mkdir()
    (here / "stages" / "0.json").write_text((here / "strategy.json").read_text())
    for source in ("strategy.json", "stages"):
        counted = simcluster("checkpoint", "transform", source, "--to", small)
        assert counted.code == 0 and "as slices" in counted.out
    by_plan = simcluster("checkpoint", "transform", small, "--to", small)
    by_file = simcluster(
        "checkpoint", "transform", small, "--to", small, "--predict-strategy", "strategy.json"
    )
    assert [line for line in by_plan.out.splitlines() if "slices" in line] == [
        line for line in by_file.out.splitlines() if "slices" in line
    ]
    shown = simcluster("checkpoint", "groups", small, "--rank", "1", "--out", "group_info.pb")
    assert shown.code == 0 and "restore from" in shown.out
    assert 1 in GroupFile.read(here / "group_info.pb").restore_ranks
    assert simcluster("checkpoint", "strategy", small, "--out", "s.json", "--stage", "99").code == 2
    beyond = simcluster("checkpoint", "groups", small, "--rank", "99")
    assert (beyond.code, beyond.out) == (
        2,
        "",
    ) and "there is no rank 99: the plan has ranks 0 to" in beyond.err


def test_intervals(simcluster):
    shown = simcluster("checkpoint", "interval", "--save", "40s", "--mtbf", "3.09h", "--restart", "10min")
    assert shown.code == 0 and "943 s" in shown.out and "13.1 %" in shown.out
    assert "--mtbf soon" in simcluster("checkpoint", "interval", "--save", "40s", "--mtbf", "soon").err


def test_intervals_of_checkpoints_that_are_written_beside_training(simcluster):
    """Saves of 1.2 s every 160 s would wait for each other where each is written for 400 s."""
    shown = simcluster(
        *("checkpoint", "interval", "--save", "1.2s", "--mtbf", "3h", "--restart", "10min"),
        *("--background", "400 s"),
    )
    (best,) = (line for line in shown.out.splitlines() if line.startswith("least waste"))
    assert best.split() == ["least", "waste", "400", "s", "10.8", "%"]
