"""MindSpore's strategy and group files."""

import json

import numpy as np
import pytest

from simcluster.errors import ScenarioError
from simcluster.job import (
    CheckpointContent,
    GroupFile,
    SavedTensor,
    StrategyFile,
    merge_strategy_files,
    restore_ranks,
)
from simcluster.layout import Layout, Mesh
from simcluster.work import DType


def content(mesh, stage_axis="", **tensors):
    """Tensors by name as (shape, layout, ranks)."""
    held = tuple(
        SavedTensor(name, shape, DType.FP32, layout, np.array(ranks))
        for name, (shape, layout, ranks) in tensors.items()
    )
    return CheckpointContent(Mesh.of(mesh), held, stage_axis)


def test_ranks_to_restore_from():
    """MatMul with strategies (2, 4) and (4, 1) on 8 ranks: rank 0 can be restored from rank 4."""
    own = content({"rows": 2, "inner": 4}, w=((8, 16), Layout((("inner",), ())), range(8)))
    assert restore_ranks(own, 0) == [0, 4]


def test_group_files_are_read_as_written():
    file = GroupFile({"0-4": [0, 4], "0-1-2-300": [0, 1, 2, 300]}, [0, 4])
    assert GroupFile.decode(file.encode()) == file


def test_bytes_of_a_group_file():
    """As protocol buffers are written by hand: field 2 of length 4, in it field 1 twice."""
    assert GroupFile({}, [0, 300]).encode() == b"\x12\x05\x08\x00\x08\xac\x02"
    assert GroupFile({"ab": [1]}, []).encode() == b"\x0a\x08\x0a\x02ab\x12\x02\x08\x01\x12\x00"


@pytest.mark.parametrize(
    "data", [b"", b"\x0a\xff", b"no group file", b"\x12\x05\x08", b"\x0a\x02\x08\x01\x12\x00", b"\xff" * 12]
)
def test_other_bytes_are_no_group_file(tmp_path, data):
    path = tmp_path / "group_info.pb"
    path.write_bytes(data)
    with pytest.raises(ScenarioError, match="is not a group file"):
        GroupFile.read(path)


def two_stages():
    mesh = {"pipeline": 2, "data": 2, "tensor": 2}
    return content(
        mesh,
        "pipeline",
        first=((8, 6), Layout(((), ("tensor",))), range(4)),
        second=((8, 6), Layout((("tensor", "data"), ())), range(4, 8)),
        tied=((4,), Layout((("data",),)), range(8)),
    )


STRATEGIES = {0: {"a.matmul": [[2, 1], [1, 2]]}, 1: {"b.matmul": [[2, 1], [2, 1]]}}


def test_a_strategy_file_of_one_stage():
    made = StrategyFile.of(two_stages(), STRATEGIES).document(1)
    assert made["current_stage"] == 1
    assert made["parallel_strategy_item"] == {"b.matmul": {"stage": 1, "parallel_strategy": [[2, 1], [2, 1]]}}
    assert set(made["parallel_layout_item"]) == {"second", "tied"}
    second = made["parallel_layout_item"]["second"]
    assert (second["dev_matrix"], second["tensor_map"]) == ([2, 2], [[0, 1], -1])
    assert set(second) == {
        *("dev_matrix", "field", "indices_offset", "opt_weight_shard_size", "opt_weight_shard_step"),
        *("param_split_shape", "tensor_map"),
    }


def test_merged_and_one_by_one_are_the_same(tmp_path):
    own = two_stages()
    file = StrategyFile.of(own, STRATEGIES)
    merged = tmp_path / "merged.json"
    merged.write_text(json.dumps(file.document()))
    assert set(json.loads(merged.read_text())["parallel_layout_item"]) == {
        *("0-first", "1-second", "0-tied", "1-tied")
    }
    parts = []
    for stage in (0, 1):
        parts.append(tmp_path / f"stage{stage}.json")
        parts[-1].write_text(json.dumps(file.document(stage)))
    for read in (StrategyFile.read(merged), merge_strategy_files(parts)):
        again = read.content(own)
        assert again.rank_bytes.tolist() == own.rank_bytes.tolist()
        for before, after in zip(own.tensors, again.tensors, strict=True):
            assert before.ranks.tolist() == after.ranks.tolist()
            one, two = before.slices(own.mesh), after.slices(again.mesh)
            for rank in before.ranks:
                mine = one.boxes[one.part == one.part_of_rank[rank]]
                assert mine.tolist() == two.boxes[two.part == two.part_of_rank[rank]].tolist()
    with pytest.raises(ScenarioError, match="no strategy file of stage 0"):
        merge_strategy_files(parts[1:])


def test_optimizer_shards():
    """4 x 2 devices, dim 1 split over 2: level 1 cuts dim 0 over the 4 replicas, 2 ranks apart."""
    own = content({"data": 4, "tensor": 2}, w=((8, 6), Layout(((), ("tensor",)), flat=("data",)), range(8)))
    file = StrategyFile.of(own, {0: {"matmul": [[4, 1], [1, 2]]}})
    layout = file.layouts["w"]
    assert (layout.shard_step, layout.shard_size) == (2, 4)
    again = file.content(own)
    assert again.tensors[0].layout.dims == (("d0",), ("d1",))
    assert again.rank_bytes.tolist() == own.rank_bytes.tolist()


def test_flat_runs_have_no_form_in_mindspore():
    own = content({"data": 4}, w=((6, 6), Layout(((), ()), flat=("data",)), range(4)))
    with pytest.raises(ScenarioError, match="runs of a flat buffer"):
        StrategyFile.of(own, {})


@pytest.mark.parametrize(
    "data, says",
    [
        ("[1]", "is not JSON object"),
        ("{", "is not JSON"),
        ("{}", "parallel_layout_item"),
        ('{"parallel_layout_item": {}}', "is empty"),
        ('{"parallel_layout_item": {"w": {"dev_matrix": [2]}}}', "tensor_map"),
        (
            '{"parallel_layout_item": {"w": {"dev_matrix": [2], "tensor_map": [1], '
            '"opt_weight_shard_size": 0, "opt_weight_shard_step": 0}}}',
            "do not go together",
        ),
        (
            '{"parallel_layout_item": {"w": {"dev_matrix": [2], "tensor_map": [0, 0], '
            '"opt_weight_shard_size": 0, "opt_weight_shard_step": 0}}}',
            "splits two dims",
        ),
    ],
)
def test_what_is_no_strategy_file(tmp_path, data, says):
    path = tmp_path / "strategy.json"
    path.write_text(data)
    with pytest.raises(ScenarioError, match=says):
        StrategyFile.read(path)


def test_a_strategy_file_without_a_parameter():
    own = two_stages()
    file = StrategyFile.of(own, STRATEGIES)
    more = content({"pipeline": 2, "data": 2, "tensor": 2}, "pipeline", third=((4,), Layout(((),)), range(4)))
    with pytest.raises(ScenarioError, match="does not have third"):
        file.content(more)
