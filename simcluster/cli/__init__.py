"""The command line: ``simcluster run scenarios/quickstart.yaml``.

Commands are thin and import their rooms when they are called, so that ``simcluster --help`` is quick.
"""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED, TERMINATED = 130, 143

_interrupts: list[int] = []
"""The interrupts that came."""


def main() -> None:
    """Runs the command line of this process and ends it with its exit code; Ctrl-C at any moment is 130."""
    # Everything is imported inside, where an interrupt is caught from the first moment on.
    try:
        import signal
        import sys

        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(TERMINATED))
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
            sys.unraisablehook = _unraisable
        from simcluster.cli.app import command_line

        code = command_line(sys.argv[1:])
        # What is left is the interpreter's own end, where an interrupt could only cause noise.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except BaseException as error:
        # Compiled code that calls back into Python may wrap the interrupt into an error of its own.
        if not _interrupts and not isinstance(error, KeyboardInterrupt):
            raise
        import os

        os.write(2, b"interrupted\n")
        os._exit(INTERRUPTED)
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """KeyboardInterrupt, but not in the middle of an import: compiled modules may crash on it."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _again()
            return
        frame = frame.f_back
    _interrupts.append(number)
    raise KeyboardInterrupt


def _unraisable(ignored: UnraisableHookArgs) -> None:
    """What the interpreter cannot raise where it happened; an interrupt there comes again a little later."""
    import sys

    if issubclass(ignored.exc_type, KeyboardInterrupt):
        _again()
    else:
        sys.__unraisablehook__(ignored)


def _again() -> None:
    """Interrupts in a hundredth of a second."""
    import _thread
    import threading

    threading.Timer(0.01, _thread.interrupt_main).start()
