"""sbi: conditional density estimators, called with a sample axis before that of conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.sbi import constructions
from flowref.adapters.sbi.facts import bisects, describe
from flowref.model import Adapter, Component, Dialect

# Draws of each condition.
SEVERAL = 2


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    # One sample per condition.
    return obj.log_prob(x.unsqueeze(0), context).squeeze(0)


def sample(obj: Any, n: int, context: Any = None) -> Any:
    import torch

    conditions = len(context)
    each = n // conditions
    # A second draw of each condition, every other one of which is used: an estimator may confuse the two axes.
    draws = obj.sample((max(each, SEVERAL),), context)
    if each > 1:
        return draws.transpose(0, 1).reshape(n, *draws.shape[2:])
    rows = torch.arange(conditions, device=draws.device)
    return draws[rows % SEVERAL, rows]


def sample_once(obj: Any, n: int, context: Any = None) -> Any:
    draws = obj.sample((n // len(context),), context)
    return draws.transpose(0, 1).reshape(n, *draws.shape[2:])


def sample_log_prob(obj: Any, n: int, context: Any = None) -> Any:
    draws, densities = obj.sample_and_log_prob((n // len(context),), context)
    return draws.transpose(0, 1).reshape(n, *draws.shape[2:]), densities.transpose(0, 1).reshape(n)


def loss(obj: Any, x: Any, context: Any = None, weight: float = 1.0) -> Any:
    return obj.loss(x, context).mean(), None


def log_prob_alone(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x)


def sample_alone(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample((n,))


def sample_log_prob_alone(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample_and_log_prob((n,))


CONDITIONAL = Dialect(log_prob=log_prob, sample=sample, sample_log_prob=sample_log_prob, loss=loss)
# Log-densities of samples come from the same bisection: a hundred steps per layer and entry.
BISECTED = replace(CONDITIONAL, sample=sample_once, sample_log_prob=None)
UNCONDITIONAL = Dialect(
    log_prob=log_prob_alone, sample=sample_alone, sample_log_prob=sample_log_prob_alone
)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a density estimator, or None."""
    names = lineage(obj)
    if "ConditionalDensityEstimator" in names:
        return BISECTED if bisects(obj) else CONDITIONAL
    return UNCONDITIONAL if "UnconditionalDensityEstimator" in names else None


def components() -> Mapping[str, Component]:
    """The estimators made by its builders."""
    return components_of(constructions.estimators(), _dialect, describe)


def _dialect(name: str) -> Dialect:
    return BISECTED if name in ("zuko_sospf", "zuko_gf", "zuko_bpf") else CONDITIONAL


ADAPTER = Adapter(
    name="sbi",
    package="sbi",
    title="sbi",
    components=components,
    recognizes=recognizes,
    describe=describe,
    extra="apps",
    healthy=lambda: ("maf", "zuko_nsf", "mdn"),
)
