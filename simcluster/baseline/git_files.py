"""The files of a commit in a folder of their own; checkout, index and branches stay as they are."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem, ScenarioError


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """The files of a commit below ``folder``, as they lie below ``top`` in the checkout."""

    top: Path
    folder: Path
    commit: str

    def counterpart(self, path: Path) -> Path:
        """Where the commit's file is that lies at ``path`` in the checkout; ScenarioError outside of it."""
        inside = Path(os.path.realpath(path))
        if not inside.is_relative_to(self.top):
            message = f"this is not in the git repository {self.top}"
            raise ScenarioError(Problem(message, where=str(path)))
        return self.folder / inside.relative_to(self.top)


@contextmanager
def commit_files(ref: str, near: Path) -> Iterator[CommitFiles]:
    """The files of a commit, branch or tag of the repository around ``near``, until the block ends.

    They are written through an index of their own, so that nothing in the repository changes and no hook
    runs. Raises ScenarioError where there is no git, no repository, or no such commit.
    """
    start = near if near.is_dir() else near.parent
    top = Path(_git(start, "rev-parse", "--show-toplevel"))
    where = f"--against {ref}"
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except ScenarioError:
        hint = f"fetch it first: git fetch origin {ref}; a clone of depth 1 has no other commits"
        raise ScenarioError(Problem("the repository has no such commit", where=where, hint=hint)) from None
    with tempfile.TemporaryDirectory(prefix="simcluster-against-") as folder:
        files = Path(folder, "files")
        files.mkdir()
        index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        _git(top, "read-tree", commit, environment=index)
        _git(top, "checkout-index", "--all", "--quiet", f"--prefix={files}{os.sep}", environment=index)
        yield CommitFiles(Path(os.path.realpath(top)), files, commit[:12])


def _git(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """What git prints; ScenarioError with its own words where it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ScenarioError("--against needs git, which is not installed") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["git says nothing"]
        raise ScenarioError(f"git {arguments[0]}: {said[0]}")
    return done.stdout.strip()
