import pytest

from simcluster.engine.pricing.priced_classes import MANY_CLASSES
from simcluster.errors import PlanError
from simcluster.layout import Mesh
from simcluster.model import Transformer
from simcluster.plan.diagnostics.size_limits import (
    MANY,
    MOST_LAYERS,
    MOST_OF_MANY,
    MOST_PASSES,
    MOST_RANKS,
    check_passes,
    check_tensors,
    size_problems,
)
from simcluster.work import DType


def test_ranks_and_layers():
    assert size_problems(Mesh.of({"data": MOST_RANKS}), MOST_LAYERS) == []
    ranks, layers = size_problems(Mesh.of({"data": MOST_RANKS, "tensor": 2}), MOST_LAYERS + 1)
    assert ranks.message == "data 1048576 x tensor 2 = 2,097,152 ranks; at most 1,048,576 are simulated"
    assert ranks.path == "parallel.mesh"
    assert layers.path == "model.layers"


@pytest.mark.parametrize(
    ("factors", "path", "hint"),
    [
        ({"layers": 2, "micro_batches": MOST_PASSES}, "training.global_batch", "larger micro_batch"),
        ({"layers": 1024, "micro_batches": 1023}, "model.layers", "fewer layers"),
        ({"layers": 80, "micro_batches": 32, "steps": 1000}, "run.steps", "fewer steps"),
        ({"layers": 80, "micro_batches": 32, "ranks": 8192}, "parallel.mesh", "do not unfold"),
        ({"layers": 80, "micro_batches": 32, "different": 8192}, "cluster.changes", "fewer devices"),
    ],
)
def test_passes(factors, path, hint):
    check_passes(**factors | {"layers": 1, "micro_batches": 1})
    with pytest.raises(PlanError) as caught:
        check_passes(**factors)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert hint in problem.hint
    beside = factors.keys() & {"ranks", "different"}
    assert f"at most {MOST_OF_MANY if beside else MOST_PASSES:,} are simulated" in problem.message


def test_few_ranks_beside_each_other_run_one_by_one():
    assert MANY == MANY_CLASSES
    check_passes(80, 32, different=MANY * 26)
    with pytest.raises(PlanError, match="at most 524,288"):
        check_passes(2**10, 2**8, different=MANY - 1)
    with pytest.raises(PlanError):
        check_passes(80, 32, different=MANY * 26, mixed=True)


def test_tensors():
    def graph(hidden):
        model = Transformer(1, hidden, 8, 8, hidden // 8, 16, 32)
        return model.graph(batch=1, seq_len=8, dtype=DType.BF16, num_tokens=8)

    check_tensors(graph(2**20))
    with pytest.raises(PlanError, match=r"layer\.attention\.qkv\.q\.weight of .* is larger than 1 PiB"):
        check_tensors(graph(2**26))
