"""Beside a CPU build of torch, torchvision of the package index, which is linked against CUDA, cannot load its operators,
and its import fails. timm and the models of Diffusers import it and call none of them: they are declared instead.
"""

from __future__ import annotations

import contextlib
import importlib.util

import torch

OPERATORS = ("nms", "qnms")
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
# Kept, since operators go with their library.
DECLARED = torch.library.Library("torchvision", "FRAGMENT")


def pytest_configure() -> None:
    """Declare what an import registers implementations of."""
    if importlib.util.find_spec("torchvision") is None or _loads():
        return
    for name in OPERATORS:
        with contextlib.suppress(RuntimeError):  # it is declared
            DECLARED.define(f"{name}{SIGNATURE}")


def _loads() -> bool:
    """Whether torchvision can be imported as it is."""
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError):
        return False
    return True
