"""What is called, or derived from, a batch norm and is meant to be something else: its name says what, and
calls show it. What only bears such a name, and does what batch norm does, is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.adapters.common.normalizer_calls import WIDE, Played, lines, near
from flowref.adapters.common.normalizer_kinds import forgets
from flowref.model import Array, Dialect, Shape

# How far from a line, relative to it, what an activation gives is.
BENT = 1e-3
# Batches after which a schedule has begun.
MANY = 64
RENORM = r"(?i)renorm"
# Averages that a batch has entered; in layers of flows these are what Real NVP means.
AVERAGES = r"(?i)moving|running|lag(?![a-z])"
ACTIVATION = r"Act(?![a-z])|Activ|ABN|ReLU|Relu|RELU|ELU|Elu|Swish|SiLU|Silu|GELU|Gelu|Tanh|Sigmoid"
WHITENING = r"(?i)decorrelat|whiten|zca|iter_?norm|group_?whit"

RENORMALIZES = (
    "train mode corrects the statistics of a batch by averages of earlier ones: batch renormalization, and no "
    "batch norm"
)
FOLLOWS = (
    "train mode normalizes by averages of earlier batches as well, as its name says: no batch norm"
)
ACTIVATES = (
    "what it normalizes goes through an activation, as its name says: no batch norm by itself"
)
WHITENS = "train mode whitens channels together, as its name says: no batch norm"


def kin(obj: Any, dialect: Dialect, shape: Shape, dtype: Any) -> str:
    """What a relative of batch norm is; empty where it is a batch norm, or nothing says what it is."""
    if dialect.forward is None:
        return ""
    names = " ".join(base.__name__ for base in type(obj).__mro__)
    played = Played(obj, dialect.forward, dtype, shape)
    for pattern, shows, said in KIN:
        if not re.search(pattern, names):
            continue
        if pattern == AVERAGES and (dialect.inverse is not None or _tells_log_det(played)):
            continue
        try:
            if shows(played):
                return said
        except Exception:  # what it raises is the laws' affair
            continue
    return ""


def _tells_log_det(played: Played) -> bool:
    """Whether it gives a log-det, as a layer of a flow does."""
    import torch

    x = torch.as_tensor(played.draw(0, 3, 1.0), dtype=played.dtype)
    with torch.no_grad():
        return played.call(played.copied(played.obj), x, None)[1] is not None


def _remembers(played: Played) -> bool:
    """Whether train mode maps a batch to something else after others, or after many of them."""
    return not (forgets(played) and forgets(played, MANY))


def _bends(played: Played) -> bool:
    """Whether a channel of the output is no line in the input, though it keeps the order of its values:
    whether entries alike are mapped alike is seen entry by entry.
    """
    x = played.draw(17, 24)
    y = played.train(x)
    return _off(x, y) > BENT and bool(np.isfinite(y).all())


def _off(x: Array, y: Array) -> float:
    """How far the entries of an output are from lines in the input, where these are told for channels on
    the first axis of an event or on the last, whichever comes nearer.
    """
    return min(lines(x, y, (axis,)).off for axis in {0, x.ndim - 2})


def _mixes(played: Played) -> bool:
    """Whether other content of one channel changes the outputs of the others."""
    x = played.draw(18, 24)
    channels = x.shape[1]
    y = played.train(x)
    changed = x.copy()
    changed[:, 0] = changed[:, -1] + 0.3 * WIDE * np.sin(np.arange(changed[:, 0].size)).reshape(
        changed[:, 0].shape
    )
    return channels > 1 and not near(played.train(changed)[:, 1:], y[:, 1:])


KIN: tuple[tuple[str, Callable[[Played], bool], str], ...] = (
    (RENORM, _remembers, RENORMALIZES),
    (AVERAGES, _remembers, FOLLOWS),
    (ACTIVATION, _bends, ACTIVATES),
    (WHITENING, _mixes, WHITENS),
)
