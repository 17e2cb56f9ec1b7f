"""Pictures of violations, as inline SVG without any library: one module a kind."""

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
    """A figure drawn, beside what it compares if that is told; nothing where its kind is of a newer
    flowref, or its numbers do not fit.
    """
    plots = [DRAWN[shown.kind]] if shown.kind in DRAWN else []
    if shown.kind == figure.SCALE:
        plots.append(agreement.agreement_plot)
    return list(filter(None, (_attempted(plot, shown) for plot in plots)))


def _attempted(plot: Callable[[Figure], Markup], shown: Figure) -> Markup:
    try:
        return plot(shown)
    except (ValueError, IndexError, ZeroDivisionError, OverflowError):
        return Markup("")
