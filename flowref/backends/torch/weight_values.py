"""Checks that the numbers of saved weights are valid for an object; each error names the tensor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from flowref.model import TargetError

State = Mapping[str, Any]
# Names of variances, and of running averages.
VARIANCE = re.compile(r"(^|[._])var(iance)?$")
AVERAGE = re.compile(r"(^|\.)running_\w+$")


def refuse_not_finite(entries: State, wanted: State, path: Path, trained: set[str]) -> None:
    """Raises `TargetError` for NaN anywhere, and for infinities in trained or averaged tensors,
    unless the object is built with them.
    """
    for name, value in entries.items():
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        value = value.double()
        moves = name in trained or AVERAGE.search(name)
        bad = ~value.isfinite() if moves else value.isnan()
        built = wanted.get(name)
        if isinstance(built, torch.Tensor) and built.shape == value.shape:
            bad &= built.detach().double().isfinite()
        if bad.any():
            which = "nan" if value[bad].isnan().any() else "infinite"
            raise TargetError(
                f"{path}: {int(bad.sum())} of the {value.numel()} values of {name} are {which}, as "
                "after a training that diverged; take an earlier checkpoint"
            )


def refuse_negative(entries: State, wanted: State, path: Path, trained: set[str]) -> None:
    """Raises `TargetError` for negative numbers in variances, unless the object is built with
    them.
    """
    for name, value in entries.items():
        built = wanted.get(name)
        if name in trained or not VARIANCE.search(name) or not isinstance(built, torch.Tensor):
            continue
        if not value.is_floating_point() or (built.detach() < 0).any():
            continue
        if (value < 0).any():
            raise TargetError(
                f"{path}: {int((value < 0).sum())} of the {value.numel()} values of {name} are "
                f"negative (the least is {float(value.min()):.3g}), which no variance is; save it "
                "again from a run that is sound"
            )


def refuse_other_numbers(entries: State, wanted: State, path: Path, trained: set[str]) -> None:
    """Raises `TargetError` for integers in trained tensors, and complex numbers in real ones,
    which would load as something else.
    """
    for name, value in entries.items():
        now = wanted.get(name)
        if not isinstance(value, torch.Tensor) or not isinstance(now, torch.Tensor):
            continue
        whole = not (value.is_floating_point() or value.is_complex()) and name in trained
        if whole or (value.is_complex() and not now.is_complex()):
            raise TargetError(
                f"{path}: {name} holds {value.dtype}, and the model keeps {now.dtype} there: it was "
                "rounded, quantized or taken from another model; save it as the model keeps it"
            )


def refuse_rounded(entries: State, loaded: State, path: Path) -> None:
    """Raises `TargetError` for numbers that integer or boolean tensors of the object would
    round.
    """
    for name, value in entries.items():
        now = loaded.get(name)
        if not isinstance(value, torch.Tensor) or not isinstance(now, torch.Tensor):
            continue
        if now.is_floating_point() or now.is_complex() or now.shape != value.shape:
            continue
        if not torch.equal(now.double(), value.double()):
            raise TargetError(
                f"{path}: {name} holds {value.dtype} that the model, which keeps {now.dtype} "
                "there, would round; save it as the model keeps it"
            )
