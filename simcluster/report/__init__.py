"""A Run -> something a person or a script reads; one file, one format."""

from simcluster.report import tables
from simcluster.report.comparison import Comparison, comparison_html, comparison_page, comparison_text
from simcluster.report.content import fullest, headline, overfull, shouted, tight, verdict
from simcluster.report.json_result import result_json
from simcluster.report.notebook import html
from simcluster.report.perfetto import write_perfetto
from simcluster.report.renderer import Renderer, renderers
from simcluster.report.terminal import layouts_text, summary, summary_text, verification_text, weights_text

__all__ = [
    "Comparison",
    "Renderer",
    "comparison_html",
    "comparison_page",
    "comparison_text",
    "fullest",
    "headline",
    "html",
    "layouts_text",
    "overfull",
    "renderers",
    "result_json",
    "shouted",
    "summary",
    "summary_text",
    "tables",
    "tight",
    "verdict",
    "verification_text",
    "weights_text",
    "write_perfetto",
]
