"""Pictures of violations, as inline SVG without any library: one module a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from markupsafe import Markup

from flowref.model import figure
from flowref.model.figure import Figure
from flowref.scorecard.plots import agreement, course, density, error, heat, histogram

DRAWN: Mapping[str, Callable[[Figure], Markup]] = {
    figure.SCALE: error.plot,
    figure.DENSITY: density.plot,
    figure.PIT: histogram.plot,
    figure.JACOBIAN: heat.plot,
    figure.COURSE: course.plot,
}


def drawn(shown: Figure) -> list[Markup]:
    """A figure drawn, beside what it compares if that is told; nothing where its kind is of a newer
    flowref, or its numbers do not fit.
    """
    plots = [DRAWN[shown.kind]] if shown.kind in DRAWN else []
    if shown.kind == figure.SCALE:
        plots.append(agreement.plot)
    return list(filter(None, (_attempted(plot, shown) for plot in plots)))


def _attempted(plot: Callable[[Figure], Markup], shown: Figure) -> Markup:
    try:
        return plot(shown)
    except (ValueError, IndexError, ZeroDivisionError, OverflowError):
        return Markup("")
