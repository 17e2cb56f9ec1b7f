"""torchflows 1.2.1: a flow over images refuses inputs that are not contiguous."""

import sys

import torch
from torchflows.bijections.finite.multiscale.base import Squeeze
from torchflows.flows import Flow

torch.manual_seed(0)
flow = Flow(Squeeze((2, 4, 4)))
images = torch.randn(2, 4, 4, 2)  # channels last, as files and plots have them
x = images.permute(0, 3, 1, 2)
print("contiguous:", flow.base_log_prob(x.contiguous()).tolist())
# The bug: flatten_event takes the events apart by view(), which a transposed tensor refuses, where
# reshape() would do; base_log_prob, and with it log_prob of bijections that pass strides on, calls it.
try:
    print("transposed:", flow.base_log_prob(x).tolist())
    wrong = False
except RuntimeError as error:
    print("transposed:", str(error).splitlines()[0])
    wrong = True
print("VIOLATED same/manner-accepted" if wrong else "holds")
sys.exit(wrong)
