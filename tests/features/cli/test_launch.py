"""``simcluster launch``: what is run, files that it writes, start-up, and exit codes."""

from __future__ import annotations

import json

import pytest

TEXT = """\
simcluster: 1
name: small
cluster: {use: atlas-800t-a2, hosts: 2}
model: {layers: 2, hidden: 64, heads: 8, ffn: 128, vocab: 256}
training: {global_batch: 8, micro_batch: 1, seq_len: 16, precision: fp16}
parallel:
  mesh: {data: 2, tensor: 8}
"""
JOB = "job: {steps: 100, launch: {method: msrun, costs: {process: 5 s}}}\n"


@pytest.fixture
def plan(here):
    (here / "plan.yaml").write_text(TEXT)
    (here / "job.yaml").write_text(TEXT + JOB)
    return "plan.yaml"


@pytest.mark.parametrize(
    ("method", "line"),
    [
        ("dynamic", "MS_ROLE=MS_SCHED MS_SCHED_HOST=10.100.100.100 MS_SCHED_PORT=8118 MS_WORKER_NUM=16"),
        ("msrun", "msrun --worker_num=16 --local_worker_num=8 --master_addr=10.100.100.100"),
        ("mpirun", "mpirun -n 16 --hostfile hosts --map-by slot python train.py"),
        ("rank_table", "RANK_TABLE_FILE=hccl.json RANK_SIZE=16 RANK_ID=15 DEVICE_ID=7 python train.py"),
        ("ms_operator", "kubectl apply -f job.yaml"),
        ("torchrun", "torchrun --nnodes=2 --nproc-per-node=8 --node-rank=1"),
    ],
)
def test_commands_and_start(simcluster, plan, method, line):
    code, out, err = simcluster("launch", plan, "--method", method)
    assert (code, err) == (0, "")
    assert line in out
    assert f"Start-up by {method} takes" in out
    assert "16 workers on 2 hosts" in out
    assert "assumed times (job.launch.costs)" in out


def test_as_the_scenario_says(simcluster, plan):
    code, out, _ = simcluster("launch", "job.yaml", "--json", "-")
    document = json.loads(out)
    assert code == 0
    assert document["method"] == "msrun"
    (host,) = document["processes"]
    assert host["hosts"] == ["10.100.100.100", "10.100.100.101"]
    assert host["own"] == {"node_rank": ["0", "1"]}
    phases = {phase["name"]: phase["seconds"] for phase in document["start_up"]["phases"]}
    assert 5 <= phases["processes started"] <= 10
    assert "job.launch.costs.process" not in {each["name"] for each in document["start_up"]["assumptions"]}


def test_another_method_leaves_its_own_keys_behind(simcluster, plan):
    code, out, _ = simcluster(
        "launch", "job.yaml", "--method", "dynamic", "--set", "job.launch.recovery=true"
    )
    assert code == 0
    assert "MS_ENABLE_RECOVERY=1" in out
    assert "a worker that dies is back after" in out


@pytest.mark.parametrize(
    ("method", "key"), [("rank_table", "rank_table"), ("mpirun", "hostfile"), ("ms_operator", "msjob")]
)
def test_what_it_writes_is_a_cluster(simcluster, plan, here, method, key):
    code, _, err = simcluster("launch", plan, "--method", method, "--out", "file")
    assert (code, err) == (0, "written: file\n")
    written = (here / "file").read_text()
    changed = ("--set", f"cluster={{use: atlas-800t-a2, {key}: file}}")
    code, _, err = simcluster("launch", plan, "--method", method, "--out", "again", *changed)
    assert code == 0, err
    assert (here / "again").read_text().splitlines()[3:] == written.splitlines()[3:]
    assert simcluster("run", plan, "--json", "-", *changed)[1].count("step_time_s")


def test_a_job_that_does_not_start(simcluster, plan, here):
    few = ("--method", "dynamic", "--set", "job.launch.started=15")
    code, out, _ = simcluster("launch", plan, *few, "--json", "start.json")
    assert code == 1
    assert "Start-up by dynamic fails after 30 min" in out
    assert "time-out: 15 of 16 workers are there after 1800 s (MS_TOPO_TIMEOUT)" in out
    assert json.loads((here / "start.json").read_text())["start_up"]["failure"]
    code, _, err = simcluster("run", "job.yaml", "--set", "job.launch.started=15")
    assert code == 1
    assert "job.yaml:8:" in err
    assert "15 of 16 workers are there after 600 s (--cluster_time_out)" in err


def test_workers_too_many(simcluster, plan):
    _, out, _ = simcluster("launch", plan, "--method", "dynamic", "--set", "job.launch.started=17")
    assert "1 worker too many was refused" in out


def test_a_start_that_takes_implausibly_long_says_so(simcluster, plan):
    late = ("--set", "job.launch.late=[{host: 1, by: 30 min}]", "--set", "job.launch.timeout=1 h")
    assert "back within 15 min" in " ".join(simcluster("launch", "job.yaml", *late)[1].split())
    assert "back within" not in simcluster("launch", "job.yaml")[1]


def test_the_start_is_in_the_summary_and_the_result(simcluster, plan):
    assert "Start-up by msrun takes" in simcluster("run", "job.yaml")[1]
    result = json.loads(simcluster("run", "job.yaml", "--json", "-")[1])
    assert result["job"]["start_up"]["total_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan.yaml",), "plan.yaml:1:1: job: the scenario does not say how it is launched"),
        (("plan.yaml", "--method", "slurm"), "'slurm' is not one of"),
        (("plan.yaml", "--method", "msrun", "--out", "x"), "msrun reads no file"),
        (("plan.yaml", "--method", "mpirun", "--out", "no/x"), "there is no folder 'no'"),
        (("plan.yaml", "--method", "mpirun", "--set", "cluster.use=cpu-server"), "supports Ascend and GPU"),
        (("plan.yaml", "--method", "rank_table", "--set", "cluster={use: atlas-800, rank_table: no.json}"),
         "there is no such file"),
    ],
)  # fmt: skip
def test_wrong_input(simcluster, plan, arguments, message):
    code, out, err = simcluster("launch", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_mistakes_of_files_have_their_place(simcluster, plan, here):
    simcluster("launch", plan, "--method", "rank_table", "--out", "hccl.json")
    text = (here / "hccl.json").read_text().replace('"rank_id": "9"', '"rank_id": "8"')
    (here / "hccl.json").write_text(text)
    (here / "table.yaml").write_text(TEXT.replace("hosts: 2", "rank_table: hccl.json"))
    code, _, err = simcluster("lint", "table.yaml")
    assert code == 2
    assert "hccl.json:17:63 server_list[1].device[1].rank_id: rank_id 8 is given twice" in err


def test_what_is_advised_against_is_a_note(simcluster, plan, here):
    simcluster("launch", plan, "--method", "rank_table", "--out", "hccl.json")
    text = (here / "hccl.json").read_text().replace("10.100.100.100", "10.100.100.200")
    (here / "hccl.json").write_text(text)
    (here / "table.yaml").write_text(TEXT.replace("hosts: 2", "rank_table: hccl.json"))
    assert "dictionary order of server ids" in simcluster("run", "table.yaml")[1].replace("\n", " ")


def test_a_wrong_item_does_not_make_a_list_too_short(simcluster, plan, here):
    simcluster("launch", plan, "--method", "rank_table", "--out", "table.json")
    text = (here / "table.json").read_text()
    (here / "table.json").write_text(text.replace('"rank_id": "3"', '"rank_id": 3'))
    changed = "cluster={use: atlas-800t-a2, rank_table: table.json}"
    code, _, err = simcluster("run", plan, "--set", changed)
    assert code == 2
    assert "server_list[0].device[3].rank_id: 3 is a number; write it as text, in quotes" in err
    assert "at least" not in err
