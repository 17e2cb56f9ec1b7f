"""Couplings: the copied entries, and the dependencies of the others."""

from __future__ import annotations

from flowref.scripting.template import Template
from flowref.scripting.torch.templates.mode import REPEATED, REPEATED_IN_TRAINING, ROWS

JACOBIAN = "torch.autograd.functional.jacobian"

KEPT = """
kept = torch.tensor($kept)  # the entries that are copied
$setup
before, after = $at.flatten(1)[:, kept], $which($at)[0].flatten(1)[:, kept]
# The law: the kept part is copied bit for bit.
print("kept entries before:", before.tolist())
print("kept entries after: ", after.tolist())
wrong = not torch.equal(before, after)
"""

BLIND = f"""
kept, moved = torch.tensor($kept), torch.tensor($moved)  # copied and transformed entries
jacobian = {JACOBIAN}(lambda v: forward(v[None])[0][0], x[0])$square
block = jacobian[moved][:, moved]
# The law: a transformed entry depends on itself and the kept part, the kept part on no other.
print("dy_b/dx_b:", block.tolist())
off = max((block - block.diagonal().diag()).abs().max().item(), jacobian[kept][:, moved].abs().max().item())
"""

CLOSED = """
moved = torch.tensor($moved)  # the entries that are transformed
points = []
for shift in (0.0, 1.0, 2.0):  # of the transformed entries alone
    points.append(x.flatten(1).clone())
    points[-1][:, moved] += shift
a, b, c = (forward(point.reshape(x.shape))[0].flatten(1)[:, moved] for point in points)
# The law: given the kept part, the map of the others is affine.
print("second difference of the transformed part:", (a - 2 * b + c).tolist())
off = (a - 2 * b + c).abs().max().item()
"""

CLOSED_LOG_DET = """
moved = torch.tensor($moved)  # the entries that are transformed
y, reported = forward(x)
shifted = x.flatten(1).clone()
shifted[:, moved] += 1.0
slopes = (forward(shifted.reshape(x.shape))[0] - y).flatten(1)[:, moved]
# The law: given the kept part the map is affine, and its log-det is the sum of log|slope|.
print("reported log-det: ", reported.tolist())
print("sum of log|slope|:", slopes.abs().log().sum(1).tolist())
off = (reported - slopes.abs().log().sum(1)).abs().max().item()
"""

TEMPLATES = {
    "coupling/pattern[kept-part]": (Template(KEPT),),
    "coupling/pattern[conditioner]": (Template(BLIND, within=1e3),),
    "coupling/closed-form": (Template(CLOSED, within=1e3), Template(CLOSED_LOG_DET, within=1e3)),
    "same/rows[conditioner]": (
        Template(ROWS, whole=True, within=1e4),
        Template(REPEATED, whole=True, within=1e4),
    ),
    "same/rows-in-train[conditioner]": (Template(REPEATED_IN_TRAINING, whole=True, within=1e4),),
}
