"""Values of options, as typed after the question mark of a spec."""

from __future__ import annotations

from flowref.model import Preprocessing, Shape, SpecError


def event_option(options: dict[str, str]) -> Shape | None:
    """The event shape given as ?event=3 or ?event=2,4,4."""
    return shape_of(options["event"], "event") if "event" in options else None


def shape_of(text: str, name: str) -> Shape:
    """A shape as typed."""
    try:
        shape = tuple(int(size) for size in text.strip("()[] ").split(",") if size.strip())
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise SpecError(
            f"{name} was given as {text!r}; expected one or more positive sizes, such as 3 or 2,4,4"
        )
    return shape


def preprocessing_of(text: str, name: str) -> Preprocessing:
    """A preprocessing as typed, alpha,bound or alpha,bound,bins: of a flow that begins with that
    logit.
    """
    try:
        alpha, bound, *rest = (float(number) for number in text.strip("()[] ").split(","))
        bins = int(rest[0]) if rest else None
    except ValueError:
        alpha, bound, bins = -1.0, 0.0, None
    if not (0 <= alpha < 0.5 and bound > 0) or (bins is not None and bins < 1):
        raise SpecError(
            f"{name}: preprocessing was given as {text!r}; expected alpha,bound or "
            "alpha,bound,bins, as in 0.05,256,256"
        )
    return Preprocessing(alpha, bound, bins, alone=False)
