"""scipy.stats: frozen distributions, those of the 1.15 infrastructure, multivariate ones and kernel
densities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.scipy import calls, constructions, facts
from flowref.adapters.scipy.facts import describe
from flowref.model import Adapter, Component, Dialect

UNIVARIATE = Dialect(
    log_prob=calls.log_prob,
    sample=calls.sample,
    cdf=calls.cdf,
    icdf=calls.ppf,
    functions=calls.cdf_columns,
    stated=calls.stated,
)
ANGLE = replace(UNIVARIATE, cdf=calls.cdf_of_turn, functions=None)
MIXTURE = replace(UNIVARIATE, sample=calls.sample_by_generator, icdf=calls.icdf)
NEW = replace(MIXTURE, rescale=calls.rescale)
DISCRETE = Dialect(
    log_prob=calls.cell_log_prob,
    sample=calls.cell_sample,
    cdf=calls.cell_cdf,
    icdf=calls.cell_ppf,
    functions=calls.cell_cdf_columns,
    stated=calls.cell_stated,
)
NEW_DISCRETE = replace(
    DISCRETE,
    sample=calls.cell_sample_by_generator,
    cdf=calls.cell_cdf_of_steps,
    icdf=calls.cell_icdf,
)
VECTOR = Dialect(log_prob=calls.log_prob_of_rows, sample=calls.sample_rows, stated=calls.stated)
KERNELS = Dialect(log_prob=calls.log_prob_of_columns, sample=calls.sample_columns)
# By class of a distribution.
DIALECTS = {
    **dict.fromkeys(facts.CONTINUOUS, UNIVARIATE),
    **dict.fromkeys(facts.DISCRETE, DISCRETE),
    "ContinuousDistribution": NEW,
    "Mixture": MIXTURE,
    facts.NEW_DISCRETE: NEW_DISCRETE,
    **dict.fromkeys(facts.VECTORS, VECTOR),
    facts.DENSITY_OF_KERNELS: KERNELS,
}


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a distribution with given parameters, or None."""
    names = lineage(obj)
    dialect = next((DIALECTS[name] for name in DIALECTS if name in names), None)
    if dialect is None or facts.free(obj):
        return None
    if not facts.is_angle(obj):
        return dialect
    return ANGLE if calls.one_turn(obj) else replace(ANGLE, cdf=None, icdf=None)


def components() -> Mapping[str, Component]:
    """The distributions of the library."""
    rows = (
        (UNIVARIATE, constructions.univariate()),
        (NEW, constructions.new()),
        (MIXTURE, constructions.mixtures()),
        (ANGLE, constructions.angles()),
        (DISCRETE, constructions.discrete()),
        (NEW_DISCRETE, constructions.new_discrete()),
        (VECTOR, constructions.vectors()),
        (KERNELS, constructions.kernels()),
    )
    return {
        name: component
        for dialect, table in rows
        for name, component in components_of(table, dialect, describe).items()
    }


ADAPTER = Adapter(
    name="scipy",
    package="scipy",
    title="scipy.stats",
    components=components,
    recognizes=recognizes,
    describe=describe,
    healthy=lambda: ("norm", "gamma", "truncnorm", "binom", "multivariate_normal"),
)
