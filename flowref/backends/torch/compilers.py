"""Avoids the import of torch's compiler when nothing is compiled: it takes longer than most audits
of a small model.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

COMPILER = "torch._dynamo"


class Unimported:
    """A stand-in for the compiler: has the one setting that checkpoints read, and imports the
    compiler for everything else.
    """

    config = SimpleNamespace(error_on_nested_fx_trace=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(COMPILER), name)


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Inside, code that reads the compiler's settings does not import it."""
    if COMPILER in sys.modules:
        yield
        return
    standin = Unimported()
    torch._dynamo = standin  # restored below
    try:
        yield
    finally:
        if vars(torch).get("_dynamo") is standin:
            del torch._dynamo
