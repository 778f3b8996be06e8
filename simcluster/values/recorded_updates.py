"""One device that takes the recorded order of pulls and updates of asynchronous parameter servers.

Which worker pulled which weights when, and in which order servers updated, is a matter of time; what follows
from it is not. One device computes the gradients of a worker's samples with the weights that this worker had
pulled, and updates with them when the server did.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimulationError
from simcluster.model import Array, Region, SparseUpdate
from simcluster.values.oracle import Oracle, StepValues, WorkerGradients
from simcluster.values.server_exchange import AppliedUpdate

Key = tuple[str, int]
"""A parameter, and the first of its rows that a server has."""


@dataclass
class RecordedUpdates:
    """Trains on one device in the order of ``updates``; each of ``workers`` has its samples alone."""

    workers: Mapping[int, Oracle]
    """By rank: a device that trains on the samples of this worker."""
    updates: Sequence[AppliedUpdate]
    """Updates with the gradients of one worker each, in their order."""
    _versions: dict[Key, list[Array]] = field(default_factory=dict)
    _states: dict[Key, tuple[Array, ...]] = field(default_factory=dict)
    _gradients: dict[tuple[int, int], WorkerGradients] = field(default_factory=dict)

    def run(self, num_steps: int) -> list[StepValues]:
        """Of every step the loss and the gradients of all workers together, and the weights behind the last
        update of the step.
        """
        parts = {(update.parameter, update.first): update.rows for update in self.updates}
        oracle = next(iter(self.workers.values()))
        for (name, first), rows in parts.items():
            initial = oracle.initial(name)
            own = initial[first : first + rows] if rows else initial
            self._versions[name, first] = [own]
            self._states[name, first] = tuple(np.zeros_like(own) for _ in oracle.update.of(name).states)
        pulled = self._pulled()
        behind: dict[tuple[int, Key], Array] = {}
        for update in self.updates:
            (worker,) = update.workers
            if (worker, update.step) not in self._gradients:
                own_versions = pulled[worker, update.step]
                made = self.workers[worker].gradients(update.step, self._whole(own_versions))
                self._gradients[worker, update.step] = made
            self._apply(update, self._gradients[worker, update.step], oracle)
            key = update.parameter, update.first
            behind[update.step, key] = self._versions[key][-1]
        return [self._step(step, behind) for step in range(num_steps)]

    def _pulled(self) -> Mapping[tuple[int, int], dict[Key, int]]:
        """By worker and step: how often every part had been updated when the worker pulled it."""
        done: Counter[Key] = Counter()
        pulled: defaultdict[tuple[int, int], dict[Key, int]] = defaultdict(dict)
        for update in self.updates:
            key = update.parameter, update.first
            pulled[update.workers[0], update.step][key] = done[key] - update.staleness
            done[key] += 1
        return pulled

    def _whole(self, versions: Mapping[Key, int]) -> dict[str, Array]:
        """Whole parameters out of the versions of their parts."""
        parts: defaultdict[str, list[Array]] = defaultdict(list)
        for key, version in sorted(versions.items()):
            if version >= len(self._versions[key]):
                raise SimulationError(f"update {version} of {key[0]} was pulled before it was made")
            parts[key[0]].append(self._versions[key][version])
        return {name: _joined(own) for name, own in parts.items()}

    def _apply(self, update: AppliedUpdate, made: WorkerGradients, oracle: Oracle) -> None:
        """The update of a part, with the worker's gradients of it."""
        key, rule = (update.parameter, update.first), oracle.update.of(update.parameter)
        weights, states, number = self._versions[key][-1], self._states[key], len(self._versions[key])
        if update.parameter in made.rows:
            rows, ids = made.rows[update.parameter]
            flat = rows.reshape(ids.size, -1)
            own = (ids.ravel() >= update.first) & (ids.ravel() < update.first + len(weights))
            operator = SparseUpdate(rule, len(weights), 1)
            arrays = (weights, flat[own], ids.ravel()[own] - update.first, *states)
            after = operator.evaluate(arrays, Region({}, number))
        else:
            gradient = made.gradients[update.parameter]
            own_rows = gradient[update.first : update.first + update.rows] if update.rows else gradient
            after = rule.step(weights, own_rows, states, number)
        self._versions[key].append(np.asarray(after[0]))
        self._states[key] = tuple(after[1:])

    def _step(self, step: int, behind: Mapping[tuple[int, Key], Array]) -> StepValues:
        own = [made for (_, its), made in self._gradients.items() if its == step]
        names = own[0].gradients
        gradients = {name: np.asarray(sum(made.gradients[name] for made in own)) for name in names}
        parts: defaultdict[str, list[Array]] = defaultdict(list)
        for (its, (name, _)), array in sorted(behind.items(), key=lambda entry: entry[0]):
            if its == step:
                parts[name].append(array)
        return StepValues(
            sum(made.loss for made in own),
            gradients,
            {name: _joined(arrays) for name, arrays in parts.items()},
        )


def oracles_of_workers(oracle: Oracle, samples: Mapping[int, tuple[int, int]]) -> dict[int, Oracle]:
    """For every worker a device that trains on its samples (first, behind the last) of each micro-batch."""
    return {
        worker: replace(oracle, rows=[(run,)] * oracle.num_micro_batches) for worker, run in samples.items()
    }


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts) if len(parts) > 1 else parts[0]
