"""A job of a scenario: how it starts."""

from simcluster.simulation.jobs.start_up import (
    launch_document,
    launch_setting,
    launcher_file,
    start_timeline,
    start_up_document,
)

__all__ = ["launch_document", "launch_setting", "launcher_file", "start_timeline", "start_up_document"]
