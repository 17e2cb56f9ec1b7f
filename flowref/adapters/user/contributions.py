"""Transforms that say what they contribute to a likelihood: ``bijective``, ``stochastic_forward`` and
``stochastic_inverse``, as in SurVAE flows (Nielsen et al., arXiv:2007.02731).
"""

from __future__ import annotations

from typing import Any

from flowref.model import TargetError

ATTRIBUTES = ("bijective", "stochastic_forward", "stochastic_inverse")


def told(obj: Any) -> dict[str, bool] | None:
    """What an object says by these attributes; None where it does not have all of them."""
    said = {}
    for name in ATTRIBUTES:
        try:
            value = getattr(obj, name)
        except Exception:  # a property of the base class, which says nothing
            return None
        if not isinstance(value, bool):
            return None
        said[name] = value
    return said


def refused(obj: Any) -> None:
    """Raises `TargetError` of a map that says that it is no bijection."""
    said = told(obj)
    if said is None or said["bijective"] or callable(getattr(obj, "log_prob", None)):
        return
    ways = {
        "stochastic_forward": "its forward is random",
        "stochastic_inverse": "its inverse is random",
    }
    named = [words for name, words in ways.items() if said[name]]
    because = f" ({' and '.join(named)})" if named else ""
    raise TargetError(
        f"{type(obj).__name__} says bijective = False{because}: no law speaks of surjections and of "
        "random layers; audit the flow that it is part of, whose log_prob is judged"
    )


def bounds(obj: Any) -> bool:
    """Whether a density has a part that draws on the way to the latents: then its log_prob is a lower
    bound, random or not.
    """
    if not callable(getattr(obj, "log_prob", None)) or not hasattr(obj, "modules"):
        return False
    parts = [told(part) for part in obj.modules()]
    return any(said is not None and said["stochastic_forward"] for said in parts)
