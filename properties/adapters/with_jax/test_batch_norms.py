"""Batch norms in JAX are played: in training, in evaluation, and what is handed on between."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from flowref import checking, registry
from flowref.checking import Settings
from flowref.model import Status
from rows import one_of_each

HOME = "flowref_zoo.jax_specimens."
CASES = [
    (spec, laws)
    for twin, defects in registry.specimens().items()
    if twin.startswith(f"{HOME}normalizers")
    for spec, laws in defects.items()
]
TWINS = sorted({spec.partition("?")[0] for spec, _ in CASES})
# The last speaks of those that normalize by running averages.
LAWS = (
    "batch-norm/train-map[reference]", "batch-norm/statistics", "batch-norm/modes-agree",
    "batch-norm/modes-agree[running-average]",
)  # fmt: skip
LIBRARIES = (
    "equinox:BatchNorm[ema]", "flax:BatchNorm", "flax:BatchNorm[image]", "flax:nnx.BatchNorm",
)  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "laws"), one_of_each(CASES, lambda row: row[1]), ids=[spec for spec, _ in CASES]
)
def test_a_bug_is_caught(spec: str, laws: tuple[str, ...]) -> None:
    """One of the laws that a bug names is violated."""
    found = {
        checking.pair_verdict(spec, law, Settings("quick"), written=False).status for law in laws
    }
    assert Status.VIOLATED in found


@pytest.mark.parametrize("spec", [*TWINS, *LIBRARIES])
def test_correct_ones_hold(spec: str) -> None:
    """What trains as it should is accused by none of the laws of training; some law of it is put to the
    test.
    """
    laws = LAWS if "ema" not in spec else (*LAWS, "batch-norm/train-map[row-places]")
    found = {
        checking.pair_verdict(spec, law, Settings("quick"), written=False).status for law in laws
    }
    assert found <= {Status.HOLDS, Status.NOT_APPLICABLE}
    assert Status.HOLDS in found


def test_a_debiased_variance_that_starts_at_one_is_found() -> None:
    """Equinox divides an average that starts at one by the weight of what came since: the variance of
    evaluation does not follow the batches, and the law says so.
    """
    verdict = checking.pair_verdict("equinox:BatchNorm", "batch-norm/statistics", Settings("quick"))
    assert verdict.status is Status.VIOLATED


def test_what_is_debiased_is_no_running_statistic() -> None:
    """An average that is divided before it is used plays no role by itself, also where a new layer
    shows none of that.
    """
    import jax

    from flowref.adapters.common.normalizers.jax import recognized
    from flowref.adapters.equinox.constructions import built

    with jax.enable_x64(True):
        found = recognized(built(mode="batch"))
    assert found is not None
    normalizer = found[1].normalizer
    assert normalizer is not None
    assert not {"running_mean", "running_var"} & set(normalizer.roles)
    assert {"weight", "bias", "eps"} <= set(normalizer.roles)
