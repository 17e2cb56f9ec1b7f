"""What an object in JAX declares in `__flow__` is read as options of its spec, and never believed against calls."""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="misc"

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("equinox")

import equinox as eqx
import jax
import jax.numpy as jnp

from flowref import loading
from flowref.loading.recipe import recipe_of
from flowref.model import FlowrefError

ENTRIES = {"version": 1, "forward": "ahead", "inverse": "behind", "event": (3,)}


class Affine(eqx.Module):
    """A map of one event whose methods have names of their own."""

    log_scale: jax.Array
    __flow__ = ENTRIES

    def __init__(self) -> None:
        self.log_scale = jnp.array([0.1, -0.2, 0.3])

    def ahead(self, x: Any) -> Any:
        """The map."""
        return x * jnp.exp(self.log_scale), self.log_scale.sum()

    def behind(self, z: Any) -> Any:
        """Its way back."""
        return z * jnp.exp(-self.log_scale), -self.log_scale.sum()


def declaring(**entries: Any) -> Any:
    """An object that declares this besides."""
    return type("Affine", (Affine,), {"__flow__": {**ENTRIES, **entries}})()


def test_calls_are_found_by_their_declared_names() -> None:
    """Names that no convention knows are read as declared."""
    recipe = recipe_of(loading.snapshot(Affine()))
    assert recipe.recognized.kind == "bijection with inverse" and recipe.facts.event_shape == (3,)


def test_a_function_declares_its_events() -> None:
    """A map that is a function has the attribute itself."""

    def bent(x: Any) -> Any:
        return jnp.sinh(x), jnp.log(jnp.cosh(x)).sum(-1)

    bent.__flow__ = {"version": 1, "event": 5}  # type: ignore[attr-defined]  # a function has any
    assert recipe_of(loading.snapshot((bent, jnp.arcsinh))).facts.event_shape == (5,)


def test_the_direction_is_heard() -> None:
    """As in torch."""
    assert (
        recipe_of(loading.snapshot(declaring(direction="latent->data"))).dialect.normalizing
        == "inverse"
    )


CONTRADICTED = [
    ({"event": (4,)}, r"says event 4, and calls raise TypeError: .*write 'event': \(3,\)"),
    ({"forward": "ahed"}, r"forward was given as 'ahed', .*did you mean ahead"),
    ({"latent": 2}, r"says latent 2, and forward returns values of shape \(3,\)"),
    ({"log_prob": "behind"}, r"says log_prob behind, and"),
    ({"batch_axis": "last"}, r"says batch_axis last, and .*in JAX"),
]  # fmt: skip


@pytest.mark.parametrize(("entries", "said"), CONTRADICTED, ids=lambda one: str(one)[:30])
def test_a_declaration_that_calls_contradict_is_refused(entries: dict[str, Any], said: str) -> None:
    """It is one sentence: what was declared, what was seen, and what to write."""
    with pytest.raises(FlowrefError) as raised:
        recipe_of(loading.snapshot(declaring(**entries)))
    text = str(raised.value)
    assert "its __flow__ says" in text and "\n" not in text
    assert re.search(said, text)
