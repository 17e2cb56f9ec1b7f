"""Reasons for what a user's object was recognized as, a sentence for each deciding attribute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowref.adapters.user import calls
from flowref.adapters.user.conventions.separate_log_dets import usual_log_det
from flowref.adapters.user.conventions.signatures import attribute
from flowref.model import Dialect, Facts

# Method -> what it makes of the object, in the order of reporting.
ABILITIES = {
    "inverse": "the way back",
    "log_prob": "a log-density",
    "sample": "its samples",
    "rsample": "samples with gradients",
    "cdf": "a distribution function",
    "icdf": "its quantiles",
    "bits_per_dim": "bits per dimension",
    "score": "the gradient of its log-density",
    "loss": "a loss with a penalty",
    "dequantize": "dequantization",
    "push": "a map that may draw, with its contribution to the log-likelihood",
    "pull": "its way back",
    "repair": "projects moved parameters to their valid set",
}
# Attributes that state facts.
STATED = (
    "event_shape", "domain", "support", "codomain", "context_shape", "preprocessing", "squeezing",
    "multi_scale", "kept", "coupling", "promises",
)  # fmt: skip


def object_reasons(obj: Any, dialect: Dialect, facts: Facts) -> tuple[str, ...]:
    """The reasons, a sentence each."""
    return tuple(_recognition_reasons(obj, dialect, facts))


def _recognition_reasons(obj: Any, dialect: Dialect, facts: Facts) -> Iterator[str]:
    kind = type(obj).__name__
    yield f"{kind} comes from no library that flowref knows, so its methods decide"
    if dialect.forward is not None:
        how = (
            "log_abs_det_jacobian gives its log-det"
            if usual_log_det(obj)
            else "it should return its log-det with the value"
        )
        yield f"forward is a map; {how}"
    for name, meaning in ABILITIES.items():
        if getattr(dialect, name) is not None:
            yield f"{name} is {meaning}" if name != "repair" else f"{name} {meaning}"
    if dialect.base_log_prob is not None:
        yield f"{calls.base_name(obj)} has a log_prob: it is taken for the density of the latents"
    if dialect.parts is not None:
        yield "it holds one list of bijections: they are its parts"
    if facts.normalizer is not None:
        named = attribute(obj, "kind")
        how = f"its kind is {named!r}" if isinstance(named, str) else "its class is named so"
        roles = ", ".join(f"{path} for {role}" for role, path in facts.normalizer.roles.items())
        yield f"it is a batch normalizer, since {how}; it keeps {roles or 'no statistics'}"
    for name in STATED:
        value = attribute(obj, name)
        if value is not None and not callable(value):
            yield f"its attribute {name} states {_value_text(value)}"


def _value_text(value: Any) -> str:
    shape = getattr(value, "shape", None)
    text = f"an array of shape {tuple(shape)}" if isinstance(shape, tuple) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
