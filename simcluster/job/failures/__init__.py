"""``job.failures``: laws, presets with their sources, and incidents in time."""

from simcluster.job.failures.failure_cause import FailureCause
from simcluster.job.failures.failure_law import Exponential, FailureLaw, Lognormal, Weibull
from simcluster.job.failures.failures_spec import FailuresSpec
from simcluster.job.failures.fleet import Fleet
from simcluster.job.failures.incident import FailureEffect, Incident
from simcluster.job.failures.incident_stream import NANOSECONDS, PlannedMaintenance, incidents

__all__ = [
    "NANOSECONDS",
    "Exponential",
    "FailureCause",
    "FailureEffect",
    "FailureLaw",
    "FailuresSpec",
    "Fleet",
    "Incident",
    "Lognormal",
    "PlannedMaintenance",
    "Weibull",
    "incidents",
]
