"""TensorFlow Probability on JAX and distrax: constructions are recognized, supports are those of the documentation,
parameters move where they stay valid, and known defects are seen while their neighbors hold.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow_probability", reason="bijectors are TensorFlow Probability's")
pytest.importorskip("distrax", reason="and distrax'")

import distrax
import jax
import jax.numpy as jnp
from tensorflow_probability.substrates.jax import bijectors as tfb
from tensorflow_probability.substrates.jax import distributions as tfd

from flowref import checking, loading, registry
from flowref.adapters.distrax import constructions
from flowref.backends.jax import trees
from flowref.model import Facts, Status, TargetError

HERE = Path(__file__)


def weibull() -> Any:
    """Functions of a bijector whose formula is even."""
    made = tfb.WeibullCDF(scale=jnp.float64(1.5), concentration=jnp.float64(2.0))

    def forward(x: Any) -> Any:
        return made.forward(x), made.forward_log_det_jacobian(x, event_ndims=1)

    def inverse(y: Any) -> Any:
        return made.inverse(y), made.inverse_log_det_jacobian(y, event_ndims=1)

    return forward, inverse


def spline() -> Any:
    """What jax.jit refuses."""
    sizes = jnp.array([1.0, 2.0, 1.0])
    return tfb.RationalQuadraticSpline(sizes, sizes[::-1], jnp.array([0.5, 2.0]), range_min=-2.0)


def own(name: str) -> str:
    """A factory of this file as a target."""
    return f"{os.path.relpath(HERE)}:{name}"


def described(obj: Any) -> Facts:
    """The facts of an object, as its adapter reads them."""
    package = type(obj).__mro__[0].__module__.partition(".")[0]
    adapter = registry.adapters()["tfp" if package == "tensorflow_probability" else package]
    with jax.enable_x64(True):
        return adapter.describe(trees.cast(obj, "float64"), None)


@pytest.mark.parametrize("library", ["tfp", "distrax"])
def test_a_construction_is_recognized_as_what_it_is(library: str) -> None:
    """Whether named in a spec or handed over as an object, the same map is called the same way."""
    adapter = registry.adapters()[library]
    with jax.enable_x64(True):
        different = [
            name
            for name, component in registry.components(library).items()
            if adapter.recognizes(component.build()) != component.dialect
        ]
    assert different == []


@pytest.mark.parametrize(
    ("make", "domain", "codomain"),
    [
        (lambda: tfb.Tanh(), "real", "(-1,1)"),
        (lambda: tfb.WeibullCDF(1.5, 2.0), "positive", "unit"),
        (lambda: tfb.KumaraswamyCDF(2.0, 3.0), "unit", "unit"),
        (lambda: tfb.FrechetCDF(-0.5, 1.0, 2.0), "(-0.5,inf)", "unit"),
        (lambda: tfb.Power(3.0), "real", "real"),
        (lambda: tfb.Power(2.0), "positive", "positive"),
        (lambda: tfb.Invert(tfb.Exp()), "positive", "real"),
        (lambda: tfb.Chain([tfb.Shift(-1.0), tfb.Scale(2.0), tfb.Sigmoid()]), "real", "(-1,1)"),
        (lambda: tfb.Chain([tfb.Exp(), tfb.Tanh()]), "real", "None"),
        (lambda: distrax.Inverse(distrax.Sigmoid()), "unit", "real"),
        (lambda: distrax.Chain([distrax.Tanh(), distrax.ScalarAffine(0.0, 2.0)]), "real", "(-1,1)"),
        (lambda: tfd.TruncatedNormal(0.0, 1.0, -0.5, 2.5), "(-0.5,2.5)", "None"),
        (lambda: tfd.Sample(tfd.Gamma(2.0, 1.5), 2), "positive", "None"),
        (lambda: tfd.GeneralizedExtremeValue(0.0, 1.0, -0.5), "(-inf,2)", "None"),
        (lambda: distrax.Uniform(-1.0, 3.0), "(-1,3)", "None"),
    ],
)
def test_supports_are_those_of_the_documentation(make: Any, domain: str, codomain: str) -> None:
    """Bijectors between the sets that they document, distributions where their events lie."""
    facts = described(make())
    assert (str(facts.domain), str(facts.codomain)) == (domain, codomain)


@pytest.mark.parametrize(
    ("make", "moves"),
    [
        (lambda: tfb.Scale(jnp.array([0.5, 2.0])), True),
        (lambda: tfd.Normal(0.3, 1.2), True),
        (lambda: tfd.Beta(2.0, 3.0), True),
        (lambda: tfb.ScaleMatvecTriL(jnp.array([[2.0, 0.0], [0.3, 0.5]])), False),
        (lambda: distrax.ScalarAffine(jnp.array([0.5]), jnp.array([2.0])), False),
        (constructions.coupling, True),
        (lambda: distrax.Chain([constructions.coupling()]), True),
        (lambda: distrax.Chain([constructions.coupling(), distrax.DiagLinear(jnp.ones(4))]), False),
    ],
)
def test_parameters_move_where_they_stay_valid(make: Any, moves: bool) -> None:
    """Where the library says so, or no array is computed of another."""
    with jax.enable_x64(True):
        assert any(trees.moving(make())) is moves


@pytest.mark.parametrize(
    ("make", "fixed"),
    [
        (lambda: tfb.Sigmoid(), False),
        (lambda: tfb.Sigmoid(-1.0, 3.0), True),
        (lambda: tfb.FrechetCDF(0.0, 1.0, 2.0), True),
        (lambda: tfd.Uniform(-1.0, 3.0), True),
        (lambda: tfd.HalfNormal(1.2), False),
    ],
)
def test_ends_of_supports_do_not_move(make: Any, fixed: bool) -> None:
    """What is stated of a domain is of the parameters as they are given."""
    assert bool(described(make()).promises.get("fixed")) is fixed


@pytest.mark.parametrize(
    ("spec", "law", "expected"),
    [
        ("tfp:Tanh", "map/inverse", Status.HOLDS),
        ("tfp:SoftmaxCentered", "map/log-det", Status.HOLDS),
        ("tfp:CorrelationCholesky", "map/inverse", Status.HOLDS),
        ("tfp:Chain[vector]", "map/log-det[inverse]", Status.HOLDS),
        ("tfp:TransformedDistribution[RealNVP]", "density/change-of-variables", Status.HOLDS),
        ("tfp:distributions.Normal[batch]", "sampling/follows-density[ratios]", Status.HOLDS),
        ("tfp:Softfloor", "map/inverse", Status.VIOLATED),
        ("tfp:GeneralizedPareto", "gradient/finite[inverse]", Status.VIOLATED),
        ("distrax:MaskedCoupling", "map/log-det", Status.HOLDS),
        ("distrax:Transformed[Chain]", "density/change-of-variables", Status.HOLDS),
        ("distrax:Sigmoid", "map/inverse", Status.VIOLATED),
        (own("weibull"), "map/inverse", Status.HOLDS),
    ],
)
def test_defects_are_seen_and_neighbors_hold(spec: str, law: str, expected: Status) -> None:
    """The findings of both libraries, and what is right beside them."""
    found = checking.pair_verdict(
        spec, registry.find_law(law), checking.Settings("quick"), written=False
    )
    assert found.status is expected


def test_what_is_refused_under_jit_is_not_blamed_on_the_shape() -> None:
    """The sentence quotes the error of the library, and asks for no event shape."""
    with pytest.raises(TargetError, match=r"under jax\.jit") as caught:
        loading.recipe_of(registry.parse_target(own("spline")))
    assert "?event" not in str(caught.value) and "Tracer" in str(caught.value)


def scale() -> Any:
    """A bijector whose shift of the diagonal stays in single precision."""
    return tfb.FillScaleTriL()


def test_single_precision_is_tried_where_double_fits_no_event() -> None:
    """Constants of a library may allow one dtype alone."""
    assert loading.recipe_of(registry.parse_target(own("scale"))).dtype == "float32"
