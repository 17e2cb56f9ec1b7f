"""The line from a target to a subject: one direction, frozen stages, one object, and reasons."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import flowref
from flowref import checking, loading, registry
from flowref.loading.call_probes import Probed
from flowref.loading.declared_options import Declared, declare
from flowref.loading.instance import Instance, instance_of
from flowref.loading.recipe import Recipe, recipe_of
from flowref.loading.recognition import Recognition, recognize
from flowref.loading.source import Source, source_of
from flowref.loading.user_code import import_place
from flowref.model import SpecError, Status, Target, TargetError

# Each stage imports only those before it.
ORDER = (
    "written_processes",
    "notebooks", "user_code", "ownership", "live_objects", "options", "weights", "inner", "estimators", "source", "factory",
    "declaration", "instance", "recognition", "declared_options", "event_sizes",
    "size", "initialization", "shapes", "round_trip_cost", "draft", "calls", "kernels", "endless_solvers",
    "domains", "undeclared_noise", "estimates", "latents", "log_dets", "lower_bounds", "parameters", "sets",
    "solvers", "whole_steps", "experiments",
    "user_objects", "call_probes", "kinds",
    "place", "methods", "contradictions", "recipe", "load_subject",
)  # fmt: skip
CALLS: list[torch.dtype] = []


class Shift(nn.Module):
    """x -> x + t, without a word about its event shape."""

    def __init__(self) -> None:
        super().__init__()
        CALLS.append(torch.get_default_dtype())
        self.t = nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x + self.t, torch.zeros(len(x), dtype=x.dtype)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z - self.t, torch.zeros(len(z), dtype=z.dtype)


class Single(Shift):
    """It refuses float64."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        if x.dtype is torch.float64:
            raise TypeError("float32 only")
        return super().forward(x)


class SingleBuilt(Shift):
    """It is built in float32 alone; ``never``: nor in that."""

    def __init__(self, never: bool = False) -> None:
        super().__init__()
        mask = torch.ones(3, 3, dtype=torch.float32)
        torch.mv(mask, torch.ones(3))  # the default dtype
        if never:
            raise RuntimeError("the same dtype is never met")


class Uncopyable(Shift):
    """It cannot be copied."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("one of a kind")


class Outspoken(Shift):
    """It tells more of itself than it must."""

    event_shape = (3,)
    domain = "unit"
    kind = "bijection"
    kept = "alternating"
    coupling = "additive"
    promises = ("volume-preserving",)

    def log_abs_det_jacobian(self, x: Any, z: Any) -> Any:
        """Zero."""
        return torch.zeros(len(x), dtype=x.dtype)


class ShiftBatchNorm(nn.BatchNorm1d):
    """A batch normalizer by its name."""

    def __init__(self) -> None:
        super().__init__(3)


def target_of(name: str) -> Target:
    """Something in this file."""
    return registry.parse_target(f"{__file__}:{name}")


def instance(name: str) -> Instance:
    """The object of something in this file."""
    return instance_of(source_of(target_of(name)), "float64")


def calls() -> list[Any]:
    """The calls of factories so far, in the copy of this file that targets are made from."""
    made: list[Any] = import_place(__file__).CALLS
    return made


@pytest.mark.parametrize(
    ("name", "probed", "loaded"),
    [("Shift", ["float64"], ["float64"]), ("Single?event=3", ["float64", "float32"], ["float32"])],
)
def test_a_factory_is_called_once_before_its_subject_is_made(
    name: str, probed: list[str], loaded: list[str]
) -> None:
    """Recognizing and probing a user's object take one call of its factory (and a second where it
    runs in float32 only), and the first law one more: two in all.
    """
    loading.forget()
    calls().clear()
    target = target_of(name)
    recipe_of(target)
    assert calls() == [getattr(torch, dtype) for dtype in probed]
    loading.load(target)
    assert calls() == [getattr(torch, dtype) for dtype in (*probed, *loaded)]


def test_what_cannot_be_copied_is_built_anew() -> None:
    """An object that refuses copies is loaded and judged all the same."""
    verdict = checking.pair_verdict(target_of("Uncopyable"), "map/inverse")
    assert verdict.status is Status.HOLDS


def test_an_instance_is_never_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recognizing, declaring and probing leave the built object as it was, to the last entry."""
    from flowref.backends.torch.copies import Inventory
    from flowref.loading.call_probes import probe

    built = instance("Outspoken?kept=0")
    before = Inventory(built.obj)
    recognition = recognize(built, None)
    probe(built, recognition, declare(built, recognition))
    assert before.unchanged()


@pytest.mark.parametrize("stage", [Source, Instance, Recognition, Declared, Probed, Recipe])
def test_a_stage_is_a_frozen_value(stage: type) -> None:
    """What a stage hands on cannot be changed by the next."""
    assert dataclasses.is_dataclass(stage)
    assert stage.__dataclass_params__.frozen  # type: ignore[attr-defined]  # set by the decorator


def test_the_stages_go_one_way() -> None:
    """Every module of loading imports only modules of earlier stages."""
    folder = Path(loading.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} == {*ORDER, "__init__"}
    for place, name in enumerate(ORDER):
        tree = ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))
        of = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        later = {f"flowref.loading.{other}" for other in ORDER[place:]}
        assert not of & {*later, "flowref.loading"}, name


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "Shift",
            [
                "forward is a map; it should return its log-det with the value",
                "inverse is the way back",
                "event shape (3,): the first",
                "it runs in float64",
            ],
        ),
        ("Single?event=3", ["it runs in float32"]),
        (
            "Outspoken",
            [
                "log_abs_det_jacobian gives its log-det",
                "its attribute domain states 'unit'",
                "its attribute promises states ('volume-preserving',)",
            ],
        ),
        ("ShiftBatchNorm", ["it is a batch normalizer, since its class is named so"]),
    ],
)
def test_the_recipe_keeps_why(name: str, parts: list[str]) -> None:
    """A recipe says which attributes, classes and calls decided what the target was taken for."""
    why = recipe_of(target_of(name)).recognized.why
    assert all(any(part in sentence for sentence in why) for part in parts), why


def test_a_construction_says_whose_word_it_is() -> None:
    """What a library's construction is, its adapter states."""
    (stated, runs) = recipe_of(registry.parse_target("torch:SigmoidTransform")).recognized.why
    assert "the adapter of torch.distributions states" in stated and "float64" in runs


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("", []),
        ("event=3", []),
        ("event=1,3", ["?event=1,3 contradicts the object, which says 3"]),
        ("domain=unit", []),
        ("domain=real", ["?domain=real contradicts the object, which says unit"]),
        ("promises=volume-preserving=1", []),
        (
            "promises=volume-preserving=0",
            ["?promises=volume-preserving=0 contradicts the object, which says True"],
        ),
    ],
)
def test_a_spec_that_contradicts_its_object_is_a_question(options: str, parts: list[str]) -> None:
    """It is refused in a sentence that names both and how to decide; told to override, the option
    counts, and what it contradicts is remarked.
    """
    for decided in ("", "&override=true"):
        built = instance(f"Outspoken?{options}{decided}" if options else "Outspoken")
        if parts and not decided:
            with pytest.raises(SpecError, match=re.escape(parts[0])) as refused:
                declare(built, recognize(built, None))
            assert "leave the option out, or add &override=true" in str(refused.value)
        else:
            assert list(declare(built, recognize(built, None)).conflicts) == parts


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "Shift?event=2",
            r"raised RuntimeError.*, so it cannot be called on a batch of events of shape .2,., the shape that .event= gives",
        ),
        ("Shift?wrong=1", "calling the factory raised TypeError"),
        ("Shift?dtype=float16", "expected float64 or float32"),
        ("Single?dtype=float64&event=3", "float32 only"),
        ("Path", "gives a PosixPath, which is no bijection"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(name: str, said: str) -> None:
    """Each stage refuses in a sentence that names the target or the option."""
    with pytest.raises(flowref.FlowrefError, match=said):
        recipe_of(target_of(name))


def test_what_is_built_in_float32_alone_is_judged_in_that() -> None:
    """A factory that mixes precisions in float64 is called again in float32, and told if that fails."""
    assert recipe_of(target_of("SingleBuilt?event=3")).dtype == "float32"
    with pytest.raises(
        flowref.FlowrefError, match="calling the factory raised RuntimeError: the same"
    ):
        recipe_of(target_of("SingleBuilt?event=3&never=True"))


def test_a_live_object_is_judged_as_it_was_given() -> None:
    """A live object is copied when it is registered; what becomes of it later does not show."""
    module = Shift()
    target = loading.snapshot(module)
    with torch.no_grad():
        module.t.zero_()
    forward = loading.load(target).forward
    assert forward is not None
    assert np.array_equal(forward(np.zeros((1, 3))).value, [[1.0, -2.0, 0.5]])
    loading.LIVE.pop(target)
    loading.forget()
    with pytest.raises(TargetError, match="another process"):
        loading.load(target)


def test_a_path_is_meant_from_the_folder_in_which_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files of one name in two folders are two modules, in one process too."""
    found = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_name.py").write_text(f"NAME = {name!r}\n")
        monkeypatch.chdir(tmp_path / name)
        found.append(import_place("same_name.py").NAME)
    assert found == ["one", "other"]


def test_a_wider_construction_is_known_by_the_narrow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With several hundred features nothing is called to find out how it is called and what calls
    cost: it is loaded as the narrow one, and maps its own number of features.
    """
    narrow = registry.parse_target("nflows:AffineCouplingTransform")
    wide = narrow.with_options(features="300")
    known = loading.recipe_of(narrow)

    def probe(*_: object) -> None:
        raise AssertionError("it was called")

    monkeypatch.setattr("flowref.loading.recipe.probe", probe)
    subject = loading.load(wide, like=narrow)
    assert subject.event_shape == (300,)
    assert subject.operations == known.operations
    assert subject.forward is not None
    assert subject.forward(np.zeros((2, 300))).value.shape == (2, 300)


def test_a_path_is_meant_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words in another folder of one process are another object."""
    found = []
    for factor in (2.0, 3.0):
        folder = tmp_path / str(factor)
        folder.mkdir()
        (folder / "scaled.py").write_text(
            "class Scaled:\n"
            "    event_shape = (3,)\n"
            f"    def forward(self, x):\n        return {factor} * x, x.new_zeros(len(x))\n"
            f"    def inverse(self, z):\n        return z / {factor}, z.new_zeros(len(z))\n"
        )
        monkeypatch.chdir(folder)
        subject = loading.load(registry.parse_target("scaled.py:Scaled"))
        assert subject.forward is not None
        found.append(float(subject.forward(np.ones((1, 3)), None).value[0, 0]))
    assert found == [2.0, 3.0]


def test_a_complex_map_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What returns complex numbers is not measured without their imaginary parts, and says so."""
    (tmp_path / "turned.py").write_text(
        "import torch\n"
        "class Turned:\n"
        "    event_shape = (3,)\n"
        "    def forward(self, x):\n"
        "        return x * torch.exp(torch.tensor(1j)), x.new_zeros(len(x))\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TargetError, match="complex numbers"):
        loading.load(registry.parse_target("turned.py:Turned"))
