"""The scorecard: a report as one HTML file that needs nothing else, for a browser or a printer."""

from flowref.scorecard.page import page

__all__ = ["page"]
