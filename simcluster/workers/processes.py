"""Processes of this machine as an executor: one that dies costs its call, not the others."""

from __future__ import annotations

import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from simcluster.workers.interrupts import interrupts_blocked


class WorkerProcesses(Executor):
    """Processes that each do one call at a time, and keep what they have imported and cached.

    The future of a call whose process dies has a BrokenExecutor; a new process takes the next call. Leaving
    the ``with`` block ends the processes at once. An interrupt (Ctrl-C) reaches this process alone.
    """

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self._threads = ThreadPoolExecutor(num_workers)
        self._own = threading.local()
        self._processes: list[_WorkerProcess] = []
        self._lock = threading.Lock()
        self._is_over = False

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """The outcome of a call in a process.

        The function is one of a module that can be imported; arguments and results can be pickled.
        """
        return self._threads.submit(self._call, function, arguments, named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls, and ends the processes once theirs are over; with ``cancel_futures`` now."""
        if cancel_futures:
            self._end_processes()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            self._end_processes()

    def __exit__(self, *_: object) -> None:
        self.shutdown(cancel_futures=True)

    def _call(self, function: Callable[..., Any], arguments: Any, named: Any) -> Any:
        process = getattr(self._own, "process", None)
        if process is None or not process.is_alive:
            process = self._own.process = self._started()
        return process.call(function, arguments, named)

    def _started(self) -> _WorkerProcess:
        with self._lock:
            if self._is_over:
                raise BrokenExecutor("the processes have ended")
            self._processes = [process for process in self._processes if process.is_alive]
            process = _WorkerProcess()
            self._processes.append(process)
            return process

    def _end_processes(self) -> None:
        with self._lock:
            self._is_over = True
            for process in self._processes:
                process.terminate()
            for process in self._processes:
                process.join()


class _WorkerProcess:
    """A process that answers calls over a pipe, one after another.

    It is a Python of its own that imports what calls need, and nothing else: unlike one of multiprocessing it
    does not run the script of the user again, which may have no ``if __name__ == "__main__"``.
    """

    def __init__(self) -> None:
        self._connection, other_end = Pipe()
        code = f"import sys; sys.path[:] = {[path or str(Path.cwd()) for path in sys.path]!r}; {_BEGIN}"
        number = other_end.fileno()
        with interrupts_blocked():
            self._process = subprocess.Popen(
                [sys.executable, *_interpreter_flags(), "-c", code, str(number)],
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
            )
        other_end.close()  # so that reading ends when the process does

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def call(self, function: Callable[..., Any], arguments: Any, named: Any) -> Any:
        try:
            self._connection.send((function, arguments, named))
            error, result = self._connection.recv()
        except (EOFError, OSError):
            self.terminate()
            self.join()
            raise BrokenExecutor("the process died") from None
        if error is not None:
            raise error
        return result

    def terminate(self) -> None:
        self._process.terminate()

    def join(self) -> None:
        self._process.wait()


_BEGIN = "from simcluster.workers.processes import serve_calls; serve_calls(int(sys.argv[1]))"


def _interpreter_flags() -> list[str]:
    """What this Python was called with that another must be, too: warnings, ``-O``, ``-X``."""
    return subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined, no-any-return]


def serve_calls(number: int) -> None:
    """The main loop of a worker process: answers calls from a file descriptor until it is closed."""
    connection = Connection(number)
    with suppress(EOFError, OSError):
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))


def _answer(request: bytes) -> bytes:
    """(error, result) of a call; one that cannot be sent is an error, too."""
    try:
        function, arguments, named = ForkingPickler.loads(request)
        return bytes(ForkingPickler.dumps((None, function(*arguments, **named))))
    except Exception as error:
        error.add_note(f"in a process of its own:\n{traceback.format_exc()}")
        try:
            return bytes(ForkingPickler.dumps((error, None)))
        except Exception:
            return bytes(ForkingPickler.dumps((RuntimeError(traceback.format_exc()), None)))
