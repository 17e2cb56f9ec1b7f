"""Derivatives within a call, in whatever mode the caller is."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")


def differentiates(function: Callable[P, R]) -> Callable[P, R]:
    """A function that takes derivatives, as one that does so in inference mode as well.

    There nothing is recorded, whatever `torch.enable_grad` says: a derivative is an error, or where it is
    taken for one of a constant, zero without a word. So inference mode is left for the call, and tensors
    that were made in it are copied, since none of these can be recorded either.
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
