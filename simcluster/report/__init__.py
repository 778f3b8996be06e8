"""A Run -> something a person or a script reads; one file, one format."""

from simcluster.report.comparison.comparison import Comparison
from simcluster.report.comparison.html_bars import comparison_html, comparison_page
from simcluster.report.comparison.text_bars import comparison_text
from simcluster.report.json_result import result_json
from simcluster.report.notebook.result_sections import html
from simcluster.report.perfetto.trace_file import write_perfetto
from simcluster.report.terminal.layouts import layouts_text
from simcluster.report.terminal.summary_screen import summary, summary_text
from simcluster.report.terminal.verification import verification_text
from simcluster.report.terminal.weight_layouts import weights_text

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
