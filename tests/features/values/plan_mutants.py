"""Wrong rules of planning: each changes one function of the planner, as a slip of the pen would.

Most make wrong plans; those in ``COSTLY`` make plans that are right but move more.
"""

from __future__ import annotations

from dataclasses import replace

from simcluster.layout import Dims, MovementKind, movement
from simcluster.model.operators.pointwise import Add
from simcluster.plan.autodiff import differentiation as differentiate
from simcluster.plan.autodiff import gradient_accumulation as accumulate
from simcluster.plan.optimizer import fsdp_units as units
from simcluster.plan.redistribution import redistribution_planner as redistribute
from simcluster.plan.sharding import block_sharder as sharder
from simcluster.plan.sharding import graph_sharding as shard
from simcluster.plan.sharding import sharded_values as versions
from simcluster.values import exchange
from tests.features.values.layout_mutants import Mutant, nothing_passes

# -- the sharder ----------------------------------------------------------------------------------------


def not_taken_apart(original):
    return lambda self, node: [node]


def accumulators_as_made(original):
    return lambda self, value, layout: layout


def accumulators_whole(original):
    """Accumulators forget the sums that are due."""
    return lambda self, value, layout: original(self, value, layout).reduced


def all_common(original):
    """Where one term is partial, the sum of all is taken as partial."""

    def common(self, nodes):
        found = original(self, nodes)
        for node in nodes:
            layouts = sharder.operator_of(node).dims().output_layouts(self._strategy(node))
            for value, layout in zip(node.outputs, layouts, strict=True):
                if value in found:
                    found[value] |= frozenset(layout.partial_axes)
        return found

    return common


def joined_unmasked(original):
    """Members that join a partial sum are not zero elsewhere."""

    def place(self, node, *rest):
        original(self, node, *rest)
        for index, each in enumerate(self.sharded.nodes):
            operator = each.operator
            if each.masked and not isinstance(operator, movement.Movement):
                own = operator.dims().masked(each.strategy)
                self.sharded.nodes[index] = replace(each, masked=own)

    return place


def passing_anything(original):
    """Partial sums pass through operators that are not linear in them."""

    def passing(self, node, dims, strategy, readers, kept):
        free = replace(dims, linear=(frozenset(range(len(dims.inputs))),))
        return original(self, node, free, strategy, readers, kept)

    return passing


def names_kept(original):
    """The next block reads a result as its operator made it, though it has been reduced since."""
    return lambda block, homes: block


def partial_over_its_split(original):
    """A term is taken as partial over all axes that its strategy uses."""

    def axes(node, output, chosen):
        splits = chosen[node.source].splits if node.source in chosen else ()
        return frozenset(axis for _, each in splits for axis in each)

    return axes


def first_layout(original):
    """Of two versions of a value the first is read, whatever the reader needs."""

    def fetch(self, value, need, reader):
        return next(iter(self._versions[value].values()))

    return fetch


def never_assigned(original):
    def assign(self, value, layout, *, scatter):
        home = self.layout(value)
        self._versions[value] = {layout: self._versions[value][home]}

    return assign


SHARDER = [
    Mutant("split inner sums are not taken apart", sharder.BlockSharder, "_primitives", not_taken_apart),
    Mutant(
        "accumulators lie as terms are made",
        sharder.BlockSharder,
        "_accumulator_layout",
        accumulators_as_made,
    ),
    Mutant("accumulators forget their sums", sharder.BlockSharder, "_accumulator_layout", accumulators_whole),
    Mutant("one partial term makes the sum partial", sharder.BlockSharder, "_common_partial", all_common),
    Mutant("joining members are not masked", sharder.BlockSharder, "_place", joined_unmasked),
    Mutant("sums pass through what is not linear", sharder.BlockSharder, "_passing", passing_anything),
    Mutant("shared gradients are partial over all axes", shard, "_partial_axes", partial_over_its_split),
    Mutant("readers take what is there", versions.ShardedValues, "fetch", first_layout),
    Mutant(
        "results are not moved as their out strategy says", versions.ShardedValues, "assign", never_assigned
    ),
]


# -- sums of gradients ----------------------------------------------------------------------------------


def first_term(original):
    return lambda tape, value, terms: terms[0] if terms else None


def last_term(original):
    return lambda tape, value, terms: terms[-1] if terms else None


def mean_of_terms(original):
    return lambda self, inputs, region: (original(self, inputs, region)[0] / len(inputs),)


def one_reader(original):
    return lambda graph: dict.fromkeys(original(graph), ())


def no_ties(original):
    return lambda self: None


def one_not_added(original):
    """The last kernel that adds a gradient to its buffer is left out."""

    def accumulating(block, families, compute):
        made = original(block, families, compute)
        adding = [node for node in made.nodes if node.name.endswith(".accumulate")]
        return replace(made, nodes=tuple(node for node in made.nodes if node not in adding[-1:]))

    return accumulating


def path_without(end):
    def mutated(original):
        def path(self, kind, start, target):
            found = original(self, kind, start, target)
            return (found[1:] if end == "first" else found[:-1]) if len(found) > 1 else found

        return path

    return mutated


def remembered_by_start(original):
    """Paths are remembered by where they begin."""

    def priced(self, kind, start, target):
        found = original(self, kind, start, target)
        return self._found.setdefault(("from", start, kind), found)

    return priced


def mean_not_sum(original):
    def reduced(arrays, reduction):
        found = original(arrays, reduction)
        return found / len(arrays) if reduction == "sum" else found

    return reduced


GRADIENTS = [
    Mutant("of several gradients the first counts", differentiate, "_gathered", first_term),
    Mutant("of several gradients the last counts", differentiate, "_gathered", last_term),
    Mutant("gradients that meet are averaged", Add, "evaluate", mean_of_terms),
    Mutant("readers in other blocks are not counted", differentiate, "_shared", one_reader),
    Mutant("gradients of tied copies are not summed", units._Unit, "tie", no_ties),
    Mutant("a kernel that adds is left out", accumulate, "_accumulating", one_not_added),
    Mutant("paths lack their last step", redistribute.RedistributionPlanner, "path", path_without("last")),
    Mutant("paths lack their first step", redistribute.RedistributionPlanner, "path", path_without("first")),
    Mutant(
        "paths are remembered by their start",
        redistribute.RedistributionPlanner,
        "priced",
        remembered_by_start,
    ),
    Mutant("reductions take the mean", exchange, "_reduced", mean_not_sum),
]

# -- right, but dearer ----------------------------------------------------------------------------------


def never_partial(original):
    return lambda node, output, chosen: frozenset()


def nothing_kept(original):
    return lambda self, backward: None


def no_runs(generator_name):
    """Axes move one by one: one collective for each."""

    def mutated(original):
        def generator(layout, target=None):
            rest = (target,) if target is not None else ()
            yield from (each for each in original(layout, *rest) if len(each[0].axes) < 2)

        return generator

    return mutated


def none_of(kind):
    def mutated(original):
        def generator(layout, target):
            yield from (each for each in original(layout, target) if each[0].kind is not kind)

        return generator

    return mutated


COSTLY = [
    Mutant("nothing is linear", Dims, "passes", nothing_passes),
    Mutant("parts of shared gradients are reduced each", shard, "_partial_axes", never_partial),
    Mutant("results are sent on unreduced", sharder, "_with_homes_as_outputs", names_kept),
    Mutant("what was exchanged is exchanged again", sharder.BlockSharder, "_keep_exchanged", nothing_kept),
    Mutant("sums are never scattered", movement, "_reductions", none_of(MovementKind.REDUCE_SCATTER)),
    Mutant("nothing is exchanged", movement, "_exchanges", none_of(MovementKind.ALL_TO_ALL)),
    Mutant("axes are reduced one by one", movement, "_reductions", no_runs("_reductions")),
    Mutant("axes are gathered one by one", movement, "_gathers", no_runs("_gathers")),
]
"""Right in values: these show in what plans move."""
