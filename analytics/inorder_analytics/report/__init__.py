"""An analysis as one self-contained HTML file: no network, no script, light and dark."""

from inorder_analytics.report.page import DEFAULT_TITLE, render
from inorder_analytics.report.sources import RESULT_FILE, result_of

__all__ = ["DEFAULT_TITLE", "RESULT_FILE", "render", "result_of"]
