"""Derivatives within a call, in every gradient mode of the caller."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")


def differentiates(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator for functions that take derivatives, so that they work in inference mode too.

    Inference mode records nothing, also under `torch.enable_grad`: a derivative is an error, or
    silently zero if the input counts as a constant. So the call leaves inference mode, and copies
    tensors made in it, which cannot be recorded either.
    """

    @wraps(function)
    def everywhere(*given: P.args, **named: P.kwargs) -> R:
        if not torch.is_inference_mode_enabled():
            return function(*given, **named)
        with torch.inference_mode(False), torch.no_grad():
            copied = {name: _recordable(value) for name, value in named.items()}
            return function(*map(_recordable, given), **copied)  # type: ignore[arg-type]  # the same kinds

    return everywhere


def _recordable(value: object) -> object:
    return value.clone() if isinstance(value, Tensor) and value.is_inference() else value
