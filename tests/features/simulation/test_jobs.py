"""Jobs of scenarios: steps by states of the cluster, recoveries, replications, and what is refused."""

import itertools
import math

import pytest

from simcluster.errors import PlanError, ScenarioError
from simcluster.job import ClusterState
from simcluster.job.timeline import SlowDevice
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.simulation.jobs.step_times import StepTimes

CHECKPOINT = {"every": 20_000, "save": "1 s", "load": "5 s"}
DEVICE = {"cause": "device", "component": "device", "mtbf": "40 h"}


def scenario(job, mesh=None, **changes):
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "small",
            "cluster": {"use": "cpu-server", "hosts": 4},
            "model": {
                "family": "gpt",
                "layers": 2,
                "hidden": 64,
                "heads": 4,
                "vocab": 100,
                "max_positions": 16,
            },
            "training": {
                "global_batch": 8,
                "micro_batch": 1,
                "seq_len": 16,
                "precision": "fp32",
                "optimizer": "adamw",
            },
            "parallel": {"mesh": mesh or {"pipeline": 2, "data": 2, "tensor": 2}, "recipe": "megatron"}
            | changes,
            "job": job,
        }
    )


def job(**changes):
    return {"steps": 1_000_000, "recovery": {"checkpoint": CHECKPOINT}, **changes}


def document(written, **arguments):
    return simulate(written, **arguments).documents["job"]


def test_a_job_without_failures_is_its_start_its_steps_and_saves():
    found = document(scenario(job()))
    assert set(found["time_s"]) == {"progress", "save", "start", "communicators"}
    assert found["wall_s"] == pytest.approx(sum(found["time_s"].values()))
    assert found["time_s"]["progress"] == pytest.approx(1_000_000 * found["nominal_step_s"], rel=1e-6)


@pytest.mark.parametrize(
    ("cause", "mtbf", "restart"),
    [
        ({}, 18_000, 40 + 30 + 300 + 300 + 5),
        ({"effect": "hang"}, 18_000, 600 + 30 + 300 + 5),  # found by the collective's time-out alone
        ({"spread": 0.5}, 12_000, 675),
        # A lognormal mean of 20 s is above 30 s with probability 0.183.
        ({"effect": "transient", "component": "process", "lasts": "20 s", "lasts_shape": 1.0}, 98_570, 365),
    ],
)
def test_what_is_expected_of_restarts(cause, mtbf, restart):
    """40 h for each of 8 devices; found, ended, host replaced, started, loaded: the defaults."""
    expected = document(scenario(job(failures={"causes": [DEVICE | cause]})))["expected"]
    assert expected["mtbf_s"] == pytest.approx(mtbf, rel=1e-3)
    assert expected["restart_s"] == pytest.approx(restart)


@pytest.mark.parametrize("checkpoint", [{}, {"background": "200 s"}])
def test_corruptions_cost_what_is_expected(checkpoint):
    """Trained until it is noticed, gone back: ``(M + L + R) (e^((t + C)/M) - 1) / t``."""
    recovery = {"checkpoint": {"every": "300 s", "save": "3 s", "load": "5 s", **checkpoint}}
    corrupt = DEVICE | {"effect": "corrupt", "lasts": "30 min"}
    written = job(failures={"causes": [corrupt]}, recovery=recovery, steps=1_000_000_000)
    found = document(scenario(written), replications=8)
    expected, goodput = found["expected"], found["replications"]["goodput"]
    assert expected["restart_s"] == pytest.approx(30 + 300 + 300 + 5)
    mean = 18_000
    by_hand = 300 / (mean + 1800 + 635) / math.expm1(303 / mean)
    assert expected["goodput_of_restarts"] == pytest.approx(by_hand, rel=1e-4)
    assert goodput["mean"] == pytest.approx(by_hand, abs=2 * (goodput["high"] - goodput["mean"]))


def test_what_is_expected_with_checkpoints_in_the_background():
    """They are no more frequent than they are written, and a failure loses those that are not complete."""
    checkpoint = {"every": "300 s", "save": "1 s", "load": "5 s", "background": "400 s"}
    recovery = {"checkpoint": checkpoint}
    expected = document(scenario(job(failures={"causes": [DEVICE]}, recovery=recovery)))["expected"]
    assert expected["best_interval_s"] == 400
    mean, cycle = 18_000, 401 / 18_000
    assert expected["goodput_of_restarts"] == pytest.approx(
        300 / mean / math.exp((675 + 300) / mean) / math.expm1(cycle), rel=1e-4
    )


def test_a_listed_failure_and_its_recovery_are_in_the_timeline():
    events = [{"at": "10 min", "host": 1, "cause": "power supply"}]
    found = document(scenario(job(failures={"events": events})))
    phases = [phase for _, _, phase, cause in found["timeline"] if cause == "power supply"]
    assert phases == ["cut step", "detect", "stop", "replace", "start", "communicators", "load", "replay"]
    assert found["interruptions"] == 1


@pytest.mark.parametrize(
    ("launch", "noticed"),
    [
        ({"method": "msrun"}, 298.5),  # MS_NODE_TIMEOUT, half an interval of heartbeats behind the last one
        ({"method": "msrun", "node_timeout": "100 s"}, 98.5),
        ({"method": "msrun", "heartbeats": False}, 600.0),  # by the collective's time-out
        ({"method": "torchrun"}, 40.0),
    ],
)
def test_a_lost_process_is_noticed_as_its_launcher_does(launch, noticed):
    lost = {"events": [{"at": "10 min", "host": 1, "cause": "lost"}]}
    found = document(scenario(job(failures=lost, launch=launch)))
    assert found["lost_s"]["lost"]["detect"] == noticed


def test_it_is_said_once_when_a_lost_process_is_noticed():
    recovery = {"heartbeat": "10 s", "checkpoint": CHECKPOINT}
    with pytest.raises(PlanError, match="says when a lost process is noticed"):
        document(scenario(job(recovery=recovery, launch={"method": "msrun", "node_timeout": "100 s"})))


def test_a_hang_is_found_by_the_time_out_of_the_devices_collectives():
    """HCCL_EXEC_TIMEOUT on Ascend, PyTorch's for NCCL elsewhere."""
    hang = {"events": [{"at": "10 min", "host": 1, "effect": "hang", "cause": "hang"}]}
    for use, seconds in (("cpu-server", 600.0), ("dgx-h100", 600.0), ("atlas-800t-a2", 1836.0)):
        data = scenario(job(failures=hang), mesh={"data": 8, "tensor": 2}).spec.model_dump(
            mode="json", exclude_unset=True
        )
        data["cluster"] = {"use": use, "hosts": 8 if use == "cpu-server" else 2}
        assert document(Scenario.of(data))["lost_s"]["hang"]["detect"] == pytest.approx(seconds), use


@pytest.mark.parametrize(
    ("framework", "use", "seconds"),
    [
        ("torchtitan", "dgx-h100", 100.0),  # was 600 s for all
        ("fsdp", "dgx-h100", 600.0),
        ("torchtitan", "atlas-800t-a2", 1836.0),
        ({"use": "fsdp", "collective_timeout": "2 min"}, "dgx-h100", 120.0),
    ],
)
def test_a_hang_is_found_by_the_time_out_of_the_framework(framework, use, seconds):
    hang = {"events": [{"at": "10 min", "host": 1, "effect": "hang", "cause": "hang"}]}
    data = scenario(job(failures=hang), mesh={"data": 8, "tensor": 2}).spec.model_dump(
        mode="json", exclude_unset=True
    )
    data |= {"cluster": {"use": use, "hosts": 2}, "framework": framework}
    assert document(Scenario.of(data))["lost_s"]["hang"]["detect"] == pytest.approx(seconds)


def test_a_host_that_hangs_is_replaced_if_that_is_written():
    """It was kept, whatever was written."""
    hang = {"at": "10 min", "host": 1, "effect": "hang", "cause": "hang"}
    for replaces in (None, False, True):
        written = hang if replaces is None else hang | {"replaces": replaces}
        lost = document(scenario(job(failures={"events": [written]})))["lost_s"]["hang"]
        assert ("replace" in lost) == bool(replaces)


def test_a_host_that_is_late_is_so_once():
    """Each start after a failure took as long as the first one, whose host came late."""
    launch = {"method": "msrun", "late": [{"host": 1, "by": "5 min"}]}
    found = document(
        scenario(job(failures={"events": [{"at": "10 min", "host": 1, "cause": "lost"}]}, launch=launch))
    )
    phases = {(phase, cause): end - start for start, end, phase, cause in found["timeline"]}
    assert phases["processes started", "launch"] > 300 > 60 > phases["processes started", "lost"] > 20


def test_the_others_wait_for_a_worker_of_a_dynamic_cluster():
    """MindSpore's disaster recovery: the worker is accepted behind its old heartbeat, and all load."""
    lost = {"events": [{"at": "10 min", "host": 1, "cause": "lost"}]}

    def phases(**launch):
        found = document(scenario(job(failures=lost, launch={"method": "msrun", **launch})))
        return found, [phase for _, _, phase, cause in found["timeline"] if cause == "lost"]

    (waiting, rejoined), (_, ended) = phases(recovery=True), phases()
    shared = ["communicators", "graph compilation", "load", "replay"]
    assert rejoined == ["cut step", "detect", "replace", "worker restarted and accepted", *shared]
    assert ended[:3] == ["cut step", "detect", "stop"] and ended[-4:] == shared
    assert waiting["lost_s"]["lost"]["worker restarted and accepted"] == pytest.approx(30)
    # A collective that times out before the heartbeat ends those who wait in it.
    recovery = {"collective_timeout": "100 s", "checkpoint": CHECKPOINT}
    launch = {"method": "msrun", "recovery": True}
    found = document(scenario(job(failures=lost, launch=launch, recovery=recovery)))
    assert "stop" in found["lost_s"]["lost"]
    memory = {**recovery, "policy": "memory"}
    (said,) = scenario(job(failures=lost, launch=launch, recovery=memory)).spec.job.remarks
    assert "where memory starts processes, all start" in said


COSTS = {
    "queue": "1 min",
    "swap": "1 s",
    "replica_copy": "1 s",
    "memory": {"every": 2},
    "lost_server": "take_over",
}
"""What only some policies read."""


@pytest.mark.parametrize(
    ("policy", "read"),
    [
        ("restart", ()),
        ("relocate", ("queue",)),
        ("spare", ("swap",)),
        ("replica", ("replica_copy",)),
        ("shrink", ("replica_copy",)),
        ("memory", ("memory",)),
        ("elastic", ("lost_server",)),
    ],
)
def test_keys_of_other_policies_are_told(policy, read):
    """Some were refused, others did nothing without a word; a sweep over policies writes all of them."""
    recovery = {"policy": policy, "checkpoint": CHECKPOINT, "spares": 4, "repair": "1 h", **COSTS}
    remarks = scenario(job(recovery=recovery)).spec.job.remarks
    told = {remark.split()[0].removeprefix("job.recovery.") for remark in remarks}
    assert told == COSTS.keys() - set(read)
    assert all(f"under policy {policy}: it is for " in remark for remark in remarks)


def test_a_repair_of_hosts_that_are_always_there_is_told():
    (said,) = scenario(job(recovery={"checkpoint": CHECKPOINT, "repair": "1 h"})).spec.job.remarks
    assert said.startswith("job.recovery.repair changes nothing without job.recovery.spares")
    assert not scenario(job()).spec.job.remarks


def test_what_changes_nothing_is_in_the_notes_and_changes_nothing():
    lost = {"events": [{"at": "10 min", "host": 1, "cause": "lost"}]}
    plain, written = (
        simulate(scenario(job(recovery={"checkpoint": CHECKPOINT, **more}, failures=lost))).documents
        for more in ({}, COSTS)
    )
    assert plain["job"] == written["job"]
    assert len(set(written["plan"]["notes"]) - set(plain["plan"]["notes"])) == len(COSTS)


@pytest.mark.parametrize("policy", ["restart", "replica", "spare", "memory", "relocate", "shrink"])
def test_every_policy_recovers(policy):
    recovery = {"policy": policy, "checkpoint": CHECKPOINT, "spares": 4}
    found = document(scenario(job(recovery=recovery, failures={"events": [{"at": "10 min", "host": 1}]})))
    assert [entry["policy"] for entry in found["recoveries"]] == [policy]
    assert found["goodput"] > 0.1


@pytest.mark.thorough
def test_replications_are_the_same_for_any_number_of_processes():
    slow = DEVICE | {"cause": "slow", "effect": "slow", "factor": 0.5, "lasts": "2 min"}
    written = scenario(job(failures={"causes": [DEVICE, slow], "rate": 8.0}))
    one, two = (document(written, replications=6, jobs=jobs) for jobs in (1, 2))
    assert one == two
    assert one["replications"]["count"] == 6
    goodput = one["replications"]["goodput"]
    assert goodput["low"] < goodput["mean"] < goodput["high"]
    assert goodput["min"] <= one["goodput"] <= goodput["max"]


def test_steps_of_slow_devices_are_those_of_changes():
    """What a state costs is what the same devices in ``cluster.changes`` cost; symmetry renames them."""
    times = StepTimes(build_scenario(scenario(job(), mesh={"data": 4, "tensor": 2})))
    states = [
        ClusterState(tuple(SlowDevice(device, 0.5) for device in devices))
        for count in (1, 2)
        for devices in itertools.combinations(range(8), count)
    ]
    found = {state: times(state).step_ns for state in states}
    assert len(times.times) < len(states) / 3
    for state in states[::4]:
        changes = [{"device": slow.device, "compute": slow.factor} for slow in state.slow]
        data = scenario(None, mesh={"data": 4, "tensor": 2}).spec.model_dump(mode="json", exclude_unset=True)
        data["cluster"]["changes"] = changes
        step = simulate(Scenario.of(data)).documents["summary"]["step_time_s"]
        assert found[state] == round(step * 1e9), state


def test_a_shrunk_job_trains_on_fewer_samples():
    times = StepTimes(build_scenario(scenario(job(), mesh={"data": 4, "tensor": 2})))
    whole, less = times(ClusterState()), times(ClusterState((), 1))
    assert (whole.samples, less.samples) == (8, 6)


def test_cost_and_energy_where_they_are_known():
    data = scenario(job()).spec.model_dump(mode="json", exclude_unset=True)
    data["cluster"]["price"] = "2.00 USD per device-hour"
    found = document(Scenario.of(data))
    assert found["cost"] == pytest.approx(2.0 * 8 * found["wall_s"] / 3600)
    assert "energy_j" not in found
    device = {"use": "xeon-8480", "power": {"idle": "100 W", "peak": "300 W"}}
    data["cluster"] = {"host": {"use": "cpu-server", "device": device}, "hosts": 4}
    found = document(Scenario.of(data))
    assert 100 < found["energy_j"] / found["wall_s"] / 8 < 300


def test_a_launch_and_checkpoints_give_their_costs():
    parts = {
        "launch": {"method": "torchrun"},
        "checkpoints": {"every": 5000, "storage": {"kind": "shared"}},
        "recovery": {},
        "failures": {"events": [{"at": "10 min", "host": 1}]},
    }
    data = scenario(job(**parts)).spec.model_dump(mode="json", exclude_unset=True)
    storage = {"read": "4 GB/s", "write": "2 GB/s", "host": "1 GB/s"}
    data["cluster"] = {"use": "dgx-h100", "hosts": 1, "storage": storage}
    data["job"]["failures"]["events"][0]["host"] = 0
    found = document(Scenario.of(data))
    assert found["steps_between_checkpoints"] == 5000
    assert found["time_s"]["communicators"] > 0
    data["job"]["recovery"] = {"start": "3 s"}
    with pytest.raises(PlanError, match=r"job\.recovery\.start: job\.launch says how long a start takes"):
        simulate(Scenario.of(data))
    data["job"]["recovery"] = {"checkpoint": CHECKPOINT}
    with pytest.raises(PlanError, match=r"job\.recovery\.checkpoint: job\.checkpoints says"):
        simulate(Scenario.of(data))


@pytest.mark.parametrize(
    ("written", "changes", "message"),
    [
        (
            job(recovery={"policy": "replica", "checkpoint": CHECKPOINT}),
            {"optimizer_sharding": {"zero": 1}},
            "no replica",
        ),
        (job(recovery={"policy": "spare", "checkpoint": CHECKPOINT}), {}, "no spare hosts"),
        (
            job(recovery={"policy": "memory", "memory": {"copies": 5}, "checkpoint": CHECKPOINT}),
            {},
            "4 hosts cannot keep 5 copies",
        ),
        (
            job(recovery={"policy": "relocate", "spares": 1, "checkpoint": CHECKPOINT}),
            {},
            "4 hosts, and 1 others",
        ),
        (job(recovery={}, failures={"causes": [DEVICE]}), {}, "nothing says how often the state is saved"),
        (
            job(failures={"events": [{"at": "1 s", "device": 8}]}),
            {},
            r"events\.0\.device: there is no device 8",
        ),
        (job(failures={"causes": [DEVICE | {"component": "disk"}]}), {}, "have no disk"),
        (job(failures={"causes": [DEVICE | {"mtbf": "1 s"}]}), {}, "break faster than the job recovers"),
    ],
)
def test_impossible_jobs_are_refused(written, changes, message):
    with pytest.raises(PlanError, match=message):
        simulate(scenario(written, **changes))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"failures": "lama3"}, "unknown failure preset 'lama3'"),
        ({"recovery": "restrat"}, "unknown recovery policy 'restrat'; did you mean 'restart'"),
        ({"failures": {"causes": [{"cause": "a", "component": "device"}]}}, "how often"),
        ({"failures": {"causes": [DEVICE | {"law": "weibull"}]}}, "a weibull law needs one"),
        ({"failures": {"causes": [DEVICE | {"shape": 0.7}]}}, "an exponential law has none"),
        ({"failures": {"causes": [DEVICE, DEVICE]}}, "another cause 'device'"),
        ({"failures": {"causes": [DEVICE | {"effect": "slow"}]}}, "effect slow needs it"),
        ({"failures": {"causes": [DEVICE | {"factor": 0.5}]}}, "for effect slow"),
        ({"failures": {"events": [{"at": "1 s"}]}}, "what fails"),
        ({"failures": {"events": [{"at": "1 s", "hosts": [1, 1]}]}}, "a host is listed twice"),
        (
            {"failures": {"causes": [DEVICE | {"component": "link", "effect": "corrupt", "lasts": "1 h"}]}},
            "a link computes nothing",
        ),
        (
            {
                "failures": {
                    "causes": [DEVICE | {"effect": "slow", "factor": 0.5, "lasts": "1 h", "replaces": True}]
                }
            },
            "a slow device stays in the job",
        ),
        (
            {
                "launch": {"method": "msrun", "recovery": True},
                "checkpoints": {"every": 10, "keep": 1, "storage": {"kind": "shared"}},
            },
            "needs two checkpoints",
        ),
        (
            {"failures": {"maintenance": [{"at": "1 h", "lasts": "2 h", "every": "1 h"}]}},
            "before this one is over",
        ),
    ],
)
def test_wrong_sections_are_refused(written, message):
    with pytest.raises(ScenarioError, match=message):
        scenario(job(**written))


def test_goodput_can_be_expected():
    data = scenario(job()).spec.model_dump(mode="json", exclude_unset=True)
    run = simulate(Scenario.of(data | {"expect": {"goodput": {"min": "1 %"}}}))
    assert run.documents["summary"]["goodput"] == run.documents["job"]["goodput"]
