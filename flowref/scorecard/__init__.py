"""The scorecard: a report as one self-contained HTML file, for a browser or a printer."""

from flowref.scorecard.page import page

__all__ = ["page"]
