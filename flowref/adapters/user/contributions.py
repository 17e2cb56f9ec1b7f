"""Transforms that say what they contribute to a likelihood: ``bijective``, ``stochastic_forward`` and
``stochastic_inverse``, as in SurVAE flows (Nielsen et al., arXiv:2007.02731).
"""

from __future__ import annotations

from typing import Any

from flowref.model import Dialect, Kernel

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


def kernel(obj: Any) -> Dialect | None:
    """How a layer is called that says that it is no bijection; None for all else."""
    if facts(obj) is None or not (callable(obj) or callable(getattr(obj, "forward", None))):
        return None
    back = pull if callable(getattr(obj, "inverse", None)) else None
    repairs = repair if callable(getattr(obj, "repair", None)) else None
    return Dialect(push=push, pull=back, repair=repairs)


def facts(obj: Any) -> Kernel | None:
    """What such a layer says of its draws."""
    said = told(obj)
    if said is None or said["bijective"] or callable(getattr(obj, "log_prob", None)):
        return None
    return Kernel((said["stochastic_forward"], said["stochastic_inverse"]))


def push(obj: Any, x: Any, context: Any) -> Any:
    """Data to latents with the contribution, of an object whose forward returns both."""
    run = obj if callable(obj) else obj.forward
    out = run(x) if context is None else run(x, context)
    return out[0], out[1]


def pull(obj: Any, z: Any, context: Any) -> Any:
    """Latents to data, with the contribution where it is returned."""
    out = obj.inverse(z) if context is None else obj.inverse(z, context)
    return (out[0], out[1]) if isinstance(out, (tuple, list)) else (out, None)


def repair(obj: Any) -> None:
    """Let the object put moved parameters back into their valid set."""
    obj.repair()


def bounds(obj: Any) -> bool:
    """Whether a density has a part that draws on the way to the latents: then its log_prob is a lower
    bound, random or not.
    """
    if not callable(getattr(obj, "log_prob", None)) or not hasattr(obj, "modules"):
        return False
    parts = [told(part) for part in obj.modules()]
    return any(said is not None and said["stochastic_forward"] for said in parts)
