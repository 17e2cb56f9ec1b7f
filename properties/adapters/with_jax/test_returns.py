"""What calls in JAX return is read by the table that code in PyTorch is read by: each form is recognized, judged where
it is right, and caught where it is wrong.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jax", reason="it is about code in JAX")

from flowref import checking, registry
from flowref.loading import recipe_of
from flowref.model import Ambiguous, SpecError, Status, Target

HEAD = """
import math
from typing import NamedTuple

import jax.numpy as jnp


class Result:
    def __init__(self, z, log_det):
        self.z, self.log_det = z, log_det


class Flow:
    event_shape = (2,)

    def __init__(self, bug: bool = False):
        self.weight = jnp.array([0.3, -0.2])
        self.factor = 1.5 if bug else 1.0

    def go(self, x):
        z = jnp.arcsinh(x * jnp.exp(self.weight))
        return z, self.factor * (self.weight - jnp.log(jnp.cosh(z))).sum(-1)

    def back(self, z):
        x = jnp.sinh(z) * jnp.exp(-self.weight)
        return x, -(self.weight - jnp.log(jnp.cosh(z))).sum(-1)

"""
PAIR = """
    def forward(self, x):
        z, log_det = self.go(x)
        {returned}

    def inverse(self, z):
        return self.back(z){part}
"""
BESIDE = """
    def forward(self, x):
        return self.go(x)[0]

    def inverse(self, z):
        return self.back(z)[0]

    def {name}(self, {asked}):
        return self.go(x)[1]
"""
# What a map returns, the option that says so, and what the line of the target says.
FORMS = {
    "mapping": ("return {'z': z, 'log_det': log_det}", "", "forward returns {'z', 'log_det'}"),
    "keys": ("return {'a': z, 'b': log_det}", "returns=z,ladj", "z: 'a', ladj: 'b', as declared"),
    "fields": ("return Result(z, log_det)", "", "forward returns Result(z, log_det)"),
    "several": ("return z, z.sum(), log_det", "returns=z,_,ladj", "returns z,_,ladj, as declared"),
    "names": ("loss = z.sum(-1); return loss, log_det, z", "", "returns _,ladj,z, as its code names them"),
    "list": ("return z, [log_det / 2, log_det / 2]", "", "log-det: sum of a list of 2"),
    "last": ("return z, [0 * log_det, log_det]", "ladj_list=last", "log-det: the last of a list of 2"),
    "states": ("return [x, z], log_det", "", "latent: the last of 2 states"),
    "inner": ("return z, {'log_jac': log_det}", "", "log-det: 'log_jac'"),
    "columns": (
        "return jnp.concatenate([z, log_det[:, None]], -1)", "columns=z:0-1,ladj:2", "columns as declared",
    ),
}  # fmt: skip
# A method beside the map, what it takes, and the option that names it.
METHODS = {
    "log_abs_det": ("x", ""),
    "compute_log_det": ("x, z", ""),
    "volume": ("x", "log_det=volume"),
}


def written(folder: Path, methods: str, option: str, bug: bool) -> Target:
    """The target of a flow with such methods."""
    (folder / "flows.py").write_text(HEAD + methods, encoding="utf-8")
    options = "&".join(filter(None, (option, "bug=true" * bug)))
    return registry.parse_target(f"{folder}/flows.py:Flow" + f"?{options}" * bool(options))


def judged(target: Target) -> Status:
    """What the law of its log-det says."""
    law = registry.find_law("map/log-det")
    return checking.pair_verdict(target, law, checking.Settings("quick"), written=False).status


@pytest.mark.parametrize("form", FORMS)
def test_a_result_is_read(form: str, tmp_path: Path) -> None:
    """The value and the log-det are found where they are, and the line says so."""
    returned, option, words = FORMS[form]
    target = written(tmp_path, PAIR.format(returned=returned, part="[0]"), option, False)
    assert words in recipe_of(target).recognized.conventions


@pytest.mark.parametrize("bug", [False, True])
@pytest.mark.parametrize("form", ["fields", "columns"])
def test_a_result_is_judged(form: str, bug: bool, tmp_path: Path) -> None:
    """What is read is held to the law."""
    returned, option, _ = FORMS[form]
    target = written(tmp_path, PAIR.format(returned=returned, part="[0]"), option, bug)
    assert judged(target) is (Status.VIOLATED if bug else Status.HOLDS)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_beside_the_map_is_its_log_det(name: str, tmp_path: Path) -> None:
    """By its name, or as an option says."""
    asked, option = METHODS[name]
    target = written(tmp_path, BESIDE.format(name=name, asked=asked), option, True)
    assert judged(target) is Status.VIOLATED


def test_a_method_that_nothing_shows_to_be_its_log_det_is_asked_about(tmp_path: Path) -> None:
    """One named after a log-det is no silence."""
    target = written(tmp_path, BESIDE.format(name="log_det_of", asked="self_, x, z"), "", False)
    source = (tmp_path / "flows.py").read_text().replace("log_det_of", "log_abs_det")
    (tmp_path / "flows.py").write_text(source)
    with pytest.raises(Ambiguous, match=r"\?log_det=log_abs_det"):
        recipe_of(target)


def test_names_that_leave_one_role_alone_are_taken(tmp_path: Path) -> None:
    """A map and its way back may have other names."""
    methods = PAIR.format(returned="return z, log_det", part="")
    methods = methods.replace("def forward", "def normalize").replace(
        "def inverse", "def denormalize"
    )
    target = written(tmp_path, methods, "", False)
    assert recipe_of(target).recognized.kind == "bijection with inverse"


def test_a_sign_that_is_none_is_refused(tmp_path: Path) -> None:
    """?running= says whether a log-det is added or subtracted."""
    methods = PAIR.format(returned="return z, log_det + logdet", part="")
    target = written(
        tmp_path, methods.replace("(self, x)", "(self, x, logdet)"), "running=up", False
    )
    with pytest.raises(SpecError, match="expected add or subtract"):
        recipe_of(target)
