"""Batch normalizers: the facts needed to test statistics, modes and gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flowref.model.structure.forms import Form
from flowref.model.structure.spreads import DEVIATION

# Roles of attributes: affine parameters, running statistics with their counter, and the two
# constants.
ROLES = ("weight", "bias", "running_mean", "running_var", "num_batches", "eps", "momentum")
# Deviations from torch that may be declared, the keys of `Normalizer.declared`.
CONVENTIONS = ("momentum", "running_var", "variance", "single")
# Sources of train-mode statistics over the batch.
BATCH, RUNNING = "batch", "running"
# Normalization within each sample: over positions, over groups of channels, or over other axes of
# an event.
SAMPLE = ("instance", "group", "layer")
# Normalization of parts of a batch separately: virtual or ghost batches.
PARTS = "parts"
# Batch renormalization: batch statistics corrected towards running ones.
RENORM = "renorm"


@dataclass(frozen=True)
class Normalizer:
    r"""Facts of a batch normalizer $y = w (x - \mu) / \sqrt{v + \epsilon} + b$ per channel (axis 1 of a
    batch, unless ``channel`` differs).

    ``call``: the call of its dialect that normalizes, "forward" or "inverse";
    ``roles``: role (see `ROLES`) -> dotted name of its attribute; absent roles are left out, as is the
        weight of a layer without one;
    ``forms``: role -> parametrization, if the attribute holds another function of the number, such as its
        logarithm;
    ``statistics``: source in train mode: "batch", or "running" for a running average updated before use
        (Real NVP, appendix E); one of `SAMPLE` for each sample by itself; `PARTS` for parts of a batch,
        `RENORM` for batch renormalization;
    ``channel``: axes of an event with separate statistics; for sample normalization the axes normalized
        together, channels first in ``groups`` groups;
    ``spread``: the measure of spread that it divides by;
    ``declared``: documented deviations from torch: "momentum" "keep" (factor of the old value),
        "running_var" "biased", "variance" "unbiased" (a batch is normalized with n - 1), "single"
        "accepted" (a batch of one value per channel is normalized), "offsets" "documented" (its variance
        loses digits to an offset);
    ``largest``: rows of the largest batch that is not divided into parts, else 0;
    ``tracks``: whether it keeps running statistics;
    ``evidence``: a sentence on what calls showed; empty if known otherwise.
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
