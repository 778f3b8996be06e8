"""The report of a run as one page for a browser: interactive, complete, without a network."""

from simcluster.report.html.closing_sections import PageOrigin
from simcluster.report.html.page import report_page

__all__ = ["PageOrigin", "report_page"]
