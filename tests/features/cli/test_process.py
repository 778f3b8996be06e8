"""What only a whole process shows: interrupts, pipes, exit codes."""

from __future__ import annotations

import csv
import itertools
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from simcluster.accuracy.runs import COLUMNS
from tests.support.covering import quick
from tests.support.published_runs import ROW
from tests.support.scenario_texts import SMALL

try:
    import pty
except ImportError:  # no such terminals on this system
    pty = None

COMMAND = [sys.executable, "-m", "simcluster"]
FULL = Path("/dev/full")
ENDLESS = ("--set", "run.steps=30000")
LARGE = ("--set", "run.steps=12000")


# Where tests run in the background interrupts are ignored, and their children would ignore them too.
AS_ON_A_TERMINAL = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from simcluster.cli import main
print("ready", file=sys.stderr, flush=True)
main()
"""


def start(*arguments, start_new_session=False, stderr=subprocess.PIPE):
    """A process of the command that has begun, with interrupts as a terminal would give them."""
    process = subprocess.Popen(
        [sys.executable, "-c", AS_ON_A_TERMINAL, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=start_new_session,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    if process.stderr is not None:
        assert process.stderr.readline() == "ready\n"
    return process


@pytest.mark.parametrize("moment", quick([0.05, 0.1, 0.3, 0.6, 1.0], 0.3, later=[0.1, 0.6]))
def test_an_interrupt_is_130_and_leaves_nothing(small, here, moment):
    process = start("run", small, "--out", "out", "--json", "result.json", *ENDLESS)
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert (out, err) == ("", "interrupted\n")
    assert [path.name for path in here.iterdir()] == [small]


@pytest.mark.thorough
@pytest.mark.skipif(pty is None, reason="needs a terminal to show progress on")
@pytest.mark.parametrize(
    ("engine", "phase"),
    [("reference", "simulated"), ("compiled", "simulated"), ("compiled", "recording")],
)
def test_an_interrupt_of_a_large_run_is_130_and_leaves_nothing(small, here, engine, phase):
    """In the loop, and in the analysis behind it, of which the line of progress tells."""
    shown, terminal = pty.openpty()
    settings = (*LARGE, "--set", f"run.engine={engine}")
    process = start("run", small, "--out", "out", "--json", "result.json", *settings, stderr=terminal)
    os.close(terminal)
    said = ""
    while phase not in said:
        said += os.read(shown, 4096).decode()
    process.send_signal(signal.SIGINT)
    with suppress(OSError):  # as Linux says that nobody writes there any more
        while more := os.read(shown, 4096).decode():
            said += more
    os.close(shown)
    assert (process.stdout.read(), process.wait()) == ("", 130)
    process.stdout.close()
    assert said.endswith("interrupted\r\n")
    assert "Traceback" not in said
    assert [path.name for path in here.iterdir()] == [small]


def children(process):
    """The processes that a process has begun, in any of its threads."""
    begun = []
    for path in Path(f"/proc/{process.pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            begun += map(int, path.read_text().split())
    return begun


@pytest.mark.parametrize(
    ("command", "moment"),
    quick(
        [*itertools.product(["accuracy", "lint"], [0.05, 0.5])],
        ("lint", 0.05),
        later=[("accuracy", 0.05), ("lint", 0.5)],
    ),
)
def test_an_interrupt_among_processes_that_begin_is_one_line(small, here, command, moment):
    """As from a keyboard: it goes to all processes of the terminal."""
    rows = [dict.fromkeys(COLUMNS, "") | ROW | {"id": str(number)} for number in range(2000)]
    with (here / "runs.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)
    files = ["runs.csv"] if command == "accuracy" else [small] * 400
    process = start(command, *files, "--jobs", 2, start_new_session=True)
    while len(children(process)) < 2:
        time.sleep(0.001)
    time.sleep(moment)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, err) == (130, "interrupted\n")
    assert command == "lint" or not out


SWALLOWED = """
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import simcluster.cli.app
from simcluster.cli import main

class Ending:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

def command_line(arguments):
    Ending()
    for _ in range(3000):
        time.sleep(0.01)

simcluster.cli.app.command_line = command_line
main()
"""


def test_an_interrupt_that_nothing_can_raise_comes_again():
    began = time.monotonic()
    found = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "interrupted\n")
    assert time.monotonic() - began < 30


def test_a_terminated_process_tidies_up(small, here):
    process = start("run", small, "--out", "out", *ENDLESS)
    time.sleep(0.5)
    process.terminate()
    assert process.communicate() == ("", "")
    assert process.returncode == 143
    assert [path.name for path in here.iterdir()] == [small]


@pytest.mark.parametrize("after", quick([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8], 0.2, later=[0.3, 0.5, 0.6]))
def test_a_process_may_be_terminated_at_any_moment(small, here, after):
    """While it imports too, where compiled code may turn what a signal raises into an error of its own."""
    process = start("run", small, "--out", "out", *ENDLESS)
    time.sleep(after)
    process.terminate()
    out, err = process.communicate()
    # Before the command line is there, the system's own end is all there is.
    assert (out, err, process.returncode) in (("", "", 143), ("", "", -15))


def test_a_reader_who_stops_reading_is_no_error(small, here):
    process = start("run", small, "--json", "-", "--trace", "trace.json")
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0
    assert err == "written: trace.json\n"
    assert (here / "trace.json").exists()


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [pytest.param(["schema"], marks=pytest.mark.thorough), ["--help"]])
def test_a_full_disk_is_said(arguments):
    with FULL.open("w") as full:
        found = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert found.returncode == 2
    assert found.stderr.startswith("Error: ")
    assert "no space left on device" in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_a_terminal_without_our_characters(small):
    found = subprocess.run(
        [*COMMAND, "run", small],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert found.returncode == 0
    assert b"Step time" in found.stdout


def test_the_installed_command_ends_with_the_code(here):
    (here / "wrong.yaml").write_text(SMALL + "x: 1\n")
    process = start("lint", "wrong.yaml")
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err.startswith("wrong.yaml:9:1: unknown key 'x'")
