"""``--report github``: annotations that GitHub Actions shows beside the files of a pull request."""

from __future__ import annotations

import re
from typing import ClassVar

from simcluster.baseline.check_format import CheckFormat, statements
from simcluster.baseline.compare import CheckOutcome, CheckStatus
from simcluster.baseline.report import CheckReport

_PLACE = re.compile(r":(\d+):(\d+)$")


class GitHubFormat(CheckFormat):
    """Workflow commands: an error where a scenario fails, a notice where it moved; then the summary."""

    kind: ClassVar[str] = "github"

    def render(self, report: CheckReport) -> str:
        """The report as lines that the runner of a workflow obeys."""
        lines = [
            _annotation(outcome, report)
            for outcome in report.outcomes
            if outcome.status is not CheckStatus.SAME
        ]
        return "\n".join([*lines, _line(report.summary)]) + "\n"


def _annotation(outcome: CheckOutcome, report: CheckReport) -> str:
    level = "error" if report.is_failure(outcome) else "notice"
    places = {"file": outcome.key, "title": f"simcluster check: {outcome.status}"}
    if outcome.error is not None and (place := _PLACE.search(outcome.error.problems[0].where)):
        places |= {"line": place[1], "col": place[2]}
    listed = ",".join(f"{name}={_property(value)}" for name, value in places.items())
    text = "\n".join(statements(outcome, report))
    return f"::{level} {listed}::{_data(text)}"


def _data(text: str) -> str:
    """Text as the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Text as a property of a workflow command."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _line(text: str) -> str:
    """Text that is no command, whatever it holds."""
    return text.replace("\n", " ").replace("::", ": :")
