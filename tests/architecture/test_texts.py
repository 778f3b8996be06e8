"""Regular expressions read what users write, and names as users know them; never values of our own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import simcluster
from tests.support.source_trees import source_nodes

ROOT = Path(simcluster.__file__).parent
PACKAGES = {
    *("analysis", "collectives", "engine", "layout", "model", "plan", "program"),
    *("report", "search", "simulation", "trace", "tuning", "values"),
}
SAVED = "a report has the texts of a saved run only"
READERS = {
    "model/onnx/block_writer.py": "names in files of other tools become names of operators",
    "plan/manual/exchanges.py": "any text becomes a name",
    "plan/pipeline/action.py": "timetables that users write",
    "plan/spec/strategy_spec.py": "strategies that users write",
    "report/chakra/trace_files.py": SAVED,
    "report/content/run_header.py": SAVED,
    "report/html/scenario_yaml.py": "which texts YAML reads as they are",
    "report/perfetto/flow_arrows.py": SAVED,
    "report/terminal/weight_layouts.py": SAVED,
    "simulation/verification/shrink_fine_tuning.py": "patterns that users write",
    "simulation/verification/shrink_offload.py": "patterns that users write",
}
"""The modules that use regular expressions, and what they read."""


def imports_re(path):
    return any(
        isinstance(node, ast.Import) and any(alias.name == "re" for alias in node.names)
        for node in source_nodes(path)
    )


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_regular_expressions_read_what_users_wrote(package):
    users = {path.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob("*.py") if imports_re(path)}
    assert users == {name for name in READERS if name.startswith(f"{package}/")}


NUMBERS = "layers of one name are shown together: layers.*.mlp.up"
CUTTERS = {
    "collectives/traffic/imbalance.py": "factors that users write",
    "engine/compiled/arrays.py": "names of fields of records, written as for a namedtuple",
    "model/huggingface/model_type.py": "keys in files of other tools",
    "model/operators/contraction.py": "einsum's notation",
    "model/operators/ring_attention.py": "pairs of names, in the notation of the module",
    "plan/fine_tuning/low_rank_adapters.py": "names of weights, by which users name targets",
    "plan/overlap/collective_matmul.py": "names of chunks, which digests read",
    "plan/pass_list.py": "docstrings",
    "plan/pipeline/action.py": "timetables that users write",
    "plan/pipeline/v_shape.py": "timetables, in the notation that users write",
    "plan/rules/name_patterns.py": "patterns of names as users write them",
    "plan/spec/optimizer_sharding.py": "values that users write",
    "plan/spec/parameter_server_spec.py": "laws that users write",
    "plan/subgraphs/subgraph.py": NUMBERS,
    "report/chakra/trace_files.py": SAVED,
    "report/comparison/comparison.py": SAVED,
    "report/content/run_header.py": SAVED,
    "report/content/stage_peaks.py": "titles of stages, which end with their number",
    "report/content/statements.py": SAVED,
    "report/html/step.py": SAVED,
    "report/html/timeline_data.py": SAVED,
    "report/perfetto/event_blocks.py": SAVED,
    "report/perfetto/flow_arrows.py": SAVED,
    "report/perfetto/json_columns.py": "JSON that a library wrote",
    "report/terminal/layouts.py": SAVED,
    "search/space/space.py": "keys and values that users write",
    "simulation/views/plan_description.py": "key paths, as users write them",
    "tuning/recompute_search.py": "patterns of names as users write them",
    "values/recorded_values.py": "names of updates, which the Program digest reads: w.update",
}
"""The modules that take texts apart at a separator, and which."""
CUTTING = {"partition", "rpartition", "removeprefix", "removesuffix", "split", "rsplit"}


def cuts_texts(path):
    """Whether a module takes texts apart at a separator; arrays are split by numbers."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CUTTING
        and not (
            node.func.attr.endswith("split") and node.args and not isinstance(node.args[0], ast.Constant)
        )
        for node in source_nodes(path)
    )


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_texts_are_cut_where_no_value_says_it(package):
    users = {path.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob("*.py") if cuts_texts(path)}
    assert users == {name for name in CUTTERS if name.startswith(f"{package}/")}
