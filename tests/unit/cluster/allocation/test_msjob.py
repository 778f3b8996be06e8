"""MSJobs: the four sample shapes of ms-operator, its defaults and rules, and what nothing is made of."""

from __future__ import annotations

import json

import pytest

from simcluster.cluster import ClusterSpec
from simcluster.document import validate_data
from simcluster.errors import ScenarioError


def pod(limits=None, **more):
    container = {"name": "mindspore", "image": "mindspore:2.0", "command": ["python", "train.py"]} | more
    if limits:
        container["resources"] = {"limits": limits}
    return {"spec": {"containers": [container]}}


def job(scheduler=1, servers=0, workers=4, limits=("nvidia.com/gpu", 1), **spec):
    roles = {"Scheduler": scheduler, "PS": servers, "Worker": workers}
    replicas = {
        role: {"replicas": count, "template": pod(dict([limits]) if role == "Worker" and limits else None)}
        for role, count in roles.items()
        if count
    }
    return {
        "apiVersion": "mindspore.gitee.com/v1",
        "kind": "MSJob",
        "metadata": {"name": "ms-widedeep"},
        "spec": {"msReplicaSpecs": replicas} | spec,
    }


def read(folder, written, **more):
    (folder / "job.yaml").write_text(json.dumps(written, indent=1))
    return validate_data({"use": "dgx-h100", "msjob": "job.yaml"} | more, ClusterSpec, folder=folder)


@pytest.mark.parametrize(("shape", "ranks"), [((0, 0, 1), 1), ((1, 2, 1), 4), ((1, 0, 4), 4), ((1, 2, 4), 7)])
def test_the_four_samples(tmp_path, shape, ranks):
    """Standalone, parameter servers with one Worker, data parallel, parameter servers with four (9.1)."""
    spec = read(tmp_path, job(*shape))
    read_job = spec.allocation.job
    assert tuple(read_job.count(role) for role in ("Scheduler", "PS", "Worker")) == shape
    assert spec.num_devices == spec.build().num_devices == ranks
    assert read_job.is_distributed == (sum(shape) > 1)


def test_defaults(tmp_path):
    written = job()
    del written["spec"]["msReplicaSpecs"]["Scheduler"]["replicas"]
    read_job = read(tmp_path, written).allocation.job
    scheduler = read_job.roles["Scheduler"]
    assert scheduler.replicas == 1
    assert scheduler.restartPolicy == "Never"
    assert scheduler.port == 2222
    assert read_job.spec.successPolicy == ""
    assert read_job.spec.runPolicy.cleanPodPolicy == "Running"
    assert not read_job.gang


def test_roles_in_any_case_and_the_port(tmp_path):
    written = job()
    roles = written["spec"]["msReplicaSpecs"]
    roles["WORKER"], roles["scheduler"] = roles.pop("Worker"), roles.pop("Scheduler")
    container = roles["scheduler"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "msjob-port", "containerPort": 3000}]
    read_job = read(tmp_path, written).allocation.job
    assert list(read_job.roles) == ["Scheduler", "Worker"]
    assert read_job.roles["Scheduler"].port == 3000
    assert read_job.roles["Worker"].command == ("python", "train.py")


def test_what_nothing_is_made_of_is_named(tmp_path):
    written = job(runPolicy={"cleanPodPolicy": "All", "schedulingPolicy": {"queue": "big"}})
    written["metadata"]["labels"] = {"a": "b"}
    pod_spec = written["spec"]["msReplicaSpecs"]["Worker"]["template"]["spec"]
    pod_spec["volumes"] = []
    pod_spec["containers"][0]["volumeMounts"] = []
    allocation = read(tmp_path, written).allocation
    assert allocation.job.gang
    (note,) = allocation.notes
    for key in (
        "metadata.labels",
        "Worker.template.spec.volumes",
        "volumeMounts",
        "runPolicy.cleanPodPolicy",
    ):
        assert key in note


def test_pods_fill_nodes_or_are_spread(tmp_path):
    assert read(tmp_path, job(workers=12)).build().devices.tolist() == list(range(12))
    assert read(tmp_path, job(), hosts=2).build().devices.tolist() == [0, 1, 2, 3]
    spread = read(tmp_path, job(), hosts=2, map_by="node").build()
    assert spread.devices.tolist() == [0, 8, 1, 9]


def changed(path, value):
    written = job()
    *keys, last = path
    part = written
    for key in keys:
        part = part[key]
    part[last] = value
    return written


ROLES = ("spec", "msReplicaSpecs")
CONTAINERS = ("template", "spec", "containers")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("kind",), "TFJob", "MSJob"),
        (("apiVersion",), "v1", "mindspore.gitee.com/v1"),
        (("metadata",), {}, "'name' is missing"),
        (("spec", "runPolicy"), {"cleanPodPolicy": "Some"}, "None"),
        (("spec", "runPolicies"), {}, "did you mean 'runPolicy'"),
        (("spec", "successPolicy"), "Worker", "AllWorkers"),
        ((*ROLES, "Chief"), {"template": pod()}, "there is no role 'Chief'"),
        ((*ROLES, "worker"), {"template": pod()}, "is Worker, which is there already"),
        ((*ROLES, "Worker", "replicas"), 0, "at least 1"),
        ((*ROLES, "Worker", "restartPolicy"), "Sometimes", "OnFailure"),
        ((*ROLES, "Scheduler", "replicas"), 2, "2 schedulers; a job has at most one"),
        ((*ROLES, "Worker", *CONTAINERS), [{"name": "main"}], "must be called 'mindspore'"),
        ((*ROLES, "Worker", *CONTAINERS), [], "a pod has containers"),
        (
            (*ROLES, "Worker", *CONTAINERS, 0, "resources"),
            {"limits": {"nvidia.com/gpu": 8}},
            "8 devices for the one process of a Worker",
        ),
        (
            (*ROLES, "Worker", *CONTAINERS, 0, "resources"),
            {"limits": {"huawei.com/Ascend910": 1}},
            "'huawei.com/Ascend910' is no h100-sxm",
        ),
        (
            (*ROLES, "Worker", *CONTAINERS, 0, "resources"),
            {"limits": {"nvidia.com/gpu": "many"}},
            "'many' is not a number",
        ),
        ((*ROLES, "Worker", *CONTAINERS, 0, "resources"), {}, "a Worker gets no device"),
        ((*ROLES, "Worker", *CONTAINERS, 0, "resources"), {"limits": 1}, "'resources' has limits"),
        ((*ROLES, "Worker", *CONTAINERS, 0, "resources"), 3, "'resources' has limits"),
        ((*ROLES, "Worker", *CONTAINERS, 0, "command"), "python train.py", "is a list of words"),
        ((*ROLES, "Worker", *CONTAINERS, 0, "ports"), 2222, "'ports' is a list"),
        (
            (*ROLES, "Worker", *CONTAINERS, 0, "ports"),
            [{"name": "msjob-port", "containerPort": "web"}],
            "a number up to 65535",
        ),
        ((*ROLES, "Worker", "template"), {"spec": []}, "a pod has containers"),
    ],
)
def test_what_is_wrong(tmp_path, path, value, message):
    with pytest.raises(ScenarioError, match=message) as caught:
        read(tmp_path, changed(path, value))
    assert all("job.yaml:" in problem.where for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("written", "more", "message"),
    [
        (job(scheduler=0), {}, "'Scheduler' is missing"),
        (job(workers=0), {}, "'Worker' is missing"),
        (job(workers=9), {"hosts": 1}, "9 Workers of one device each, but 1 x dgx-h100 have 8"),
        (job(servers=3, workers=5), {"hosts": 1}, "5 Workers, 3 PS and a Scheduler of one device each"),
    ],
)
def test_what_does_not_go_together(tmp_path, written, more, message):
    with pytest.raises(ScenarioError, match=message):
        read(tmp_path, written, **more)


def test_processors_need_no_limit(tmp_path):
    assert read(tmp_path, job(limits=None), use="cpu-server").num_devices == 4


def test_workers_and_servers_on_hosts_of_their_own(tmp_path):
    """Ranks go group by group: workers on the devices, parameter servers and the scheduler on processors."""
    groups = [{"use": "dgx-h100", "hosts": 1}, {"use": "cpu-server", "hosts": 2}]
    size = read(tmp_path, job(limits=None), use="cpu-server").devices_per_host
    servers = 2 * size - 1
    spec = read(tmp_path, job(workers=8, servers=servers), use=None, groups=groups)
    assert spec.num_devices == spec.build().num_devices == 8 + 2 * size
    assert [len(host.ranks) for host in spec.allocation.hosts] == [8, size, size]
    with pytest.raises(ScenarioError, match=f"but the groups have {8 + 2 * size}"):
        read(tmp_path, job(workers=7, servers=servers), use=None, groups=groups)
