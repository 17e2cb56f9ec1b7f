"""What runs eagerly imports no compiler."""

from __future__ import annotations

import subprocess
import sys

import torch

from flowref.backends.torch.compilers import uncompiled

CODE = """
import sys
from flowref import checking
print(checking.pair_verdict("nflows:AffineCouplingTransform", "same/manner[grad-modes]").status.name)
print("torch._dynamo" in sys.modules)
import torch
print(torch._dynamo.config.error_on_nested_fx_trace, "torch._dynamo" in sys.modules)
"""


def test_a_checkpointed_call_imports_no_compiler() -> None:
    """A law that checkpoints leaves the compiler alone, which can be imported afterwards."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["HOLDS", "False", "True True"]


def test_code_that_asks_for_the_compiler_gets_it() -> None:
    """What is called meanwhile may compile, and the compiler stays where it is."""
    with uncompiled():
        assert callable(torch._dynamo.disable)
    assert callable(torch._dynamo.disable)
