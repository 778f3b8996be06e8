"""Files for other tools, read back as those read them."""

import csv
import json
import sys
from pathlib import Path

import polars
import pytest

import simcluster
from simcluster.cli.app import command_line
from simcluster.errors import SimclusterError, TraceError
from simcluster.report.chakra import chakra_messages, write_chakra
from simcluster.report.table_files import TABLES, write_tables
from tests.support.scenario_texts import SMALL

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "small.yaml"
    path.write_text(SMALL)
    return simcluster.simulate(path)


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def messages(path):
    """The bytes of every message of a file."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        size, at = varint(data, at)
        yield data[at : at + size]
        at += size


def fields(data):
    """(field number, value) of a message as it stands on the wire: integers, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        else:
            assert key & 7 == 0
        yield key >> 3, value


@pytest.fixture(scope="module")
def traces(result, tmp_path_factory):
    folder = tmp_path_factory.mktemp("chakra")
    files = write_chakra(result.run, folder)
    assert files.untyped == 0
    metadata, node = chakra_messages()
    read = []
    for path in files.paths:
        about, *nodes = messages(path)
        read.append((metadata.FromString(about), [node.FromString(data) for data in nodes], nodes))
    assert [path.name for path in files.paths] == [f"small.{rank}.et" for rank in range(8)]
    return read


def attributes(node):
    return {entry.name: getattr(entry, entry.WhichOneof("value")) for entry in node.attr}


def test_every_rank_has_its_kernels_and_transfers(result, traces):
    for rank, (about, nodes, _) in enumerate(traces):
        assert about.version == "0.0.4" and attributes(about)["rank"] == rank
        spans = result.spans(ranks=[rank], frame=False)
        assert [node.name for node in nodes] == spans["operator"].tolist()
        assert sum(attributes(node)["duration_ns"] for node in nodes) == pytest.approx(
            spans["duration_s"].sum() * 1e9
        )
        kinds = {4: "compute", 5: "send", 6: "receive", 7: "collective"}
        assert [kinds[node.type] for node in nodes] == spans["kind"].tolist()


def test_nothing_depends_on_what_ends_later(traces):
    for _, nodes, _ in traces:
        begin = [attributes(node)["start_ns"] for node in nodes]
        end = [start + attributes(node)["duration_ns"] for start, node in zip(begin, nodes, strict=True)]
        for number, node in enumerate(nodes):
            assert node.id == number
            assert all(end[before] <= begin[number] for before in (*node.ctrl_deps, *node.data_deps))
        assert sum(len(node.data_deps) > 0 for node in nodes) > len(nodes) / 10


def test_members_of_a_collective_name_one_group_and_ends_of_a_transfer_agree(traces):
    for axis, ranks in (("tensor", (2, 3)), ("data", (1, 3))):
        names = [
            {attributes(node)["pg_name"] for node in traces[rank][1] if node.type == 7} for rank in ranks
        ]
        shared = set.intersection(*names)
        assert shared == {f"{axis}:{min(ranks)}"}
    ends = [
        {
            (attributes(n)["comm_src"], attributes(n)["comm_dst"], attributes(n)["comm_size"])
            for n in nodes
            if n.type == t
        }
        for t in (5, 6)
        for nodes in [[node for _, nodes, _ in traces for node in nodes]]
    ]
    assert ends[0] == ends[1] and {(0, 4), (4, 0)} <= {pair[:2] for pair in ends[0]}


def test_the_numbers_on_the_wire_are_those_of_the_published_schema(traces):
    """Of a message by hand, without protobuf: id 1, name 2, type 3, deps 4 and 5, times 6 and 7, attr 10."""
    _, nodes, raw = traces[0]
    number = next(n for n, node in enumerate(nodes) if node.type == 7 and node.data_deps and node.ctrl_deps)
    by_number = {}
    for field, value in fields(raw[number]):
        by_number.setdefault(field, []).append(value)
    assert set(by_number) <= {1, 2, 3, 4, 5, 6, 7, 10}
    assert by_number[1] == [number] and by_number[3] == [7]
    assert by_number[2] == [nodes[number].name.encode()]
    read = {dict(fields(value))[1].decode(): dict(fields(value)) for value in by_number[10]}
    assert read["pg_name"][29] == attributes(nodes[number])["pg_name"].encode()
    assert read["comm_type"].get(9, 0) == attributes(nodes[number])["comm_type"]
    assert read["is_cpu_op"].get(27, 0) == 0


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_are_read_back_exactly(result, tmp_path, kind):
    paths = write_tables(result.run, tmp_path, kind)
    assert [path.name for path in paths] == [f"{name}.{kind}" for name in TABLES]
    for name, path in zip(TABLES, paths, strict=True):
        frame = getattr(result, name)()
        read = polars.read_csv(path) if kind == "csv" else polars.read_parquet(path)
        assert read.columns == frame.columns
        for column in frame.columns:
            written = [value or "" if isinstance(value, str | None) else value for value in frame[column]]
            again = [value or "" if isinstance(value, str | None) else value for value in read[column]]
            assert again == written, (name, column)
    if kind == "csv":
        with (tmp_path / "spans.csv").open(newline="") as file:
            assert sum(1 for _ in csv.DictReader(file)) == result.spans().height


def test_the_command_writes_scenarios_and_saved_runs(result, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    result.save("run.simrun")
    assert command_line(["export", "small.yaml", "--to", "csv", "-o", "a"]) == 0
    assert command_line(["export", "run.simrun", "--to", "csv", "-o", "b"]) == 0
    assert (tmp_path / "a" / "spans.csv").read_bytes() == (tmp_path / "b" / "spans.csv").read_bytes()
    assert command_line(["export", "run.simrun", "--to", "chakra", "-o", "c", "--ranks", "0,5"]) == 0
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["small.0.et", "small.5.et"]
    capsys.readouterr()
    for arguments, message in (
        (["run.simrun", "--to", "csv", "-o", "d", "--ranks", "8"], "there is no rank 8"),
        (["run.simrun", "--to", "csv", "-o", "run.simrun"], "this is a file; name a folder"),
        (["run.simrun", "--to", "csv", "-o", "d", "--set", "x=1"], "a saved run cannot be changed"),
    ):
        assert command_line(["export", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_what_is_missing_is_said(result, tmp_path, monkeypatch):
    with pytest.raises(TraceError, match="did you mean 'csv'"):
        write_tables(result.run, tmp_path, "cvs")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(SimclusterError, match=r"pip install 'simcluster\[notebook\]'"):
        write_tables(result.run, tmp_path, "parquet")
    chakra_messages.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(SimclusterError, match=r"pip install 'simcluster\[chakra\]'"):
        write_chakra(result.run, tmp_path)
    chakra_messages.cache_clear()


@pytest.mark.parametrize(
    "scenario",
    [
        "quickstart",
        "llama3-70b-inference-8-h100",
        "mixed-h100-ascend-cpu-lost-host",
        "tenants-576-h100",
        "wide-deep-8-ascend-910-servers",
    ],
)
def test_the_guide_describes_every_key_of_the_json_result(scenario):
    keys = set(json.loads(simcluster.simulate(ROOT / "scenarios" / f"{scenario}.yaml").to_json()))
    guide = (ROOT / "simcluster" / "guide" / "interchange.md").read_text(encoding="utf-8")
    section = guide.partition("## The JSON result")[2].partition("## Chakra")[0]
    assert not {key for key in keys if f"`{key}`" not in section}


def test_the_parts_of_a_step_sum_to_it(result):
    """Those that the guide counts."""
    summary = result.summary
    names = ("compute_s", "slowed_s", "host_s", "pipeline_wait_s", "offload_wait_s", "input_wait_s", "idle_s")
    whole = sum(summary[name] for name in names) + sum(summary["exposed_communication_s"].values())
    assert whole == pytest.approx(summary["step_time_s"])
