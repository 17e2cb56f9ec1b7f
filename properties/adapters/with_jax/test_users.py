"""Users' code in JAX: conventions are told apart by calls, bugs are caught, and correct code is not
accused.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")
pytest.importorskip("equinox", reason="the modules are equinox's")

from flowref import checking, loading, registry
from flowref.loading import recipe_of
from flowref.model import Law, SpecError, Status, Target, TargetError

HERE = Path(__file__).parent
MAPS = ("map/log-det", "map/inverse", "map/log-det[inverse]")
DENSITIES = ("sampling/follows-density[ratios]",)
HEALTHY = [
    *(("bent", law) for law in (*MAPS, "map/log-det[antisymmetry]", "map/one-to-one")),
    *(("pair", law) for law in MAPS),
    *(("normal", law) for law in (*MAPS, *DENSITIES)),
    *(("flipped?event=3", law) for law in MAPS[:2]),
    *(("conditional?context=2", law) for law in MAPS),
    *(("bisected", law) for law in MAPS[:2]),
    *(("sliced", law) for law in MAPS),
    ("radial", "map/log-det"),
    ("one_event_and_key", "sampling/follows-density[ratios]"),
    ("number_then_key", "sampling/follows-density[ratios]"),
    ("shape_by_keyword", "sampling/follows-density[ratios]"),
    *((name, "dtype/follows") for name in ("bent", "pair", "normal")),
]
PLANTED = [
    ("bent?bug=half", "map/log-det"),
    ("bent?bug=small", "map/log-det"),
    ("bent?bug=sign", "map/log-det[inverse]"),
    ("pair?bug=twice", "map/log-det"),
    ("pair?bug=offset", "map/inverse"),
    ("pair?bug=branch", "gradient/finite[inverse]"),
    ("normal?bug=forgotten", "sampling/follows-density[ratios]"),
    ("normal?bug=wide", "sampling/follows-density[ratios]"),
    ("single_precision", "dtype/follows"),
    ("sliced?bug=large", "map/log-det"),
    ("radial?bug=large", "map/log-det"),
]


def target(spec: str) -> Target:
    """A target of the file of flows."""
    place = os.path.relpath(HERE / "flows.py")
    return registry.parse_target(f"{place}:{spec}")


def status(spec: str, law: str) -> Status:
    """What a law says of it."""
    found: Law = registry.find_law(law)
    return checking.pair_verdict(
        target(spec), found, checking.Settings("quick"), written=False
    ).status


@pytest.mark.parametrize(("spec", "law"), HEALTHY)
def test_correct_code_is_not_accused(spec: str, law: str) -> None:
    """A correct flow holds, as it is commonly written in JAX."""
    assert status(spec, law) is Status.HOLDS


@pytest.mark.parametrize(("spec", "law"), PLANTED)
def test_bugs_are_caught(spec: str, law: str) -> None:
    """A planted bug is a violation of the law that it breaks."""
    assert status(spec, law) is Status.VIOLATED


@pytest.mark.parametrize(
    ("spec", "event", "said"),
    [
        ("bent", (3,), "one event at a time"),
        ("pair", (3,), ""),
        ("normal", (2,), ""),
        ("sliced", (2,), ""),
        ("radial", (5,), ""),
        ("flipped?event=3", (3,), "one event at a time"),
        ("conditional?context=2", (3,), "one event at a time"),
        ("asking", (3,), "forward cannot be traced by jax"),
        ("single_precision", (3,), "it returns float32 for float64"),
        ("bisected", (2,), "its inverse iterates, held to 1e-05"),
    ],
)
def test_conventions_are_told(spec: str, event: tuple[int, ...], said: str) -> None:
    """Whether events or batches are taken is found out, and what decides is said."""
    recognized = recipe_of(target(spec)).recognized
    assert recognized.event_shape == event
    assert said in "; ".join(recognized.conventions)


def test_what_is_no_flow_is_one_sentence() -> None:
    """A network is no bijection, and that is said in one sentence."""
    with pytest.raises(TargetError, match="which is no bijection"):
        recipe_of(target("network"))


@pytest.mark.parametrize("law", ["gradient/parameters[value]", "gradient/parameters[log-det]"])
def test_laws_of_parameters_wait_where_arrays_stay(law: str) -> None:
    """Of an ordinary object, whose arrays are not moved, such laws wait, and its line says what to do; of a
    pytree they are put to the test.
    """
    assert any(
        "register its class" in said for said in recipe_of(target("normal")).recognized.conventions
    )
    verdict = checking.pair_verdict(
        target("normal"), registry.find_law(law), checking.Settings("quick")
    )
    assert verdict.status is Status.NOT_APPLICABLE and verdict.blocked
    assert "its arrays are not moved" in verdict.reason
    assert status("bent", law) is Status.HOLDS


@pytest.mark.parametrize("option", ["ladj_form=batch", "offset=D", "beside=sample"])
def test_an_option_of_torch_alone_is_refused(option: str, tmp_path: Path) -> None:
    """It would change nothing, and a user would think that it does."""
    path = tmp_path / "flows.py"
    path.write_text(
        "import jax.numpy as jnp\n\n\nclass Shifted:\n    event_shape = (2,)\n    by = jnp.ones(2)\n\n"
        "    def forward(self, x):\n        return x + self.by, jnp.zeros(())\n\n"
        "    def inverse(self, z):\n        return z - self.by, jnp.zeros(())\n",
        encoding="utf-8",
    )
    with pytest.raises(SpecError, match="describes code in PyTorch"):
        loading.load(registry.parse_target(f"{path}:Shifted?{option}"))
