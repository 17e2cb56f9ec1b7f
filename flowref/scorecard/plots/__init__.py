"""Pictures of violations, as inline SVG without any library: one module a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from markupsafe import Markup

from flowref.model import figure
from flowref.model.figure import Figure
from flowref.scorecard.plots import course, density, error, heat, histogram

DRAWN: Mapping[str, Callable[[Figure], Markup]] = {
    figure.SCALE: error.plot,
    figure.DENSITY: density.plot,
    figure.PIT: histogram.plot,
    figure.JACOBIAN: heat.plot,
    figure.COURSE: course.plot,
}


def drawn(shown: Figure) -> Markup:
    """A figure drawn; nothing where its kind is of a newer flowref, or its numbers do not fit."""
    plot = DRAWN.get(shown.kind)
    try:
        return Markup("") if plot is None else plot(shown)
    except (ValueError, IndexError, ZeroDivisionError, OverflowError):
        return Markup("")
