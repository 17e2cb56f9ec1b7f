"""Batch normalizers: what must be known of one before its statistics, modes and gradients can be
held to anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What an attribute of a batch normalizer may be: the affine parameters, the running statistics with
# their counter, and the two constants.
ROLES = ("weight", "bias", "running_mean", "running_var", "num_batches", "eps", "momentum")
# Deviations from torch that may be declared, by the keys of `Normalizer.declared`.
CONVENTIONS = ("momentum", "running_var", "variance", "single")


@dataclass(frozen=True)
class Normalizer:
    r"""What is known of a batch normalizer: $y = w (x - \mu) / \sqrt{v + \epsilon} + b$ per channel
    (axis 1 of a batch).

    ``call``: which call of its dialect normalizes, "forward" or "inverse". ``roles``: role (see
    `ROLES`) -> the name of the attribute that plays it, dotted; a role that nothing plays is left
    out, as is the weight of a layer without one.
    ``statistics``: where train mode takes its statistics from: "batch", or "running" for a running
    average that the batch has entered already (Real NVP, appendix E).
    ``declared``: deviations from torch that the documentation declares: "momentum" "keep" (the
    factor of the old value) or "running_var" "biased"; "variance" "unbiased" (a batch is normalized
    with n - 1); "single" "accepted" (a batch of one value per channel is normalized).
    """

    call: str = "forward"
    roles: Mapping[str, str] = field(default_factory=dict)
    statistics: str = "batch"
    declared: Mapping[str, Any] = field(default_factory=dict)
