"""What can be changed of a scenario to save memory; one file adds a knob."""

from simcluster.tuning.knobs.knob import Changes, Knob

__all__ = ["Changes", "Knob"]
