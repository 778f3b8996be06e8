"""The ``job:`` section: a run over days."""

from __future__ import annotations

from pydantic import Field

from simcluster.document import Section, Unsupported
from simcluster.job.launch import LaunchSpec


class JobSpec(Section):
    """A run over days: launch, checkpoints, failures, recovery."""

    steps: int = Field(ge=1)
    """Steps until training is done."""

    launch: LaunchSpec | None = None
    """How the job is started."""

    checkpoints: Unsupported = None
    """What is saved, where, and how often."""

    failures: Unsupported = None
    """What breaks, and when."""

    recovery: Unsupported = None
    """What is done when something breaks."""
