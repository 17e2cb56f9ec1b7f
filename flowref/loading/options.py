"""Parsers for values of options, as typed after the question mark of a spec."""

from __future__ import annotations

from collections.abc import Container

from flowref.model import KINDS, Preprocessing, Shape, SpecError, Support, Target

# The kinds of couplings that ?kind= accepts.
COUPLINGS = {f"{kind}-coupling": kind for kind in KINDS}


def kinds() -> tuple[str, ...]:
    """The values of ?kind=."""
    from flowref.adapters.common.normalizers import spellings

    return (*spellings.KINDS, *COUPLINGS)


def own_kind(target: Target, takes: Container[str]) -> bool:
    """Whether ?kind= is passed to a user's factory: it ``takes`` a parameter of that name, and the value is
    no kind of flowref.
    """
    text = target.option("kind")
    if text is None or "kind" not in takes:
        return False
    return not all(one.strip() in kinds() for one in text.split(","))


def event_option(options: dict[str, str]) -> Shape | None:
    """The event shape of ?event=3 or ?event=2,4,4; None if not given."""
    return parse_shape(options["event"], "event") if "event" in options else None


def parse_shape(text: str, name: str) -> Shape:
    """A typed shape; () for a scalar. Raises `SpecError`."""
    if text.strip() in ("()", "[]") and name in ("event", "latent"):
        return ()
    try:
        shape = tuple(int(size) for size in text.strip("()[] ").split(",") if size.strip())
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise SpecError(
            f"{name} was given as {text!r}; expected one or more positive sizes, such as 3 or 2,4,4"
            + ", or labels" * (name == "context")
            + ", or () for a single number" * (name in ("event", "latent"))
        )
    return shape


def parse_support(text: str, name: str) -> Support:
    """A typed support. Raises `SpecError` if it cannot be read."""
    return Support.parse(text)


def preprocessing_of(text: str, name: str) -> Preprocessing:
    """A typed preprocessing, alpha,bound or alpha,bound,bins, of a flow that starts with that logit."""
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
