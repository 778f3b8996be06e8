"""A space of plans: a scenario and the keys that a search may choose."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Section
from simcluster.errors import Problem, ScenarioError, nearest
from simcluster.plan import schedule_kinds
from simcluster.registry import kinds
from simcluster.scenario import Scenario
from simcluster.search.space.axes import in_order
from simcluster.search.space.plan_choice import DATA, NOTHING, PlanChoice
from simcluster.search.space.search_key import SearchKey, SpaceSetting
from simcluster.tuning import Changes


def search_keys() -> dict[str, SearchKey]:
    """The keys of ``--over`` by name, in the order in which they choose."""
    known = kinds("simcluster.search.space.keys", SearchKey)
    keys = {kind: key() for kind, key in known.items()}
    return dict(sorted(keys.items(), key=lambda entry: (entry[1].order, entry[0])))


def _split_keys(text: str, known: Collection[str]) -> list[str]:
    """``mesh,micro_batch=1,2,recompute`` -> keys with their values: a value is what is no known key."""
    keys: list[str] = []
    for part in text.split(","):
        name = part.strip()
        if not name:
            continue
        is_value = bool(keys) and "=" in keys[-1] and "=" not in name and name not in known
        if is_value:
            keys[-1] += f",{name}"
        else:
            keys.append(name)
    return keys


@dataclass(frozen=True)
class PlanSpace:
    """The plans of a scenario that differ in some keys; the values of a key are () for its usual ones."""

    scenario: Scenario
    keys: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, scenario: Scenario, over: Sequence[str] | str = ()) -> PlanSpace:
        """The space of keys as users write them: ``mesh``, ``micro_batch=1,2,4``, one by one or as one text;
        the usual ones if none are.

        Raises ScenarioError for keys and values that are not known, and for scenarios that cannot be
        searched: of inference, of programs that are written by hand, and those of mode auto.
        """
        known = search_keys()
        _check_searchable(scenario)
        keys: dict[str, tuple[str, ...]] = {}
        given = _split_keys(over, known) if isinstance(over, str) else over
        for text in given or [kind for kind, key in known.items() if key.is_usual]:
            name, has_values, values = text.partition("=")
            if name not in known:
                raise ScenarioError(f"--over {text}: there is no key '{name}'", hint=nearest(name, known))
            keys[name] = tuple(values.split(",")) if has_values else ()
            known[name].check(keys[name])
        return cls(scenario, {name: keys[name] for name in known if name in keys})

    @cached_property
    def setting(self) -> SpaceSetting:
        """What its plans have in common."""
        return SpaceSetting(self.scenario)

    @cached_property
    def base(self) -> PlanChoice:
        """The scenario's own plan."""
        spec = self.scenario.spec
        assert spec.training is not None, "checked"
        parallel, schedule = spec.parallel, spec.parallel.schedule
        sizes = (
            parallel.sizes
            if DATA in parallel.sizes
            else in_order({**parallel.sizes, DATA: 1}, parallel.sizes)
        )
        mesh = PlanChoice((), spec.training.micro_batch).with_mesh(sizes).mesh
        # V-shaped schedules have two chunks on a stage, and nobody may say how many.
        has_chunks = "chunks" in {field.name for field in fields(schedule_kinds()[schedule.kind])}
        stages = schedule.stages
        return PlanChoice(
            mesh,
            spec.training.micro_batch,
            schedule.kind,
            (schedule.chunks or 2) if has_chunks else 1,
            tuple(count for count in stages if isinstance(count, int)) if stages != "auto" else (),
            _text(parallel.optimizer_sharding),
            _text(parallel.recompute) if parallel.recompute.model_dump(exclude_defaults=True) else NOTHING,
            _text(parallel.offload),
            schedule.slices or 0,
            bool(schedule.pairs),
            tuple(spec.training.batch_shares.get(DATA, ())),
        )

    @cached_property
    def plans(self) -> tuple[PlanChoice, ...]:
        """Every plan whose global batch divides, each once, in the order of the keys.

        Raises ScenarioError if there is none.
        """
        known = search_keys()
        choices: Iterator[PlanChoice] = iter((self.base,))
        for name, values in self.keys.items():
            choices = self._extended(known[name], values, choices)
        legal = tuple(dict.fromkeys(choice for choice in choices if self._divides(choice)))
        if not legal:
            raise ScenarioError(
                Problem(
                    f"the space over {', '.join(self.keys)} has no plan on {self.setting.num_devices} "
                    f"devices whose micro-batches divide a global batch of {self.setting.global_batch}",
                    hint="search over more keys, or change training.global_batch",
                )
            )
        return legal

    def idle_values(self, name: str) -> list[str]:
        """The values of a key that the user wrote and no plan has, as they do not divide what is there."""
        key = search_keys()[name]
        return [
            value for value in self.keys[name] if not any(key.has(choice, value) for choice in self.plans)
        ]

    def _extended(
        self, key: SearchKey, values: tuple[str, ...], choices: Iterator[PlanChoice]
    ) -> Iterator[PlanChoice]:
        for choice in choices:
            yield from key.choices(self.setting, choice, values)

    def _divides(self, choice: PlanChoice) -> bool:
        return bool(self.setting.micro_batches(choice))

    def changes_of(self, choice: PlanChoice) -> Changes:
        """What the scenario says for a plan, as key paths and YAML texts."""
        spec = self.scenario.spec
        assert spec.training is not None, "checked"
        return choice.changes(spec.parallel.schedule.p2p, has_shares=bool(spec.training.batch_shares))


def _check_searchable(scenario: Scenario) -> None:
    if scenario.spec.training is None:
        raise scenario.located(
            ScenarioError("plans of training are searched, and this scenario answers", path="inference")
        )
    if scenario.spec.parallel.mode == "manual":
        raise scenario.located(
            ScenarioError("a program that is written by hand leaves nothing to search", path="parallel.mode")
        )
    if scenario.spec.parallel.mode == "auto":
        raise scenario.located(
            ScenarioError(
                "the strategies of mode auto are another search, which every plan would begin anew",
                path="parallel.mode",
                hint="write what it finds, simcluster layouts --as-strategies, in mode semi_auto",
            )
        )
    schedule = scenario.spec.parallel.schedule
    nested = schedule.stages != "auto" and any(isinstance(count, tuple) for count in schedule.stages)
    if nested or schedule.text is not None:
        raise scenario.located(
            ScenarioError(
                "a search knows schedules by their kind, chunks, slices and the layers of each stage",
                path="parallel.schedule",
                hint="leave text and layers by chunk out",
            )
        )
    if schedule.vocabulary is not None:
        raise scenario.located(
            ScenarioError(
                "a search knows no schedules that share the vocabulary",
                path="parallel.schedule.vocabulary",
                hint="leave it out, and compare single plans with and without it",
            )
        )
    if scenario.spec.parallel.parameter_server is not None:
        raise scenario.located(
            ScenarioError(
                "a search knows plans whose devices all compute, and here some are parameter servers",
                path="parallel.parameter_server",
            )
        )
    if set(scenario.spec.training.batch_shares) - {DATA}:
        raise scenario.located(
            ScenarioError(
                f"a search knows shares of the batch along {DATA} alone", path="training.batch_shares"
            )
        )
    if scenario.spec.tenants:
        raise scenario.located(
            ScenarioError(
                "plans are searched for a cluster of their own", path="tenants", hint="leave the tenants out"
            )
        )


def _text(written: Section | str | None) -> str:
    """What a scenario says, as YAML."""
    if written is None or isinstance(written, str):
        return written or "null"
    data: Any = written.model_dump(mode="json", exclude_unset=True, by_alias=False)
    return json.dumps(data) if data else "{}"
