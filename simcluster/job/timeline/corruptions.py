"""Silent corruption of the state: where it began, when it is noticed, and which checkpoints are older."""

from __future__ import annotations

import heapq
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.job.failures import Incident
from simcluster.job.timeline.trainer import Trainer

NOTHING = "nothing"
"""Where the state comes from of a job that begins anew, because no checkpoint is of use."""


@dataclass(frozen=True, slots=True, order=True)
class Corruption:
    """A corruption that nobody has noticed yet."""

    noticed_ns: int
    """When it will be."""
    clean: int
    """Samples held by the last checkpoint of which the state was copied before."""
    num_saves: int
    """Checkpoints that had been begun by then."""
    incident: Incident = field(compare=False)
    """What broke."""


@dataclass
class Corruptions:
    """The corruptions in the present state of training; ``keep``: checkpoints that are kept, None: all."""

    keep: int | None
    _open: list[Corruption] = field(default_factory=list)

    def begin(self, incident: Incident, trainer: Trainer) -> None:
        """The state is corrupted now."""
        noticed = incident.at_ns + incident.lasts_ns
        heapq.heappush(self._open, Corruption(noticed, trainer.copied, trainer.num_saves, incident))

    @property
    def count(self) -> int:
        """How many are not noticed."""
        return len(self._open)

    @property
    def next_ns(self) -> tuple[int, ...]:
        """When the next one is noticed, if there is one."""
        return tuple(entry.noticed_ns for entry in self._open[:1])

    def noticed(self, trainer: Trainer) -> tuple[Incident, int] | None:
        """What is noticed by now, and the samples of the checkpoint to go back to; 0 if it is gone.

        Later checkpoints do not count any more.
        """
        if not self._open or self._open[0].noticed_ns > trainer.now_ns:
            return None
        corruption = heapq.heappop(self._open)
        newer = trainer.num_saves - corruption.num_saves - trainer.is_writing
        gone = self.keep is not None and newer >= self.keep
        trainer.durable = 0 if gone else corruption.clean
        return corruption.incident, trainer.durable

    def loaded(self, samples: int) -> None:
        """A state of so many samples was loaded: what has come behind it is undone."""
        self._open = [entry for entry in self._open if entry.clean < samples]
        heapq.heapify(self._open)
