"""``pytest --simcluster``, in a pytest of its own: this run has the plugin switched off."""

import os
import subprocess
import sys

import pytest

from tests.support.scenario_texts import CRAMPED, SMALL


@pytest.fixture
def pytest_in(tmp_path):
    """Runs pytest with the plugin in a folder with a small scenario and a test of it."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "small.yaml").write_text(SMALL)
    (tmp_path / "s" / "other.yaml").write_text("just: yaml\n")

    def call(*arguments):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "simcluster.pytest_plugin", *arguments]
        alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
        return subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)

    call.folder = tmp_path
    return call


def test_scenarios_are_tests(pytest_in):
    (pytest_in.folder / "s" / "cramped.yaml").write_text(CRAMPED)
    (pytest_in.folder / "s" / "slow.yaml").write_text(SMALL + "expect: {step_time: {max: 1 us}}\n")
    (pytest_in.folder / "s" / "wrong.yaml").write_text(SMALL + "x: 1\n")
    wanted = SMALL + "expect: {memory: {verdict: fits}}\n"
    (pytest_in.folder / "s" / "small.yaml").write_text(wanted)
    ended = pytest_in("--simcluster", "s")
    assert ended.returncode == 1, ended.stdout
    assert "3 failed, 1 passed" in ended.stdout
    for words in (
        "it does not fit into memory; where that is right, say so",
        "expect: step_time is ",
        "wrong.yaml:9:1: unknown key 'x'",
    ):
        assert words in ended.stdout
    assert "Traceback" not in ended.stdout


@pytest.mark.thorough
def test_they_are_compared_with_a_baseline_by_several_processes(pytest_in):
    here = ("--simcluster", "s", "--simcluster-baseline", "base.json", "-p", "xdist", "-n", "2")
    code = "import simcluster.baseline as b; b.check('s', 'base.json', update=True)"
    subprocess.run([sys.executable, "-c", code], cwd=pytest_in.folder, check=True)
    assert "1 passed" in pytest_in(*here).stdout
    changed = pytest_in(*here, "--simcluster-set", "training.seq_len=64")
    assert "1 failed" in changed.stdout and "operators: layers.*.attention.core.grad +" in changed.stdout
    assert (
        "1 passed"
        in pytest_in(
            *here, "--simcluster-set", "training.seq_len=64", "--simcluster-tolerance", "1000%"
        ).stdout
    )


@pytest.mark.thorough
def test_the_fixture_runs_scenarios_of_the_root_folder_once(pytest_in):
    (pytest_in.folder / "test_it.py").write_text(
        "def test_more_hosts(simcluster):\n"
        "    small = simcluster.run('s/small.yaml')\n"
        "    large = simcluster.run('s/small.yaml', training__global_batch=16)\n"
        "    assert large.step_time_s > small.step_time_s > 0\n"
        "    assert simcluster.run('s/small.yaml') is small\n"
        "    assert simcluster.load('s/small.yaml').name == 'small'\n"
    )
    ended = pytest_in()
    assert ended.returncode == 0 and "1 passed" in ended.stdout, ended.stdout


def test_it_costs_nothing_when_it_is_not_asked_for(pytest_in):
    (pytest_in.folder / "test_it.py").write_text(
        "import sys\n"
        "def test_nothing_is_imported():\n"
        "    heavy = {'numpy', 'pydantic', 'simpy', 'numba', 'ruamel'}\n"
        "    assert not heavy & set(sys.modules)\n"
        "    known = ('_version', 'lazy_exports', 'pytest_plugin')\n"
        "    own = {name for name in sys.modules if name.startswith('simcluster.')}\n"
        "    assert own == {f'simcluster.{name}' for name in known}\n"
    )
    ended = pytest_in()
    assert ended.returncode == 0 and "1 passed" in ended.stdout, ended.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--simcluster-set", "x=1"), "add --simcluster"),
        (("--simcluster", "--simcluster-set", "x"), "expected KEY=VALUE"),
        (("--simcluster", "--simcluster-baseline", "b", "--simcluster-against", "main"), "give either"),
    ],
)
def test_options_that_do_not_go_together(pytest_in, options, message):
    ended = pytest_in(*options)
    assert ended.returncode == 4 and message in ended.stderr
