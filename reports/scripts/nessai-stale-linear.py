"""nessai 0.15.2: a flow in eval mode that is given other weights goes on with the inverse of the old ones.

Its training resets the cache by hand before it loads weights; load_weights does not.
"""

import sys

import torch
from nessai.flows import configure_model

SIZES = {"n_inputs": 3, "n_neurons": 8, "n_blocks": 2, "n_layers": 1, "ftype": "realnvp"}
torch.manual_seed(0)
flow, other = configure_model(dict(SIZES)).eval(), configure_model(dict(SIZES)).eval()
x = torch.randn(2, 3)
with torch.no_grad():
    for parameter in other.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    flow.log_prob(x)  # what is cached
    flow.load_state_dict(other.state_dict())
    # The bug: create_linear_transform builds LULinear(using_cache=True) of glasflow, which computes
    # weight and log-det once in eval mode and empties its cache in `train` alone.
    returned, expected = flow.log_prob(x), other.log_prob(x)
    renewed = flow.train().eval().log_prob(x)
print(f"log_prob after loading:                 {returned.tolist()}")
print(f"after train() and eval():               {renewed.tolist()}")
print(f"of the flow whose weights were loaded:  {expected.tolist()}")
worst = (returned - expected).abs().max().item()
wrong = worst > 1e-3 > (renewed - expected).abs().max().item()
print("VIOLATED same/saved[restore]" if wrong else "holds")
sys.exit(wrong)
