"""Machine code is kept, loaded without Numba, made anew where it cannot be, and made once it pays."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from simcluster.engine.implementation import LOOP
from simcluster.machine_code import CompiledCode, code_file, compiler
from simcluster.machine_code.object_code import places_in


class Columns(NamedTuple):
    numbers: np.ndarray
    factors: np.ndarray


class Pair(NamedTuple):
    weights: np.ndarray
    doubled: bool


def product(columns, row):
    return columns.numbers[row] * columns.factors[row]


def weighted_sum(columns: Columns, pair: Pair, most: int) -> int:
    total = 0
    for row in range(min(most, len(columns.numbers))):
        columns.numbers[row] = product(columns, row)
        total += columns.numbers[row] * pair.weights[row] * (2 if pair.doubled else 1)
    return total


def new_code(sources=(Path(__file__),)):
    """A code with one entry, of which nothing is loaded; and what Python calls."""
    numbers = np.zeros(1, dtype=np.int64)
    code = CompiledCode("test", sources, __name__, seconds=1, by_reference=("Columns",))
    code.examples |= {"Columns": Columns(numbers, numbers), "Pair": Pair(numbers, True), "int": 0}
    code.function(product)
    return code, code.entry(weighted_sum)


def result(call):
    """What it gives, by hand 2 * (1 * 5 * 7 + 2 * 6 * 8), and that it writes to the arrays it is handed."""
    columns = Columns(np.array([1, 2, 3]), np.array([5, 6, 9]))
    given = call(columns, Pair(np.array([7, 8, 9]), True), 2)
    assert columns.numbers.tolist() == [5, 12, 3]
    return given


@pytest.fixture
def compilations(tmp_path, monkeypatch):
    """How often something is compiled; the cache is new."""
    counted = []
    whole = compiler.compile_code
    monkeypatch.setattr(compiler, "compile_code", lambda *parts: counted.append(parts) or whole(*parts))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return counted


def test_what_was_compiled_is_kept(compilations, capsys):
    assert result(new_code()[1]) == 262
    assert capsys.readouterr().err == "compiling the test: some 1 s, once for this version\n"
    assert result(new_code()[1]) == 262
    assert (len(compilations), capsys.readouterr().err) == (1, "")


@pytest.mark.parametrize("numbers", [np.zeros(3), np.zeros(6, np.int64)[::2], np.zeros((3, 1), np.int64)])
def test_it_takes_only_arrays_like_its_examples(numbers):
    with pytest.raises(TypeError, match="machine code takes arrays of one dimension of int64, not"):
        new_code()[1](Columns(numbers, numbers), Pair(np.zeros(3, np.int64), True), 2)


def test_other_sources_or_another_processor_are_other_code(compilations, monkeypatch, tmp_path):
    other = tmp_path / "other.py"
    other.write_text("")
    paths = {new_code()[0].file.path, new_code((other,))[0].file.path}
    monkeypatch.setattr("simcluster.machine_code.object_code.processor", lambda: "another")
    assert len({*paths, new_code()[0].file.path}) == 3


def test_a_damaged_file_is_made_anew(compilations):
    code, call = new_code()
    code.load()
    code.file.path.write_bytes(code.file.path.read_bytes()[:-1])
    code, call = new_code()
    assert result(call) == 262
    assert len(compilations) == 2
    assert new_code()[0].file.read()


def test_what_lacks_a_function_is_not_loaded(compilations):
    code, _ = new_code()
    code.load()
    kept = code.file.read()
    assert places_in(kept, ["weighted_sum"])
    assert places_in(kept, ["weighted_sum", "another"]) == {}


def test_where_only_numba_can_load_it(compilations, monkeypatch):
    """Then nothing is kept."""
    monkeypatch.setattr("simcluster.machine_code.object_code.places_in", lambda *_: {})
    code, call = new_code()
    assert result(call) == 262
    assert not code.file.is_kept


def test_a_cache_that_cannot_be_written_only_costs_time(compilations, monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way of a folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    code, call = new_code()
    assert result(call) == 262
    assert code.file.path is None
    assert "some 1 s, in every run: there is no folder to keep it in" in capsys.readouterr().err


def test_a_full_disk_only_costs_time(compilations, monkeypatch):
    def full(*_):
        raise OSError

    monkeypatch.setattr(Path, "write_bytes", full)
    code, call = new_code()
    assert result(call) == 262
    assert not code.file.is_kept


def test_processes_compile_once(compilations):
    """Each holds the lock by a file of its own, as these threads do."""
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(lambda _: result(new_code()[1]), range(3))) == [262] * 3
    assert len(compilations) == 1


def test_it_is_compiled_once_it_pays(compilations):
    """What is done without it adds up over runs, until that is what compiling takes."""
    assert [new_code()[0].pays(0.3) for _ in range(4)] == [False, False, False, True]
    assert new_code()[0].pays(0.06)
    code, _ = new_code()
    code.load()
    assert new_code()[0].pays(0.06)
    assert [small.pays(0.03) for small in [new_code()[0]] * 2] == [False, True], (
        "loading takes longer than one"
    )
    assert code.pays(0.0), "it is loaded"


def test_where_nothing_can_be_counted_one_run_has_to_pay(compilations, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way of a folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert [new_code()[0].pays(seconds) for seconds in (0.9, 0.9, 1.0)] == [False, False, True]


def test_processes_count_together(compilations):
    file = new_code()[0].file
    with ThreadPoolExecutor() as threads:
        list(threads.map(file.count, [0.01] * 50))
    assert file.count(0.5) == 50 * 0.01 + 0.5
    assert file.path.with_suffix(".count").stat().st_size == code_file.COUNTED


def test_the_loop_is_loaded_without_numba():
    LOOP.load()
    code = (
        "import sys; from simcluster.engine.implementation import LOOP; LOOP.load();"
        "assert LOOP.is_loaded and 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
