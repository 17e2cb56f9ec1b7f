"""Error against input scale, along a ray through the counterexample, with the part that rounding
explains.
"""

from __future__ import annotations

import math

from markupsafe import Markup

from flowref.model.figure import Figure
from flowref.scorecard.plots import svg
from flowref.scorecard.plots.axes import Axis, decades, tick_label


def error_plot(shown: Figure) -> Markup:
    """Draw errors as points over the line of the allowance, on logarithmic axes; zero errors lie at
    the foot.
    """
    rows = list(zip(shown.of("scale"), shown.of("error"), shown.of("allowed"), strict=True))
    drawable = [(s, e, a) for s, e, a in rows if math.isfinite(s) and s > 0 and math.isfinite(e)]
    if len(drawable) < 2:
        return Markup("")
    x = decades([s for s, _, _ in drawable], svg.LEFT, svg.RIGHT)
    every = [e for _, e, _ in drawable] + [a for _, _, a in drawable if math.isfinite(a) and a > 0]
    y = decades(every, svg.BOTTOM, svg.TOP + 14)
    y = _clipped_axis(y)
    limit = [(x.at(s), y.at(a)) for s, _, a in drawable if math.isfinite(a) and a > 0]
    parts = [
        svg.axes_frame(x, y, "largest entry of the input", "error"),
        svg.area(limit, y.start, "allowed"),
        svg.polyline(limit, "limit"),
    ]
    own = [scale for scale in shown.of("own") if scale > 0]
    over = 0
    for scale, error, allowed in drawable:
        bad = not error <= allowed
        over += bad
        tip = (
            f"input {tick_label(scale)}: off by {tick_label(error)}, allowed {tick_label(allowed)}"
        )
        parts.append(svg.dot(x.at(scale), y.at(error), 3.5, "bad" if bad else "good", tip))
        if scale in own:
            parts.append(svg.dot(x.at(scale), y.at(error), 7.0, "ring", "the counterexample"))
    words = [("dot", "bad", "violates"), ("dot", "good", "holds"), ("line", "limit", "allowed")]
    words += [("dot", "ring", "counterexample")] if own else []
    parts.append(svg.legend(words, svg.LEFT + 4, svg.TOP + 2))
    lost = len(rows) - len(drawable)
    caption = (
        f"{over} of {len(drawable)} points along a ray through the counterexample violate the law"
        + (f"; {lost} more returned no finite number" if lost else "")
    )
    return svg.svg_drawing("Error against input scale", caption, *parts)


def _clipped_axis(axis: Axis) -> Axis:
    """At most 40 decades; smaller values lie at the foot."""
    if math.log10(axis.high / axis.low) <= 40:
        return axis
    return Axis(axis.high * 1e-40, axis.high, axis.start, axis.end, log=True, zero=axis.zero)
