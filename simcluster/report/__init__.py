"""A Run -> something a person or a script reads; one file, one format."""

from simcluster.report.comparison import Comparison
from simcluster.report.comparison_html import comparison_html, comparison_page
from simcluster.report.comparison_text import comparison_text
from simcluster.report.html import html
from simcluster.report.layouts import layouts_text
from simcluster.report.perfetto import write_perfetto
from simcluster.report.result_json import result_json
from simcluster.report.summary import summary, summary_text
from simcluster.report.verification import verification_text
from simcluster.report.weights import weights_text

__all__ = [
    "Comparison",
    "comparison_html",
    "comparison_page",
    "comparison_text",
    "html",
    "layouts_text",
    "result_json",
    "summary",
    "summary_text",
    "verification_text",
    "weights_text",
    "write_perfetto",
]
