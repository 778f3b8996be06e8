"""What leaves the devices, and how much of it, with memories that are made up."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from simcluster.errors import PlanError
from simcluster.plan import OffloadSpec
from simcluster.tuning import offload_search
from simcluster.tuning.offload_search import PARTS, _Search
from simcluster.tuning.trials import PlanTrial, PlanTrials

ORDER = ["optimizer_states", "activations", "parameters"]


@dataclass(frozen=True)
class Noted:
    notes: tuple[str, ...] = ()


@dataclass
class Imagined(PlanTrials):
    """What is lacking, less so much for every part of a category that leaves; some are impossible."""

    lacking: int = 0
    saved: dict[str, int] = field(default_factory=dict)

    def run(self, choice):
        if any(self.saved[name] is None for name, _ in choice):
            raise PlanError("it must stay")
        excess = self.lacking - sum(self.saved[name] * parts for name, parts in choice)
        self.known[choice] = PlanTrial(choice, Noted(), 0, (excess,))
        return self.known[choice], None


@pytest.fixture
def offloaded(monkeypatch):
    monkeypatch.setattr(offload_search, "by_idle_time", lambda probe: ORDER)

    def note(lacking, *saved):
        trials = Imagined(None, None, None, lacking=lacking, saved=dict(zip(ORDER, saved, strict=True)))
        return _Search(OffloadSpec(auto=True), trials).best().notes[-1]

    return note


@pytest.mark.parametrize(
    ("lacking", "saved", "said"),
    [
        (0, (1, 1, 1), "everything fits, so nothing leaves the devices"),
        (PARTS // 2, (1, 1, 1), "optimizer states 50 % to the host; "),
        (PARTS, (1, 1, 1), "optimizer states to the host; "),
        (PARTS + PARTS // 4, (1, 1, 1), "optimizer states, activations 25 % to the host; "),
        # What saves nothing stays, and what must stay is passed over.
        (PARTS, (0, 1, 1), "activations to the host; "),
        (PARTS, (None, 2, 1), "activations 50 % to the host; "),
        (
            4 * PARTS,
            (1, 1, 1),
            "optimizer states, activations, parameters to the host, which leaves 16 B too much",
        ),
    ],
)
def test_categories_leave_one_after_another_and_of_the_last_only_what_is_needed(
    offloaded, lacking, saved, said
):
    assert offloaded(lacking, *saved).startswith(f"offload auto: {said}")
