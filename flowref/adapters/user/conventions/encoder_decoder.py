"""Objects with encode and decode: a flow returns a log-det per point, an autoencoder does not. Also
densities whose map is such a pair of methods.
"""

from __future__ import annotations

import math
from typing import Any

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import PAIRS
from flowref.model import Ambiguous, TargetError

ENCODE, DECODE = "encode", "decode"
OPTION = "?forward=encode&inverse=decode"


def encodes(obj: Any) -> bool:
    """Whether a class defines encode and decode with one argument each, so that it may be a flow."""
    return all(
        signatures.defines_method(obj, name) and len(signatures.required(obj, name)) == 1
        for name in (ENCODE, DECODE)
    )


def map_of_density(obj: Any, x: Any) -> tuple[str, str] | None:
    """The methods of a density that are certainly a map and its inverse, by their names and because the
    first returns as many entries as it gets with one log-det per point or in all; None if there are none.
    """
    for named in ((ENCODE, DECODE), ("f", "g"), *PAIRS):
        own = all(signatures.defines_method(obj, one) for one in named)
        single = own and all(len(signatures.required(obj, one)) == 1 for one in named)
        if single and _returns_log_det(obj, named[0], x):
            return named
    return None


def _returns_log_det(obj: Any, method: str, x: Any) -> bool:
    try:
        out = getattr(obj, method)(x)
    except Exception:  # it may need other points
        return False
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        return False
    latent, ladj = (tuple(getattr(one, "shape", (0,))) for one in out)
    numbers = ((len(x),), (len(x), 1), *(() if method == ENCODE else ((), (1,))))
    return len(x.shape) > 1 and math.prod(latent) == x.numel() and ladj in numbers


def refuse_autoencoder(obj: Any, x: Any, latent: Any, ladj: Any) -> None:
    """Raise `TargetError` unless encode is evidently a map: its value has the size of the input, with a
    number per point.
    """
    kind = type(obj).__name__
    asked = f"{kind} has encode and decode, as autoencoders have; "
    if math.prod(latent.shape) != math.prod(x.shape):
        raise TargetError(
            f"{asked}encode maps a batch of shape {tuple(x.shape)} to {tuple(latent.shape)}, and a "
            f"bijection keeps the number of entries. If it is a flow, say {OPTION} and its ?event="
        )
    # A mean and log-variance both have the event's shape.
    if len(x.shape) > 1 and tuple(getattr(ladj, "shape", ())) == (len(x),):
        return
    beside = "its value alone" if ladj is None else "no number for each point"
    raise Ambiguous(
        f"{asked}encode returns {beside}. If they are a map and its inverse, say {OPTION}"
    )
