"""``--report json``: everything that a check found, for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, ClassVar

from simcluster.baseline.check_format import CheckFormat
from simcluster.baseline.compare import CheckOutcome
from simcluster.baseline.report import CheckReport, remarks


class JsonFormat(CheckFormat):
    """JSON in SI units: per scenario its status, drifts, causes, broken bounds, edits and errors."""

    kind: ClassVar[str] = "json"

    def render(self, report: CheckReport) -> str:
        """The report as JSON."""
        content = {
            "passed": report.passed,
            "reference": report.reference,
            "not_checked": report.unseen,
            "scenarios": [_scenario(outcome, report) for outcome in report.outcomes],
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _scenario(outcome: CheckOutcome, report: CheckReport) -> dict[str, Any]:
    errors = [] if outcome.error is None else list(map(str, outcome.error.problems))
    return {
        "scenario": outcome.key,
        "status": str(outcome.status),
        "fails": report.is_failure(outcome),
        "drifts": [
            {
                "figure": drift.figure,
                "old": drift.old,
                "new": drift.new,
                "verdict": str(drift.verdict),
                "judged": drift.judged,
            }
            for drift in outcome.drifts
        ],
        "causes": [{**asdict(cause), "change": cause.change} for cause in outcome.causes],
        "broken_bounds": list(map(str, outcome.broken)),
        "edits": list(outcome.edits),
        "remarks": list(remarks(outcome, report)),
        "errors": errors,
    }
