"""Code that asks for a GPU is judged on the CPU, and its line says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from flowref import checking, registry
from flowref.backends.protocol import Wish
from flowref.backends.torch import host
from flowref.checking import Settings
from flowref.loading.recipe import ON_THE_HOST, forget_recipes, recipe_of
from flowref.loading.user_code import imported_from
from flowref.model import Status

# What a file says before its class, in its constructor, of the input, and after it.
BODY = """
import torch
from torch import nn

{before}

class Affine(nn.Module):
    event_shape = (3,)

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(3{parameter}))
        self.shift = nn.Parameter(torch.randn(3{parameter}))

    def forward(self, x):
        ladj = self.scale.sum() * torch.ones(len(x){ones})
        return x * self.scale.exp() + self.shift, {bug} * ladj

    def inverse(self, z):
        back = (z{moved} - self.shift) * (-self.scale).exp()
        return back, -self.scale.sum() * torch.ones(len(z){ones})


def make():
    return Affine(){made}
"""
SAVED = "import io; file = io.BytesIO(); torch.save(torch.ones(2), file); file.seek(0); "
NOWHERE = dict.fromkeys(("before", "parameter", "ones", "moved", "made"), "") | {"bug": "1.0"}
WAYS = {
    "module": {"made": ".cuda()"},
    "to": {"made": ".to('cuda:0')"},
    "parameters": {"parameter": ", device='cuda'"},
    "inside": {"ones": ", device=torch.device('cuda')"},
    "inverse": {"moved": ".cuda(non_blocking=True)"},
    "imported": {"before": "unit = torch.ones(3).cuda()"},
    "current": {"before": "torch.cuda.synchronize()"},
    "chosen": {"before": "torch.cuda.set_device(0)"},
    "number": {"made": ".to(0)"},
    "pinned": {"moved": ".pin_memory()"},
    "apple": {"made": ".to('mps')"},
    "generator": {"before": "draws = torch.Generator(device='cuda')"},
    "default": {"before": "torch.set_default_device('cuda')"},
    "types": {"before": "half = torch.ones(3).type('torch.cuda.HalfTensor')"},
    "loaded": {"before": SAVED + "weights = torch.load(file, 'cuda')"},
    "within": {"made": "\n    with torch.device('cuda'):\n        return Affine()", "bug": "1.0"},
}


@pytest.fixture(autouse=True)
def nothing_asked() -> Iterator[None]:
    """As in a new process, before and after."""
    before = host.REQUESTS.wish, host.REQUESTS.granting
    host.REQUESTS.wish, host.REQUESTS.granting = Wish.NONE, False
    forget_recipes()
    imported_from.cache_clear()
    yield
    host.REQUESTS.wish, host.REQUESTS.granting = before
    forget_recipes()


def written(folder: Path, **places: str) -> Any:
    """The target of a file that asks for a GPU in some places."""
    body = BODY.format(**(NOWHERE | places))
    if "with torch.device" in body:
        body = body.replace("return Affine()\n    with", "with")
    path = folder / "model.py"
    path.write_text(body)
    return registry.parse_target(f"{path}:make")


@pytest.mark.parametrize("way", WAYS)
def test_it_is_judged_on_the_processor(way: str, tmp_path: Path) -> None:
    """In which way it asks is no matter, nor whether there is a GPU."""
    target = written(tmp_path, **WAYS[way])
    assert recipe_of(target).recognized.conventions[-1] == ON_THE_HOST
    verdict = checking.pair_verdict(target, "map/log-det", Settings(profile="quick"))
    assert verdict.status is Status.HOLDS, verdict.reason


def test_what_is_wrong_is_wrong_there(tmp_path: Path) -> None:
    """A log-det that is off by a thousandth."""
    target = written(tmp_path, made=".cuda()", bug="1.001")
    verdict = checking.pair_verdict(target, "map/log-det", Settings(profile="quick"))
    assert verdict.status is Status.VIOLATED, verdict.reason


def test_who_asks_for_none_is_told_nothing(tmp_path: Path) -> None:
    """A choice by what is there is no request."""
    before = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
    target = written(tmp_path, before=before, made=".to(device)")
    assert ON_THE_HOST not in recipe_of(target).recognized.conventions
    assert not host.REQUESTS.granting


@pytest.mark.parametrize("granting", [False, True])
def test_who_loads_to_the_processor_is_told_nothing(granting: bool, tmp_path: Path) -> None:
    """Nor where another target of the process asked for a GPU, by place as by name."""
    host.REQUESTS.granting = granting
    before = SAVED + "weights = torch.load(file, 'cpu', weights_only=True)"
    assert ON_THE_HOST not in recipe_of(written(tmp_path, before=before)).recognized.conventions


@pytest.mark.parametrize("way", ["module", "default"])
def test_the_process_stays_as_it_was(way: str, tmp_path: Path) -> None:
    """torch's own functions are back in their places, and so is its default device."""
    names = ("Generator", "load", "set_default_device", "set_default_tensor_type")
    of_gpus = ("_lazy_init", "is_available", "device_count", *host.ANSWERS)

    def found() -> list[Any]:
        own = [getattr(torch, name) for name in names]
        return [*own, *(getattr(torch.cuda, name) for name in of_gpus), torch.get_default_device()]

    before = found()
    recipe_of(written(tmp_path, **WAYS[way]))
    assert found() == before


def test_a_session_that_uses_a_gpu_is_given_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There no request comes by its initialization, which would be refused: it is granted at once."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    target = written(tmp_path, **WAYS["inside"])
    assert recipe_of(target).recognized.conventions[-1] == ON_THE_HOST
    assert not host.REQUESTS.granting


def test_a_gpu_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that takes one where there is one is judged as where there is none."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with host.host():
        assert not torch.cuda.is_available()
        assert torch.cuda.device_count() == 0
    assert torch.cuda.is_available()


def test_generators_are_torchs_own() -> None:
    """Code that asks whether something is a generator is told so."""
    host.REQUESTS.granting = True
    with host.host():
        made: Any = torch.Generator(device="cuda")
        assert isinstance(made, torch.Generator)
        assert torch.randn(2, generator=made).shape == (2,)
    assert made.device.type == "cpu"
