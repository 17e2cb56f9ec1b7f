"""Figures of violations as inline SVG, one module per kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from markupsafe import Markup

from flowref.model import figure
from flowref.model.figure import Figure
from flowref.scorecard.plots import agreement, course, density, error, heat, histogram

DRAWN: Mapping[str, Callable[[Figure], Markup]] = {
    figure.SCALE: error.error_plot,
    figure.DENSITY: density.density_plot,
    figure.PIT: histogram.histogram_plot,
    figure.JACOBIAN: heat.heat_plot,
    figure.COURSE: course.course_plot,
}


def figure_plots(shown: Figure) -> list[Markup]:
    """Return the plots of a figure; none for an unknown kind or inconsistent numbers."""
    plots = [DRAWN[shown.kind]] if shown.kind in DRAWN else []
    if shown.kind == figure.SCALE:
        plots.append(agreement.agreement_plot)
    return list(filter(None, (_attempted(plot, shown) for plot in plots)))


def _attempted(plot: Callable[[Figure], Markup], shown: Figure) -> Markup:
    try:
        return plot(shown)
    except (ValueError, IndexError, ZeroDivisionError, OverflowError):
        return Markup("")
