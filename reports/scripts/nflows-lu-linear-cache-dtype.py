"""nflows 0.14: LULinear(using_cache=True) in eval mode raises when a float64 one is inverted.

forward works, and so does the inverse without a cache, or of a float32 object. The documentation
says nothing of dtypes. The copy in glasflow 0.4.1 calls torch.linalg.solve_triangular and works.
"""

import sys
import warnings

import torch
from nflows.transforms import LULinear

warnings.simplefilter("ignore")  # torch.triangular_solve is deprecated

raised = []
for dtype in (torch.float32, torch.float64):
    for using_cache in (False, True):
        linear = LULinear(4, using_cache=using_cache).to(dtype).eval()
        y, _ = linear(torch.tensor([[0.0, -0.083, 0.5, 1.0]], dtype=dtype))
        case = f"{dtype}, using_cache={using_cache}"
        try:
            # The bug is in LULinear.weight_inverse: `torch.eye(self.features, self.features)` has
            # the default dtype, and is then solved for with the float64 factors.
            back, _ = linear.inverse(y)
            print(f"{case}: inverse(f(x)) = {[round(v, 6) for v in back[0].tolist()]}")
        except RuntimeError as error:
            raised.append(case)
            print(f"{case}: inverse raised RuntimeError: {error}")
wrong = bool(raised)
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
