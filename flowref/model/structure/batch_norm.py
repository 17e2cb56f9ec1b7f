"""Batch normalizers: what must be known of one before its statistics, modes and gradients can be
held to anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flowref.model.structure.forms import Form
from flowref.model.structure.spreads import DEVIATION

# What an attribute of a batch normalizer may be: the affine parameters, the running statistics with
# their counter, and the two constants.
ROLES = ("weight", "bias", "running_mean", "running_var", "num_batches", "eps", "momentum")
# Deviations from torch that may be declared, by the keys of `Normalizer.declared`.
CONVENTIONS = ("momentum", "running_var", "variance", "single")
# Where statistics come from in train mode that are not those of one sample.
BATCH, RUNNING = "batch", "running"
# Normalization of each sample by itself: over the positions of a channel, over groups of channels,
# or over other axes of an event.
SAMPLE = ("instance", "group", "layer")
# Normalization of parts of a batch, each by itself: virtual or ghost batches.
PARTS = "parts"
# Normalization by the statistics of a batch, corrected towards running ones.
RENORM = "renorm"


@dataclass(frozen=True)
class Normalizer:
    r"""What is known of a batch normalizer: $y = w (x - \mu) / \sqrt{v + \epsilon} + b$ per channel
    (axis 1 of a batch, unless ``channel`` says otherwise).

    ``call``: which call of its dialect normalizes, "forward" or "inverse". ``roles``: role (see
    `ROLES`) -> the name of the attribute that plays it, dotted; a role that nothing plays is left
    out, as is the weight of a layer without one. ``forms``: role -> how the attribute tells the
    number that the role is about, where it is not that number itself, as in a logarithm.
    ``statistics``: where train mode takes its statistics from: "batch", or "running" for a running
    average that the batch has entered already (Real NVP, appendix E); one of `SAMPLE` for what
    normalizes each sample by itself; `PARTS` for what normalizes parts of a batch by themselves, `RENORM` for
    batch renormalization.
    ``channel``: the axes of an event whose entries are normalized apart from each other; for what
    normalizes samples, those that are normalized together, of which the channels come first in
    ``groups`` groups.
    ``spread``: what it divides by, of the values that it normalizes together.
    ``declared``: deviations from torch that the documentation declares: "momentum" "keep" (the
    factor of the old value) or "running_var" "biased"; "variance" "unbiased" (a batch is normalized
    with n - 1); "single" "accepted" (a batch of one value per channel is normalized). "offsets"
    "documented": its library says that its variance loses digits to an offset.
    ``largest``: rows of the largest batch that it does not divide, of what divides larger ones into parts; else 0.
    ``tracks``: whether it keeps averages of its statistics.
    ``evidence``: what calls have shown, a sentence; empty where it is known without.
    """

    call: str = "forward"
    roles: Mapping[str, str] = field(default_factory=dict)
    statistics: str = BATCH
    declared: Mapping[str, Any] = field(default_factory=dict)
    forms: Mapping[str, Form] = field(default_factory=dict)
    channel: tuple[int, ...] = (0,)
    groups: int = 1
    tracks: bool = True
    largest: int = 0
    spread: str = DEVIATION
    evidence: str = ""
