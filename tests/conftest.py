"""Tests import their shared modules as ``tests.<name>``."""

from __future__ import annotations

import gc
import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says nothing about right or wrong, least of all on a busy machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

sys.path.insert(0, str(Path(__file__).parent.parent))

# Arrays are small: a second thread of the matrix library would only wait for the first, on a busy core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# While tests are collected, nothing becomes garbage.
gc.disable()


def pytest_addoption(parser):
    parser.addoption(
        "--update-baselines", action="store_true", help="rewrite the goldens of shipped scenarios"
    )
    parser.addoption(
        "--cpu-times",
        metavar="FILE",
        help="append the CPU seconds of each test: what does not depend on other load",
    )


def pytest_collection_finish():
    """Spares the garbage collector what lives as long as the run, modules and thousands of tests, and has it
    look less often at what does not: a simulation makes many objects, and few cycles.
    """
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Writes what a test, its fixtures and its processes took of the CPU, if ``--cpu-times`` asks for it."""
    if not (file := item.config.getoption("--cpu-times")):
        return (yield)
    before = sum(os.times()[:4])
    result = yield
    with Path(file).open("a") as times:
        times.write(f"{sum(os.times()[:4]) - before:.2f} {item.nodeid}\n")
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Of ``combinations`` of parameters all are thorough but a few in which every value of each occurs.

    Of the examples of properties a quarter are quick, a quarter thorough, and the others exhaustive.
    """
    _share_examples(items, config.option.markexpr)
    combined = defaultdict(list)
    for item in items:
        if item.get_closest_marker("combinations"):
            values = {(name, repr(value)) for name, value in item.callspec.params.items()}
            combined[item.path, item.originalname].append((values, item))
    for items_of_test in combined.values():
        todo = set().union(*(values for values, _ in items_of_test))
        while items_of_test:
            values, item = max(items_of_test, key=lambda one: len(one[0] & todo))
            items_of_test.remove((values, item))
            if not values & todo:
                item.add_marker(pytest.mark.thorough)
            todo -= values


def _share_examples(items, markexpr):
    """Examples are drawn anew in every run: a quick, a thorough and an exhaustive one draw all together.

    Tests that are partly thorough already keep theirs, and so do those of few examples.
    """
    if markexpr not in ("thorough", "exhaustive", "not thorough and not exhaustive"):
        return
    properties = defaultdict(list)
    for item in items:
        if hasattr(function := getattr(item, "function", None), "hypothesis"):
            properties[function].append(item)
    for function, items_of_test in properties.items():
        drawn = function._hypothesis_internal_use_settings
        marked = {marker.name for item in items_of_test for marker in item.iter_markers()}
        if marked & {"thorough", "exhaustive"} or drawn.max_examples < 8 or drawn.derandomize:
            continue
        number = -(-drawn.max_examples // 4)
        if markexpr in ("thorough", "exhaustive"):
            for item in items_of_test:
                item.add_marker(markexpr)
        if markexpr == "exhaustive":
            number = drawn.max_examples - 2 * number
        function._hypothesis_internal_use_settings = settings(drawn, max_examples=number)


def pytest_terminal_summary(terminalreporter):
    """What tests recorded under ``step time``, as a table behind the run."""
    lines = [
        value
        for report in terminalreporter.getreports("passed")
        for key, value in report.user_properties
        if key == "step time"
    ]
    if lines:
        terminalreporter.section("step times of the catalog's models")
        for line in sorted(lines):
            terminalreporter.write_line(line)
