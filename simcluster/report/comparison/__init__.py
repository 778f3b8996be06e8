"""Runs side by side, as text and as HTML."""

from simcluster.report.comparison.comparison import Comparison
from simcluster.report.comparison.html_bars import comparison_html, comparison_page
from simcluster.report.comparison.text_bars import comparison_text

__all__ = ["Comparison", "comparison_html", "comparison_page", "comparison_text"]
