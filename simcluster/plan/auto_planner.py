"""The planner of mode auto: a search finds the strategies; then all is planned as if they were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem
from simcluster.layout import Mesh
from simcluster.model import Model, WithVocabulary, padded
from simcluster.plan.auto import SearchSettings, find_strategies, unit_sub_axes
from simcluster.plan.plan import Placement, Plan
from simcluster.plan.planner import StrategyPlanner
from simcluster.plan.rules import SEQUENCE, AxisRoles, StrategyRule, stage_devices
from simcluster.plan.search_report import SearchReport
from simcluster.plan.sharded_model import ShardedModels
from simcluster.plan.spec import USUAL_SEARCH, InferenceSpec, RecipeSpec
from simcluster.plan.strategies import DEFAULT, assign_strategies, roles_of, split_mesh_axes


@dataclass
class AutoPlanner(StrategyPlanner):
    """Plans a model by strategies that are searched; those that the user wrote, or a recipe that is named,
    stay as they are.
    """

    searched: SearchReport | None = None
    """What a search found; None: it is still to be done."""
    searching: bool = field(default=False, init=False)
    """Whether the network is planned for the search, which does not know yet what splits the vocabulary."""

    def plan(self, known: ShardedModels | None = None) -> Plan:
        """The plan, with a report of the search; PlanError where it has no answer."""
        if self.searched is None:
            self.searched = self._search()
        return replace(super().plan(known), search=self.searched)

    def _search(self) -> SearchReport:
        roles = AxisRoles(roles_of(self.parallel))
        mesh = Mesh.of(self.parallel.sizes).with_off_axes(self.parallel.num_server_ranks)
        self._check(mesh, roles)
        placement = Placement.of(mesh, roles)
        pipeline = self._pipeline(placement)
        numerics = self._numerics(self._sharding(placement))
        self.searching = True
        model = self._model(placement)
        forward, _ = self._forward_on_stages(model, placement, pipeline, numerics)
        self.searching = False
        written = self._written(mesh)
        cut, cut_roles = split_mesh_axes(forward.graph, written, mesh, roles, placement.stage_axis)
        sub_axes = [
            ("the search", "parallel.mesh", unit)
            for unit in unit_sub_axes(cut, placement.stage_axis, cut_roles.resolve((SEQUENCE,), cut))
        ]
        cut, cut_roles = split_mesh_axes(forward.graph, written, mesh, roles, placement.stage_axis, sub_axes)
        pads = self.parallel.pads
        strategies = assign_strategies(forward.graph, written, cut, cut_roles, pads=pads)
        fixed = {
            instance: {
                name: strategies.of(instance)[name] for name, given in sources.items() if given != DEFAULT
            }
            for instance, sources in strategies.sources.items()
        }
        settings = SearchSettings(
            self.parallel.search_mode or USUAL_SEARCH,
            self.parallel.auto,
            not isinstance(self.task, InferenceSpec),
            pipeline.batches.most,
            pipeline.chain.num_stages,
        )
        return find_strategies(
            forward.graph,
            fixed,
            cut,
            placement.stage_axis,
            self.cluster,
            self.algorithms,
            settings,
            cut_roles.resolve((SEQUENCE,), cut),
        )

    def _written(self, mesh: Mesh) -> list[StrategyRule]:
        """The rules that the search has to respect."""
        own = [
            entry.rule("scenario", f"parallel.strategies.{index}")
            for index, entry in enumerate(self.parallel.strategies)
        ]
        name = self.parallel.recipe
        shipped = [] if name is None else RecipeSpec.load(name).strategies
        return own[::-1] + [entry.rule(f"recipe {name}") for entry in shipped][::-1]

    def _rules(self, mesh: Mesh) -> list[StrategyRule]:
        """The rules that are written, then those that were found."""
        return [*self._written(mesh), *(self.searched.rules if self.searched else ())]

    def _unused_axes(self, mesh: Mesh, roles: AxisRoles, rules: Sequence[StrategyRule]) -> list[Problem]:
        """None: what splits nothing was searched, too."""
        return []

    def _padded(self, placement: Placement) -> Model:
        """For the search, a vocabulary that all ranks of a stage could share."""
        if not self.searching or not isinstance(self.model, WithVocabulary):
            return super()._padded(placement)
        ways = stage_devices(placement.mesh, placement.roles)
        return padded(self.model, self.framework.vocabulary_multiple * ways)
