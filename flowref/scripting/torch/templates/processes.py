"""Noise processes: rates, transition matrices, moments, arrays of a schedule, and conversions."""

from __future__ import annotations

from flowref.scripting.template import Template

RATES = """
$clock
Q = $rates
jumps = Q - torch.diag_embed(Q.diagonal(dim1=1, dim2=2))
rows, columns = Q.sum(2).abs().amax(1), Q.sum(1).abs().amax(1)
below = (-jumps).clamp(min=0).amax((1, 2))
# The law: rates of jumps are not negative, and rows (or columns) of the matrix sum to zero.
print("largest sum of a row:   ", rows.max().item())
print("largest sum of a column:", columns.max().item())
print("smallest rate of a jump:", jumps.min().item())
off = (torch.minimum(rows, columns).maximum(below) / Q.abs().sum(2).amax(1)).max().item()
"""

TRANSITIONS = """
$clock
P = $transitions
rows, columns = (P.sum(2) - 1).abs().amax(1), (P.sum(1) - 1).abs().amax(1)
below = (-P).clamp(min=0).amax((1, 2))
# The law: probabilities are not negative, and rows (or columns) of the matrix sum to one.
print("largest error of the sum of a row:   ", rows.max().item())
print("largest error of the sum of a column:", columns.max().item())
print("smallest probability:", P.min().item())
off = (torch.minimum(rows, columns).maximum(below) / P.abs().sum(2).amax(1)).max().item()
"""

MOMENTS = """
times = $times
points, h = $points, 1e-4 * $final


def moments(data, t):
    parts = [$moments]
    return [one if one.shape == data.shape else one.reshape($ones) for one in parts]


mean, deviation, drift, diffusion = moments(points, times)
later, earlier = moments(points, times + h), moments(points, times - h)
slope = moments(points + 1, times)[2] - drift
gained = diffusion**2 * (1 if (later[1] >= earlier[1]).any() else -1)  # -1: noise at time zero
# The law: m' = f(m, t) and v' = 2 f' v + g^2, and the mean of data of zero begins at zero.
found = [(later[0] - earlier[0]) / (2 * h), (later[1] ** 2 - earlier[1] ** 2) / (2 * h)]
expected = [moments(mean, times)[2], 2 * slope * deviation**2 + gained]
start = moments(0 * points, 0 * times + 1e-6 * $final)[0].abs().max().item()
apart = [((a - b).abs() / (1 + b.abs())).max().item() for a, b in zip(found, expected)]
print(f"m' off by {apart[0]:.3g}, v' by {apart[1]:.3g}; mean of zero at the start: {start:.3g}")
wrong = max(apart) > 1e-3 or start > 0.02
"""

SCHEDULE = """
bar = $bar
last = torch.cat([torch.ones(1), bar[:-1]])
beta = $beta
kept, expected = torch.as_tensor($kept).double(), $expected
apart = ((kept - expected).abs() / expected.abs().clamp(min=1e-9))[1:-1]
# The law: the arrays of a schedule are those of one process.
step = apart.nan_to_num().argmax().item() + 1
print("at step", step, "$kept_name:", kept[step].item())
print("by the others:", expected[step].item())
wrong = apart.nan_to_num().max().item() > 1e-2
"""

CONVERSIONS = """
at = $at
torch.manual_seed(1)
data, noise = torch.rand($shape) - 0.5, torch.randn($shape)
mixed = $mixed
share = $share
given = $given
found, expected = $found, $wanted
# The law: what was mixed is found again.
print("$method:", found[0].flatten().tolist())
print("expected:", expected[0].flatten().tolist())
off = (found - expected).abs().max().item()
"""

TEMPLATES = {
    "process/rates": (Template(RATES, whole=True),),
    "process/transitions": (Template(TRANSITIONS, whole=True),),
    "process/moments": (Template(MOMENTS, whole=True),),
    "process/schedule": (Template(SCHEDULE, whole=True),),
    "process/conversions": (Template(CONVERSIONS, whole=True, within=100.0),),
}
