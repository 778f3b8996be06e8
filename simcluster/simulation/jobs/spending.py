"""What a job costs, in money and energy, where the scenario says what hours and devices take."""

from __future__ import annotations

from typing import Any

from simcluster.job import NANOSECONDS, PROGRESS, JobRecord, goodput_of, training_time
from simcluster.simulation.compose import BuiltScenario
from simcluster.simulation.jobs.job_setup import JobSetup

HOUR = 3600.0


def spent_on_job(built: BuiltScenario, record: JobRecord, setup: JobSetup, busy: float) -> dict[str, Any]:
    """Cost and energy of a run, and how much of them was no progress.

    Every device of the job and of its spare hosts is paid for from begin to end. A device takes its peak
    power in the part ``busy`` of training, replays included, in which kernels run, and its idle power else;
    spare hosts and everything else than devices are not counted.
    """
    spec, wall_s = built.scenario.spec.cluster, record.end_ns / NANOSECONDS
    lost = 1 - goodput_of(record)
    spent: dict[str, Any] = {}
    if (rate := spec.rate) is not None:
        spares = (setup.job.num_spares or 0) * spec.devices_per_host
        cost = (setup.fleet.num_devices + spares) * wall_s / HOUR * rate.per_device_hour
        spent |= {"cost": cost, "cost_lost": lost * cost, "currency": rate.currency}
    powers = [(group.hosts * group.made.devices.value, group.made.device.power) for group in spec.written]
    if all(power is not None for _, power in powers):
        trained = training_time(record.ledger) / NANOSECONDS * busy
        useful = record.ledger.of_phase(PROGRESS) / NANOSECONDS
        energy = progress = 0.0
        for count, power in powers:
            assert power is not None
            idle, peak = power.idle.value, power.peak.value
            energy += count * (idle * wall_s + (peak - idle) * trained)
            progress += count * useful * (idle + (peak - idle) * busy)
        spent |= {"energy_j": energy, "energy_lost_j": energy - progress}
    return spent
