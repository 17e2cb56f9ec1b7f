"""nflows 0.14: linear transforms keep their cached weight when a state_dict is loaded or cast.

The copy in glasflow is the same.
"""

import sys

import torch
from nflows.transforms import LULinear

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
x = torch.tensor([[1.0, 2.0]])
trained = LULinear(2, identity_init=False).eval()
layer = LULinear(2, using_cache=True).eval()  # the identity as built
with torch.no_grad():
    layer(x)  # fills the cache
    layer.load_state_dict(trained.state_dict())
    # The bug: Linear.forward uses `self.cache.weight` once it is set; `cache.invalidate()` is called
    # by train() alone, and the cache is neither a buffer nor told of new or cast parameters.
    got, log_det = layer(x)
    expected, right = trained(x)
    print(
        f"loaded parameters equal: {layer.lower_entries.tolist() == trained.lower_entries.tolist()}"
    )
    print(f"f(x) expected   {expected[0].tolist()}, log-det {right.item():.6f}")
    print(f"f(x) returned   {got[0].tolist()}, log-det {log_det.item():.6f}")
    off = (got - expected).abs().max().item()
    print(f"off by {off:.6g}")
    try:
        layer.float()(x.float())
        print("after .float(): no error")
    except RuntimeError as error:
        print(f"after .float(): RuntimeError: {error}")
wrong = off > 1e-9
print("VIOLATED same/saved[restore]" if wrong else "holds")
sys.exit(wrong)
