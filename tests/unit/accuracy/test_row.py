"""Files of measurements: what is read, and what is said about a wrong line."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simcluster.accuracy import read_rows
from simcluster.accuracy.row import operation_named
from simcluster.accuracy.table import column_titles
from simcluster.errors import ScenarioError

HEAD = "id,source,op,hardware,num_devices,num_hosts,message_bytes,time_us,algbw_gb_s,busbw_gb_s,notes\n"


def written(tmp_path, *lines, head=HEAD):
    path = tmp_path / "rows.csv"
    path.write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_row_in_si_units(tmp_path):
    (row,) = read_rows(written(tmp_path, "a,lab,all_reduce,H100 SXM,8,1,1048576,25.5,41.1,72,out of place"))
    assert (row.line, row.name, row.operation, row.num_devices, row.num_hosts) == (2, "a", "all_reduce", 8, 1)
    assert (row.num_bytes, row.size, row.notes) == (2**20, 2**20, "out of place")
    assert (row.seconds, row.algbw, row.busbw) == pytest.approx((25.5e-6, 41.1e9, 72e9))


def test_a_rate_without_a_size_is_a_sustained_one(tmp_path):
    (row,) = read_rows(written(tmp_path, "a,lab,all_reduce,H100 SXM,8,1,,,,480,"))
    assert (row.num_bytes, row.size, row.seconds, row.algbw) == (None, 2**30, None, None)


def test_columns_in_any_order_and_more_of_them(tmp_path):
    head = "more,notes,busbw_gb_s,algbw_gb_s,time_us,message_bytes,num_hosts,num_devices,hardware,op,id\n"
    (row,) = read_rows(written(tmp_path, "x,,1.5,,,64,1,2,H100,broadcast,a", "", head=head))
    assert (row.name, row.busbw, row.source) == ("a", 1.5e9, "")


def test_missing_columns_are_named(tmp_path):
    with pytest.raises(ScenarioError, match=r"rows\.csv:1: missing columns: hardware, time_us") as caught:
        read_rows(written(tmp_path, head="id,op,num_devices,num_hosts,message_bytes,algbw_gb_s,busbw_gb_s\n"))
    assert "id,source,op,hardware" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a,lab,all_reduce,H100,8,1,64,abc,,,", "time_us 'abc' is not a number above zero"),
        ("a,lab,all_reduce,H100,8,1,64,-3,,,", "time_us '-3' is not a number above zero"),
        ("a,lab,all_reduce,H100,8,1,64,nan,,,", "time_us 'nan' is not a number above zero"),
        ("a,lab,all_reduce,H100,8,1,64,,inf,,", "algbw_gb_s 'inf' is not a number above zero"),
        (
            "a,lab,all_reduce,H100,eight,1,64,3,,,",
            "num_devices 'eight' is not a whole number of at least one",
        ),
        ("a,lab,all_reduce,H100,8,0,64,3,,,", "num_hosts '0' is not a whole number of at least one"),
        ("a,lab,all_reduce,H100,8,1,1.5,3,,,", "message_bytes '1.5' is not a whole number of at least one"),
        ("a,lab,all_reduce,H100,,1,64,3,,,", "num_devices and num_hosts are needed"),
        ("a,lab,all_reduce,H100,2,4,64,3,,,", "num_hosts 4 is more than num_devices 2"),
        ("a,lab,all_reduce,H100,8,1,64,,,,", "none of time_us, algbw_gb_s and busbw_gb_s is given"),
        ("a,lab,all_reduce,H100,8,1,64,3", "8 cells, but 11 titles"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(tmp_path, line, words):
    good = "a,lab,all_reduce,H100,8,1,64,3,,,"
    with pytest.raises(ScenarioError) as caught:
        read_rows(written(tmp_path, good, line))
    assert re.search(rf"rows\.csv:3(:\d+)?: {re.escape(words)}", str(caught.value))


def test_single_rows_are_refused_with_their_column_and_the_rest_is_read(tmp_path):
    good = "a,lab,all_reduce,H100,8,1,64,3,,,"
    refused = []
    lines = ['a,"two\nlines, one row",all_reduce,H100,eight,1,64,3,,,', "a,lab,all_reduce", good]
    (row,) = read_rows(written(tmp_path, *lines), refused)
    assert row.line == 5
    places = [problem.where.partition("rows.csv:")[2] for problem in refused]
    assert places == ["3:33", "4"]


def test_all_wrong_lines_are_told_together(tmp_path):
    bad = "a,lab,all_reduce,H100,8,1,64,x,,,"
    with pytest.raises(ScenarioError) as caught:
        read_rows(written(tmp_path, bad, bad))
    assert [problem.where.split(":")[-2:] for problem in caught.value.problems] == [["2", "30"], ["3", "30"]]


def test_a_file_without_rows_or_without_anything(tmp_path):
    with pytest.raises(ScenarioError, match="no rows"):
        read_rows(written(tmp_path))
    with pytest.raises(ScenarioError, match="missing columns"):
        read_rows(written(tmp_path, head=""))
    with pytest.raises(ScenarioError, match="no such file"):
        read_rows(tmp_path / "none.csv")
    with pytest.raises(ScenarioError, match=r"rows\.csv:2: this is not CSV"):
        read_rows(written(tmp_path, 'a,"b"c,all_reduce,H100,8,1,64,3,,,'))


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_may_end_as_on_any_system(tmp_path, end, mark):
    path = tmp_path / "rows.csv"
    lines = [
        HEAD.strip(),
        'a,lab,all_reduce,H100,8,1,64,3,,,"two, words"',
        "b,lab,all_reduce,H100,8,1,64,3,,,",
        "",
    ]
    path.write_bytes((mark + end.join(lines)).encode())
    first, second = read_rows(path)
    assert (first.name, first.notes, first.line) == ("a", "two, words", 2)
    assert (second.name, second.line) == ("b", 3)
    assert column_titles(path) == HEAD.strip().split(",")


def test_a_line_that_is_no_csv_is_told(tmp_path):
    path = written(tmp_path, head='id,"source\n')
    for read in (column_titles, read_rows):
        with pytest.raises(ScenarioError, match=r"rows\.csv:1: this is not CSV: unexpected end of data"):
            read(path)


def test_whole_numbers_that_a_program_wrote_as_floats(tmp_path):
    (row,) = read_rows(written(tmp_path, "a,lab,all_reduce,H100,8.0,1.,1048576.000,25.5,,,"))
    assert (row.num_devices, row.num_hosts, row.num_bytes) == (8, 1, 2**20)
    for text in ("8.5", "8.0.0", ".0", "0.0", "-8.0", "8.0e0", "9" * 5000):
        with pytest.raises(ScenarioError, match="is not a whole number of at least one"):
            read_rows(written(tmp_path, f"a,lab,all_reduce,H100,{text},1,64,25.5,,,"))


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(alphabet=st.sampled_from('a1.,"\r\n\0 é'), max_size=40), st.booleans())
def test_any_text_is_read_or_refused_in_words(tmp_path, text, headed):
    path = tmp_path / "any.csv"
    path.write_bytes(((HEAD if headed else "") + text).encode())
    for read in (column_titles, read_rows):
        try:
            read(path)
        except ScenarioError as error:
            assert "any.csv" in str(error)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("AllReduce", "all_reduce"),
        ("all-to-all", "alltoall"),
        ("reducescatter", "reduce_scatter"),
        ("bcast", "broadcast"),
        ("hypercube", "hypercube"),
    ],
)
def test_operations_are_known_however_they_are_spelt(words, name):
    assert operation_named(words) == name


@pytest.mark.parametrize(("size", "num_bytes"), [("8M", 8 << 20), ("1 GiB", 1 << 30), ("1,048,576", 1 << 20)])
def test_sizes_are_read_as_nccl_tests_writes_them(tmp_path, size, num_bytes):
    (row,) = read_rows(written(tmp_path, f'a,lab,all_reduce,H100,8,1,"{size}",3,,,'))
    assert row.num_bytes == num_bytes
