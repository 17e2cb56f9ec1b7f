"""Densities whose call is their map, without an inverse."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from flowref.adapters.user import calls

# Points at which a constant must agree.
FEWEST = 3


def onward_of(obj: Any, log_prob: Any, x: Any, context: Any) -> bool:
    """Whether calling a density without inverse returns (z, log_det): log p(x) - log_det differs by a
    constant from the log-density of its base, or of a standard normal, at z. True as well if log_prob is
    not implemented.
    """
    import torch

    if not callable(getattr(obj, "forward", None)) or len(x) < FEWEST:
        return False
    try:
        density = log_prob(obj, x, context)
    except NotImplementedError:
        return True
    except Exception:  # reported where it is called itself
        return False
    try:
        out = obj(x) if context is None else obj(x, context)
        latent, ladj = out
        rest = density.reshape(len(x)) - ladj.reshape(len(x))
        if latent.numel() != x.numel():
            return False
        bases = [-0.5 * latent.reshape(len(x), -1).square().sum(1)]
        with contextlib.suppress(Exception):  # it has none, or one of other latents
            bases.append(calls.base_log_prob(obj, latent, context, calls.base_name(obj)))
        same = math.sqrt(torch.finfo(density.dtype).eps) * (1 + density.abs())
        return any(bool(((rest - base - (rest - base)[0]).abs() <= same).all()) for base in bases)
    except Exception:  # its call is something else
        return False
