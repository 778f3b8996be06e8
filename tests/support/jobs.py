"""Jobs made by hand: hosts of one device, fixed costs."""

import numpy as np

from simcluster.job import (
    Fleet,
    Job,
    JobPhase,
    RecoveryCosts,
    SaveRhythm,
    StartUp,
    StepSummary,
    Survivors,
    incidents,
    run_job,
)
from simcluster.job.failures import Exponential, FailureCause, FailureEffect, Incident, Lognormal
from simcluster.job.recovery import policy_kinds

SECOND = 10**9


def costs(**changes):
    """Recovery costs whose restart takes 100 s, if no host has to be waited for."""
    start = StartUp((JobPhase("start", 20.0), JobPhase("communicators", 5.0)))
    figures = {
        "heartbeat_s": 40.0,
        "collective_timeout_s": 600.0,
        "retry_s": 30.0,
        "abort_s": 10.0,
        "replace_s": 15.0,
        "queue_s": 300.0,
        "swap_s": 2.0,
        "copy_s": 1.0,
        "memory_load_s": 3.0,
        "load_s": 10.0,
        "start": start,
        "repair": Lognormal(3600.0, 1.0),
    }
    return RecoveryCosts(**(figures | changes))


def fleet(hosts, devices_each=1):
    return Fleet(tuple(range(0, (hosts + 1) * devices_each, devices_each)), (1,) * hosts, (1,) * hosts)


def job(steps, hosts=4, *, policy="restart", every=10, save=5.0, devices_each=1, holders=None, **changes):
    """A job whose hosts are data replicas of each other, unless ``holders`` says otherwise."""
    devices = hosts * devices_each
    host_of = tuple(device // devices_each for device in range(devices))
    survivors = Survivors(
        holders or tuple(device % devices_each for device in range(devices)), host_of, host_of
    )
    rhythm = changes.pop("rhythm", None) or SaveRhythm(every, round(save * SECOND))
    spares = changes.pop("num_spares", None)
    first = changes.pop("first_start", ())
    return Job(
        steps,
        rhythm,
        policy_kinds()[policy](),
        costs(**changes),
        survivors,
        tuple((host * devices_each, (host + 1) * devices_each) for host in range(hosts)),
        spares,
        first,
    )


def stop(at, host=0, cause="failed host", **changes):
    """A host that is gone at a time in seconds."""
    figures = {"effect": FailureEffect.STOP, "hosts": (host,), "component": "host"} | changes
    return Incident(round(at * SECOND), cause, **figures)


def cause(mean_s, component="host", law=None, **changes):
    figures = {
        "name": "failure",
        "component": component,
        "effect": FailureEffect.STOP,
        "law": law or Exponential(mean_s),
        "is_settled": True,
        "replaces": True,
        "hosts_each": 1,
        "factor": 1.0,
        "duration": None,
    }
    return FailureCause(**(figures | changes))


def step_of(step_s=10.0, samples=100, hosts=4):
    """Steps of equal length but for slow devices, the slowest of which everyone waits for."""

    def step(state):
        factor = min((slow.factor for slow in state.slow), default=1.0)
        left = samples * (hosts - state.lost_replicas) // hosts
        return StepSummary(round(step_s / factor * SECOND), left)

    return step


def ran(job, listed=(), *, causes=(), maintenance=(), seed=0, step=None, fleet_of=None):
    """The record of a job with listed incidents, or laws."""
    own = fleet_of or fleet(len(job.devices_of_host))
    stream = incidents(causes, listed, maintenance, own, [seed], 30 * 86400.0)
    return run_job(
        job, stream, step or step_of(hosts=len(job.devices_of_host)), np.random.default_rng([seed, 1])
    )
