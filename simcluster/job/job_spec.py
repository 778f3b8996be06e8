"""The ``job:`` section: a run over days."""

from __future__ import annotations

from pydantic import Field

from simcluster.document import Section, Unsupported
from simcluster.job.checkpoints import CheckpointsSpec


class JobSpec(Section):
    """A run over days: launch, checkpoints, failures, recovery."""

    steps: int = Field(ge=1)
    """Steps until training is done."""

    launch: Unsupported = None
    """How the job is started."""

    checkpoints: CheckpointsSpec | None = None
    """What is saved, where, and how often."""

    failures: Unsupported = None
    """What breaks, and when."""

    recovery: Unsupported = None
    """What is done when something breaks."""
