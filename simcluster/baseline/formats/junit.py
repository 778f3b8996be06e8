"""``--report junit``: a test case per scenario, in the XML that Jenkins, GitLab and others read."""

from __future__ import annotations

from typing import ClassVar
from xml.etree import ElementTree

from simcluster.baseline.check_format import CheckFormat, statements
from simcluster.baseline.report import CheckReport


class JUnitFormat(CheckFormat):
    """JUnit's XML: what does not run is an error, what is worse a failure; what moved is in its output.

    Times of test cases are left out: they would be those of the simulator, or be taken for them.
    """

    kind: ClassVar[str] = "junit"

    def render(self, report: CheckReport) -> str:
        """The report as XML."""
        failed = [outcome for outcome in report.outcomes if report.is_failure(outcome)]
        counts = {
            "tests": str(len(report.outcomes)),
            "errors": str(len(report.wrong)),
            "failures": str(len(failed) - len(report.wrong)),
        }
        suites = ElementTree.Element("testsuites", counts)
        suite = ElementTree.SubElement(suites, "testsuite", {"name": "simcluster check", **counts})
        for outcome in report.outcomes:
            case = ElementTree.SubElement(
                suite, "testcase", {"classname": "simcluster", "name": outcome.key, "file": outcome.key}
            )
            text = "\n".join(statements(outcome, report))
            if report.is_failure(outcome):
                kind = "error" if outcome.error is not None else "failure"
                about = {"message": text.partition("\n")[0], "type": str(outcome.status)}
                ElementTree.SubElement(case, kind, about).text = text
            elif text:
                ElementTree.SubElement(case, "system-out").text = f"{outcome.status}\n{text}"
        ElementTree.indent(suites)
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, "unicode") + "\n"
