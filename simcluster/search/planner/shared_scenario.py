"""One scenario for all calls of a worker, whose cluster knows already where groups lie."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.scenario import Scenario
from simcluster.tuning import Changes

_LATEST: dict[str, Scenario] = {}
"""The scenario of the latest call by its digest."""


@dataclass(frozen=True, slots=True)
class SharedScenario:
    """A scenario that is sent to workers again and again."""

    scenario: Scenario
    digest: str

    @classmethod
    def of(cls, scenario: Scenario) -> SharedScenario:
        """A scenario with its digest; it is sent without what it has worked out here."""
        text = f"{scenario.spec.model_dump_json()} {scenario.folder}"
        return cls(replace(scenario), hashlib.sha256(text.encode()).hexdigest())

    @property
    def here(self) -> Scenario:
        """The scenario that this worker knows already; this one, if it is new to it."""
        if self.digest not in _LATEST:
            _LATEST.clear()
            _LATEST[self.digest] = self.scenario
        return _LATEST[self.digest]

    def changed(self, changes: Changes) -> Scenario:
        """The scenario with changes of anything but its cluster.

        Raises ScenarioError for what cannot be read or does not go together.
        """
        here = self.here
        return replace(here.changed(changes), place=here.cluster) if changes else here
