"""What can be changed of a scenario to save memory or time; one file adds a knob."""

from simcluster.tuning.knobs.adapted_stages import AUTO
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun

__all__ = ["AUTO", "Changes", "Knob", "KnobPurpose", "PresentRun"]
