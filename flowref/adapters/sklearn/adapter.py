"""scikit-learn: transformers that are bijections, and estimators whose score_samples is a log-density."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.sklearn import calls, constructions, facts
from flowref.adapters.sklearn.facts import describe
from flowref.model import Adapter, Component, Dialect

MAP = Dialect(forward=calls.forward, inverse=calls.inverse)
PIPELINE = replace(MAP, parts=calls.parts, chain=calls.chain)
DENSITY = Dialect(log_prob=calls.log_prob)
KERNELS = replace(DENSITY, sample=calls.sample)
MIXTURE = replace(DENSITY, sample=calls.sample_labelled)
# A map with a density of rows.
PROBABILISTIC = replace(MAP, log_prob=calls.log_prob)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of an estimator; None for users' classes, and for subclasses with a map of their own.
    Raises `TargetError` for one of the library that only looks like a bijection or density.
    """
    names = lineage(obj)
    if names & set(facts.MIXTURES):
        return MIXTURE
    if facts.KERNELS in names:
        return KERNELS if obj.kernel in constructions.DRAWING else DENSITY
    dense = bool(names & set(facts.DENSITIES))
    if not facts.is_map(obj):
        if not dense:
            facts.vet(obj)
        return DENSITY if dense else None
    if facts.is_rewritten(obj):
        return None
    if facts.COMPOSITE in names:
        return PIPELINE
    return PROBABILISTIC if dense else MAP


def best(obj: Any) -> Any:
    """The estimator found by a search, to which it delegates; None for others."""
    return getattr(obj, "best_estimator_", None)


def components() -> Mapping[str, Component]:
    """The constructions of the library."""
    rows = (
        (MAP, constructions.maps()),
        (PIPELINE, constructions.pipelines()),
        (PROBABILISTIC, constructions.probabilistic()),
        (MIXTURE, constructions.mixtures()),
        (KERNELS, constructions.kernels(draws=True)),
        (DENSITY, constructions.kernels(draws=False) | constructions.densities()),
    )
    table = components_of(constructions.onto(), MAP, facts.describe_onto)
    for dialect, made in rows:
        table |= components_of(made, dialect, describe)
    return table


ADAPTER = Adapter(
    name="sklearn",
    package="sklearn",
    title="scikit-learn",
    components=components,
    recognizes=recognizes,
    describe=describe,
    healthy=lambda: ("StandardScaler", "PowerTransformer", "PCA", "KernelDensity[gaussian]"),
    embeds=best,
    extra="training",
)
