"""A Run -> something a person or a script reads; one file, one format."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily
from simcluster.report import tables

if TYPE_CHECKING:
    from simcluster.report.chakra import ChakraFiles, write_chakra
    from simcluster.report.comparison import Comparison, comparison_html, comparison_page, comparison_text
    from simcluster.report.content import (
        checkpoint_rows,
        emphasised_verdict,
        fullest_entry,
        header_rows,
        overfull_hosts,
        short_header_rows,
        shortage_text,
        stage_titles,
        tight_text,
        transform_rows,
        verdict_text,
    )
    from simcluster.report.data_frames import Frame, Rows, table_rows
    from simcluster.report.html import PageOrigin, report_page
    from simcluster.report.json_result import result_json
    from simcluster.report.notebook import counted_display, message_display, progress_display, result_html
    from simcluster.report.perfetto import write_perfetto
    from simcluster.report.plan_summary import PlanSummary
    from simcluster.report.renderer import Renderer, renderers
    from simcluster.report.run_plots import RunPlots
    from simcluster.report.table_files import write_tables
    from simcluster.report.terminal import (
        launch_text,
        layouts_text,
        summary_renderable,
        summary_text,
        verification_html,
        verification_text,
        weights_text,
    )
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "chakra": "ChakraFiles write_chakra",
            "table_files": "write_tables",
            "comparison": "Comparison comparison_html comparison_page comparison_text",
            "content": "checkpoint_rows emphasised_verdict fullest_entry header_rows overfull_hosts "
            "short_header_rows shortage_text stage_titles tight_text transform_rows verdict_text",
            "html": "PageOrigin report_page",
            "data_frames": "Frame Rows table_rows",
            "json_result": "result_json",
            "notebook": "counted_display message_display progress_display result_html",
            "perfetto": "write_perfetto",
            "plan_summary": "PlanSummary",
            "run_plots": "RunPlots",
            "renderer": "Renderer renderers",
            "terminal": "launch_text layouts_text summary_renderable summary_text verification_html "
            "verification_text weights_text",
        },
    )

__all__ = [
    "ChakraFiles",
    "Comparison",
    "Frame",
    "PageOrigin",
    "PlanSummary",
    "Renderer",
    "Rows",
    "RunPlots",
    "checkpoint_rows",
    "comparison_html",
    "comparison_page",
    "comparison_text",
    "counted_display",
    "emphasised_verdict",
    "fullest_entry",
    "header_rows",
    "launch_text",
    "layouts_text",
    "message_display",
    "overfull_hosts",
    "progress_display",
    "renderers",
    "report_page",
    "result_html",
    "result_json",
    "short_header_rows",
    "shortage_text",
    "stage_titles",
    "summary_renderable",
    "summary_text",
    "table_rows",
    "tables",
    "tight_text",
    "transform_rows",
    "verdict_text",
    "verification_html",
    "verification_text",
    "weights_text",
    "write_chakra",
    "write_perfetto",
    "write_tables",
]
