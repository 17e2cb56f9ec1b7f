"""Whether the layers that an object lists make up its map."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from flowref.adapters.user.conventions.call_evidence import Settled
from flowref.model import Dialect

# Tolerance of the comparison, and displacement of parameters outside of the parts.
SAME, MOVED = 1e-6, 0.3


def has_column_log_dets(dialect: Dialect) -> bool:
    """Whether the running log-dets of a dialect are columns ``(n, 1)``."""
    keywords = getattr(dialect.forward, "keywords", {})
    inner = getattr(keywords.get("call"), "keywords", {})
    return bool(keywords.get("column") or inner.get("column"))


def made_of(obj: Any, settled: Settled, x: Any, context: Any) -> bool:
    """Whether the composition of the listed parts equals the map, also with moved parameters that belong to
    no part, since an extra scale often starts as the identity.
    """
    from flowref.adapters.user.adapter import part_of

    try:
        z = x
        listed = settled.dialect.parts(obj)  # type: ignore[misc]  # the caller checked
        for _, part in listed:
            dialect = part_of(part, has_column_log_dets(settled.dialect))
            z, ladj = dialect.forward(part, z, context)  # type: ignore[union-attr, misc]  # a failure means no
            if math.prod(getattr(ladj, "shape", ())) not in (1, len(x), math.prod(x.shape)):
                return False
        with _moved_beside(obj, [part for _, part in listed]) as beside:
            wholes = [settled.latent]
            if beside:
                wholes.append(settled.dialect.forward(obj, x, context)[0])  # type: ignore[misc]
        off = max((z - whole).abs().max() for whole in wholes)
        return bool(off <= SAME * (1 + settled.latent.abs().max()))
    except Exception:  # any exception means no
        return False


@contextlib.contextmanager
def _moved_beside(obj: Any, parts: Sequence[Any]) -> Iterator[bool]:
    """Move the parameters that belong to no part; yields whether there are any, and restores them."""
    inner = {id(parameter) for part in parts for parameter in part.parameters()}
    beside = [
        parameter.detach()
        for parameter in obj.parameters()
        if parameter.requires_grad and parameter.is_floating_point() and id(parameter) not in inner
    ]
    saved, rng = [parameter.clone() for parameter in beside], np.random.default_rng(1)
    try:
        for parameter in beside:
            parameter.add_(parameter.new_tensor(MOVED * rng.standard_normal(parameter.shape)))
        yield bool(beside)
    finally:
        for parameter, before in zip(beside, saved, strict=True):
            parameter.copy_(before)
