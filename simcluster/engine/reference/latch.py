"""Where processes wait without an entry in the queue of events."""

from __future__ import annotations

import simpy


class Latch(simpy.Event):
    """Where processes wait, as often as they must; they go on at once when they are let go.

    Whoever lets them go does so at the instant at which they can, so nothing of this has to pass through the
    queue of events. Nor do they let one another go without end: a collective takes time, and the streams of a
    class wait for each other in turn.
    """

    def __init__(self, env: simpy.Environment) -> None:
        super().__init__(env)
        self._ok, self._value = True, None

    def succeed(self, value: object = None) -> Latch:
        """Lets them go on; returns when all wait again, for whatever it may be."""
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(self)
        return self
