"""normflows 1.7.3: Residual makes the caller's tensor require a gradient, and leaves it so."""

import sys

import torch
from normflows.flows import Residual
from normflows.nets import LipschitzMLP

torch.manual_seed(0)
data = torch.randn(8, 2)
changed = []
for options in ({"brute_force": True}, {"exact_trace": True, "reduce_memory": False}):
    flow = Residual(LipschitzMLP([2, 8, 2]), **options).eval()
    x = data.clone()
    with torch.no_grad():
        flow.inverse(x)
    # The bug: iResBlock._logdetgrad calls `x = x.requires_grad_(True)`, which is in place, on the
    # tensor that the caller passed, under no_grad as well; x.detach() first would be a copy.
    print(f"{options}:")
    print(f"    before x.requires_grad was {data.requires_grad}; it is {x.requires_grad}")
    for name, use in {
        "x.mul_(2.0)": lambda t: t.mul_(2.0),
        "x.numpy()": lambda t: t.numpy(),
    }.items():
        try:
            use(x)
            print(f"    {name} is allowed")
        except RuntimeError as error:
            print(f"    {name}: RuntimeError: {error}")
    changed.append(x.requires_grad)
wrong = any(changed)
print("VIOLATED effects/process[input]" if wrong else "holds")
sys.exit(wrong)
