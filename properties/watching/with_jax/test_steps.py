"""A loop in JAX is watched: a function of parameters and a batch."""

from __future__ import annotations

import re
from typing import Any

import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

from flowref import watching  # noqa: E402
from flowref.watching import pace  # noqa: E402


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks as often as they are asked for."""
    monkeypatch.setattr(pace, "SHARE", 1e9)


def trained(defect: str = "", steps: int = 8) -> list[str]:
    """What is said of a loop that fits scale and shift of three features."""
    share = {"log-det": 0.5}.get(defect, 1.0)
    back = {"inverse": 0.5}.get(defect, 1.0)

    def forward(p: Any, x: Any) -> Any:
        return x * jnp.exp(p["scale"]) + p["shift"], jnp.full(len(x), share * p["scale"].sum())

    def inverse(p: Any, z: Any) -> Any:
        return back * (z - p["shift"]) * jnp.exp(-p["scale"])

    def loss(p: Any, x: Any) -> Any:
        z, log_det = forward(p, x)
        root = jnp.sqrt(p["shift"]).sum() if defect == "root" else 0.0
        return (0.5 * jnp.square(z).sum(-1) - log_det).mean() + root

    parameters = {"scale": jnp.full(3, 0.5), "shift": jnp.full(3, 1e-3)}
    if defect == "unreached":
        parameters["spare"] = jnp.ones(2)
    if defect == "exp":
        parameters["scale"] = jnp.full(3, 95.0)
    x, slope, said = (
        jax.random.normal(jax.random.key(0), (16, 3)),
        jax.jit(jax.grad(loss)),
        list[str](),
    )
    watcher = watching.steps(loss, every=3, forward=forward, inverse=inverse, report=said.append)
    for _ in range(steps):
        watcher(parameters, x)
        parameters = jax.tree.map(lambda one, d: one - 1e-2 * d, parameters, slope(parameters, x))
    return said


def test_healthy_loop_is_silent() -> None:
    """Nothing is said of a correct function."""
    assert trained() == []


# Defect -> what the sentence says.
DEFECTS = {
    "log-det": r"step 3: the log-det is \S+, and that of the Jacobian \S+",
    "inverse": r"step 3: the round trip is off by",
    "unreached": r"no gradient reaches \['spare'\] at two checks",
    "exp": r"step 2: the parameter \['s\w+'\] is not finite after step 1: exp \(test_steps\.py:\d+.*\) makes it of finite "
    r"numbers; the last good step is 0",
    "root": r"the parameter \['s\w+'\] is not finite after step \d+: sqrt \(test_steps\.py:\d+.*\) makes it",
}


@pytest.mark.parametrize(("defect", "words"), DEFECTS.items(), ids=list(DEFECTS))
def test_defect_is_named(defect: str, words: str) -> None:
    """A planted defect is said once."""
    assert len([one for one in trained(defect) if re.search(words, one)]) == 1
