"""One broken input given to the command line: what is wrong with how it was taken."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from simcluster.cli.app import command_line
from simcluster.errors import SimclusterError
from simcluster.trace import Run
from tests.attack.damage import EXECUTED
from tests.attack.inputs import Case

MOST_SECONDS = 20
"""Of this process's own time, until a command counts as one that hangs."""
MOST_BYTES = 4 * 2**30
"""Of memory that a command may take besides."""


class Hangs(BaseException):
    """The time is up: no part of the program catches this."""


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


def fault_of(case: Case) -> str:
    """What is wrong with how an input was taken, or nothing."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in case.files.items():
            Path(name).write_bytes(content)
        try:
            said = _said(case.arguments)
        except (Exception, Hangs):
            return traceback.format_exc(limit=-4)
        return _wrong(case, said, Path(folder))


def _wrong(case: Case, said: Said, folder: Path) -> str:
    if (folder / EXECUTED).exists():
        return "a text of the input was executed"
    if "Traceback" in said.err or "\x1b" in said.out + said.err:
        return f"a traceback, or an escape sequence, in what is said: {said.out!r} {said.err!r}"
    if said.code not in (0, 1, 2):
        return f"exit code {said.code}: {said.err}"
    made = [path for path in folder.rglob("*") if path.is_file() and path.name not in case.files]
    changed = [name for name, content in case.files.items() if (folder / name).read_bytes() != content]
    if changed or any(path.name.startswith(".") for path in made):
        return f"changed {changed}, or left behind among {made}"
    if said.code == 2:
        if said.out or made:
            return f"refused, but there are {made} and on the screen {said.out!r}"
        if not any(name in said.err for name in case.named):
            return f"names none of {case.named}: {said.err}"
    if "enough memory" in said.err:
        return f"memory ran out: {said.err}"
    if said.code == 0 and not (said.out or made):
        return "exit code 0, and nothing is said"
    return next(filter(None, map(_half, made)), "")


def _half(path: Path) -> str:
    """Whether a result is no whole file."""
    try:
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        if path.suffix == ".simrun":
            Run.load(path)
    except (ValueError, SimclusterError) as error:
        return f"{path.name} is not whole: {error}"
    return "" if path.stat().st_size else f"{path.name} is empty"


def _said(arguments: tuple[str, ...]) -> Said:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    with _bounded(), contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = command_line(arguments)
    out, err = (stream.buffer.getvalue().decode(errors="replace") for stream in streams)
    return Said(code, out, err)


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """Raises Hangs behind so much time, and MemoryError behind so much memory."""

    def late(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"still busy behind {MOST_SECONDS} s")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    if sys.platform == "linux":
        held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (held + MOST_BYTES, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
