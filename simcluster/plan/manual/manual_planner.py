"""The planner of hand-written programs: differentiated, with optimizer updates, and no
collectives inserted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from simcluster.errors import PlanError, Problem, SimclusterError
from simcluster.layout import Mesh
from simcluster.model import vocabulary_of
from simcluster.plan.autodiff import LOSS_KEY
from simcluster.plan.data import check_inputs, micro_batches_of
from simcluster.plan.diagnostics import check_rates, check_tensors, size_problems
from simcluster.plan.execution import ExecutionPolicy
from simcluster.plan.manual.collective_order import check_order
from simcluster.plan.manual.gradient_reductions import written_reductions
from simcluster.plan.manual.groups import Groups
from simcluster.plan.manual.rank_graphs import RankGraphs
from simcluster.plan.manual.tensor_parts import ReferenceParts
from simcluster.plan.optimizer import OptimizerPlan
from simcluster.plan.pass_list import PassList
from simcluster.plan.passes import Passes, derivative_passes, place_layers, sequence_passes
from simcluster.plan.pipeline import Timetable, VirtualStages, has_split_backward
from simcluster.plan.plan import PipelinePlan, Placement, Plan
from simcluster.plan.planner_base import Planner
from simcluster.plan.precision import Numerics, states_of, update_of
from simcluster.plan.redistribution import RedistributionPlanner, movement_cost
from simcluster.plan.rules import BATCH, AxisRoles
from simcluster.plan.spec import (
    InferenceSpec,
    ShardingChoice,
    TrainingSpec,
    fusible_collectives,
    fusion_ids,
    unused_fusion,
)
from simcluster.plan.strategies import Strategies, check_mesh, roles_of, unknown_axes, unused_roles
from simcluster.work import DType

PATH = "parallel.program"

STAGE_AXIS = ""
"""Stands for the pipeline axis, which such a mesh does not have: the program says what each rank runs."""


class ManualPlanner(Planner):
    """The planner of a hand-written program; ``model`` is its one-device reference.

    A plan is impossible if its ranks do not call the same collectives in the same order.
    """

    @property
    def training(self) -> TrainingSpec:
        """The training section; nothing else can be written by hand."""
        if isinstance(self.task, InferenceSpec):
            raise PlanError("programs that are written by hand train", path="parallel.mode")
        for key in ("lora", "frozen"):
            if getattr(self.task, key) is not None:
                raise PlanError(
                    "a program that is written by hand trains all of its parameters",
                    path=f"training.{key}",
                    hint="leave it out, or write parallel.mode: semi_auto",
                )
        return self.task

    def plan(self) -> Plan:
        """The plan: the differentiated reference model, and the graphs that ranks run."""
        program = self.parallel.program
        assert program is not None, "mode manual has a program"
        mesh = Mesh.of(self.parallel.sizes)
        roles = AxisRoles(roles_of(self.parallel))
        self._check(mesh, roles)
        batch_axes = roles.resolve((BATCH,), mesh)
        micro_batches = micro_batches_of(
            self.training.global_batch, self.training.micro_batch, {}, batch_axes, mesh
        )
        formats = Numerics.of(self.training.precision, self.framework, ShardingChoice())
        check_rates(self.cluster, formats.compute, formats.matmul)
        check_inputs(self.inputs, self.cluster)
        reference = self._reference(mesh.product(batch_axes), formats.compute)
        logical = reference.then(*derivative_passes(formats)).graph
        update = update_of(self.training.optimizer)
        if update.sparse or self.training.optimizer.groups:
            what = "groups" if self.training.optimizer.groups else "kind"
            raise PlanError(
                "a program that is written by hand updates whole parameters, all by one rule",
                path=f"training.optimizer.{what}",
                hint="use sgd, momentum, adam, adamw or lamb, without groups",
            )
        states = states_of(update, self.training.optimizer)
        try:
            groups = Groups.of(mesh, program.groups, "groups")
            reference_parts = ReferenceParts.of(program, reference.graph, groups)
            reductions = written_reductions(program.gradients, list(program.parameters), groups)
            programs = RankGraphs.of(program, reference_parts, groups, formats)
        except PlanError as error:
            raise _beneath(error) from None
        mesh = groups.whole
        optimizer = OptimizerPlan(
            update,
            formats.master,
            states,
            ShardingChoice(),
            self.framework.main_gradients,
            self.framework.reduction.copies,
            written=reductions,
        )
        router = RedistributionPlanner(mesh, movement_cost(self.cluster, mesh, self.algorithms))
        fusion = self.parallel.fused
        timetable = self._timetable(micro_batches.most) * programs.num_parts
        placement = Placement(mesh, STAGE_AXIS, roles, batch_axes, programs.part_of_rank)
        pipeline = PipelinePlan(
            VirtualStages.round_robin(1),
            (timetable,),
            micro_batches,
            self.training.micro_batch,
            chunks=((self.model.num_layers,),),
            inputs=self.inputs,
        )
        passes = Passes(
            placement=placement,
            pipeline=pipeline,
            numerics=formats,
            sharder=router,
            router=router,
            framework=self.framework,
            optimizer=optimizer,
            parallel=self.parallel,
        )
        done = PassList.of(programs.graph).then(*passes.after_sharding())
        graph = done.graph
        try:
            check_order(graph, programs.part_of_rank, mesh, programs.paths)
        except PlanError as error:
            raise _beneath(error) from None
        ids = fusion_ids(fusion.ids, [name for name, _ in logical.parameters()])
        policy = ExecutionPolicy.of(
            self.framework,
            ShardingChoice(),
            mesh,
            batch_axes,
            STAGE_AXIS,
            fusion.only(fusible_collectives(graph)),
            ids,
        )
        if policy.fusion is not None and policy.fusion.searched and programs.num_parts > 1:
            raise PlanError(
                f"ranks run {programs.num_parts} programs, each of which would get buckets of its own",
                path="parallel.fusion",
                hint="say how large buckets are: {mode: size, config: 25}",
            )
        return Plan(
            passes=done,
            logical=logical,
            placement=placement,
            pipeline=pipeline,
            numerics=formats,
            strategies=Strategies({}, {}),
            optimizer=optimizer,
            execution=replace(policy, algorithms=self.algorithms, call_reuse=self.parallel.reuse),
            vocab=vocabulary_of(self.model),
            notes=(
                *self.model.remarks(self.training.seq_len),
                *programs.notes,
                *unused_fusion(fusion, graph, ShardingChoice()),
            ),
        )

    def _reference(self, ways: int, compute: DType) -> PassList:
        """What one device computes of a micro-batch of all ranks."""
        model = self.computed(self.model)
        tokens = self.training.global_batch * self.training.seq_len
        forward = model.graph(self.training.micro_batch * ways, self.training.seq_len, compute, tokens)
        made = PassList.of(forward).then(*sequence_passes(ways, 1, "", ring=False))
        check_tensors(made.graph)
        return made.then(place_layers((self.model.num_layers,), VirtualStages.round_robin(1)))

    def _timetable(self, num_micro_batches: int) -> Timetable:
        """What every rank does with the micro-batches; PlanError for what a program by hand does not have."""
        schedule = self.parallel.schedule.build()
        timetable = schedule.timetable(1, num_micro_batches)
        if len(schedule.chain(1)) > 1 or has_split_backward(timetable):
            raise PlanError(
                f"schedule {self.parallel.schedule.kind}: a program by hand has neither chunks nor halves",
                path="parallel.schedule.kind",
                hint="write gpipe or 1f1b",
            )
        return timetable

    def _check(self, mesh: Mesh, roles: AxisRoles) -> None:
        """PlanError with everything that mode manual has no form for."""
        problems = [*check_mesh(mesh, self.cluster), *size_problems(mesh, self.model.num_layers)]
        problems += [*unknown_axes(self.parallel, mesh), *unused_roles(self.parallel, ())]
        problems += [
            Problem(f"mode manual inserts nothing: {message}", path, hint)
            for message, path, hint in self._beyond()
        ]
        refusal = self.model.seq_len_error(self.training.seq_len)
        if refusal:
            problems.append(Problem(refusal, "training.seq_len"))
        if problems:
            raise PlanError(*problems)

    def _beyond(self) -> Iterator[tuple[str, str, str]]:
        """What would have to be inserted: in words, its key, and what to do instead."""
        training = self.training
        if self.inputs is not None and self.inputs.strategy is not None:
            yield "feeds say which part of a batch a rank reads", "data.strategy", "leave it out"
        if training.batch_shares:
            yield "all ranks run equally many micro-batches", "training.batch_shares", "leave it out"
        if training.optimizer.clip is not None:
            yield "no norm of all gradients is added up", "training.optimizer.clip", "leave it out"
        if update_of(training.optimizer).dims().unsplittable:
            yield "no norms of parameters are added up", "training.optimizer.kind", "use adamw, adam or sgd"
        if training.precision.quantised is not None:
            yield "no operands are cast", "training.precision", "use bf16, fp16 or fp32"


def _beneath(error: SimclusterError) -> SimclusterError:
    """The error with key paths of the scenario."""
    keys = ["loss" if problem.path == LOSS_KEY else problem.path for problem in error.problems]
    return PlanError(
        *(
            replace(problem, path=f"{PATH}.{key}".rstrip("."))
            for problem, key in zip(error.problems, keys, strict=True)
        )
    )
