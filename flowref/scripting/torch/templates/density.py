"""Densities: the change of variables, total mass, and samples."""

from __future__ import annotations

from flowref.scripting.template import Template

CHANGE = """
data = $data
z, log_det = $normalizing(data)
density, base = log_prob(data), base_log_prob(z)
# The law: log p(x) = log p_Z(f(x)) + log-det.
print("log p(x):          ", density.tolist())
print("base plus log-det: ", (base + log_det).tolist())
off = (density - base - log_det).abs().max().item()
"""

MASS_1D = """
grid = torch.linspace($from, $to, 200001)
midpoints = ((grid[1:] + grid[:-1]) / 2).reshape(-1, $sizes)
with torch.no_grad():
    density = log_prob(midpoints).reshape(-1).exp()
mass = (density.nan_to_num() * (grid[1] - grid[0])).sum().item()
# The law: a density integrates to one.
print("integral of the density from $from to $to:", mass)
off = abs(mass - 1)
"""

MASS_2D = """
edges = torch.linspace($from, $to, 1001)
middle = (edges[1:] + edges[:-1]) / 2
points = torch.cartesian_prod(middle, middle).reshape(-1, $sizes)
with torch.no_grad():
    density = log_prob(points).reshape(-1).exp()
mass = (density.nan_to_num() * (edges[1] - edges[0]) ** 2).sum().item()
# The law: a density integrates to one.
print("integral of the density over [$from, $to]^2:", mass)
off = abs(mass - 1)
"""

BOUND = """
torch.manual_seed(1)
with torch.no_grad():
    x = sample(1024)
    draws = torch.stack([bound(x) for _ in range(32)])
    nearest = (draws.mean(0) - log_prob(x)).argsort()[-8:]
    x = x[nearest]
    draws = torch.stack([bound(x) for _ in range(4096)])
    mean, error, exact = draws.mean(0), draws.std(0) / 64, log_prob(x)
# The law: a lower bound is not above the log-density, in the mean.
print("mean of the bound:", mean.tolist())
print("log-density:      ", exact.tolist())
wrong = (mean - exact > 6 * error + 1e-6).any().item()
"""

SAMPLES = """
torch.manual_seed(1)
with torch.no_grad():
    x = sample(200000).reshape(-1, $size)
    log_p = log_prob(x.reshape(-1, $sizes)).reshape(-1)
middle, spread = x.median(0).values, 0.6 * x.std(0)
scores = []
for shift in torch.cat([torch.zeros(1, $size), torch.eye($size), -torch.eye($size)]):
    w = (x - middle - shift * x.std(0)) / spread
    box = (w.abs() < 1).all(1)  # r is uniform on a box: its density is 1 / (2 spread)^d
    ratio = box * (-log_p - (2 * spread).log().sum()).exp()
    scores.append(((ratio.mean() - 1) / (ratio.std() / len(x) ** 0.5)).item())
    print(f"mean of r/p: {ratio.mean().item():.4f}, {scores[-1]:+.1f} standard errors from 1")
# The law: samples follow the density, so the mean of r/p is 1 for every density r.
wrong = max(map(abs, scores)) > 6
"""

NORMAL = """
z = $latents
density = base_log_prob(z)
expected = -0.5 * z.flatten(1).square().sum(1) - 0.5 * $size * math.log(2 * math.pi)
# The law: a standard normal base has this constant.
print("base log-density:", density.tolist())
print("expected:        ", expected.tolist())
off = (density - expected).abs().max().item()
"""

CONSTANT = """
eye, zero = torch.eye($size), torch.zeros($size)


def value(points):
    return log_prob(points.reshape(-1, $sizes)).reshape(-1)


with torch.no_grad():
    origin, ahead, behind = value(zero[None]), value(eye), value(-eye)
    both = torch.stack([value(eye + row) for row in eye])
# Second differences give the matrix of a quadratic form, and first ones its mode.
matrix = ahead[:, None] + ahead[None] - origin - both
slope = (ahead - behind) / 2
mode = torch.linalg.solve(matrix, slope)
highest = (origin + 0.5 * slope @ mode).item()
expected = (0.5 * torch.linalg.slogdet(matrix)[1]).item() - 0.5 * $size * math.log(2 * math.pi)
# The law: a normal density with the matrix L has log det(L) / 2 - d log(2 pi) / 2 at its mode.
print("log-density at its mode:           ", highest)
print("that of the normal distribution:", expected)
off = abs(highest - expected)
"""

BESIDE = """
torch.manual_seed(1)
with torch.no_grad():
    x, returned = sample_log_prob($rows)
    density = log_prob(x)
# The law: log-densities returned with samples are those of these samples.
print("with the samples:", returned.reshape(-1).tolist())
print("log p(x):        ", density.reshape(-1).tolist())
off = (returned.reshape(-1) - density.reshape(-1)).abs().max().item()
"""

SCORE = """
points = x.clone().requires_grad_(True)
gradient = torch.autograd.grad(log_prob(points).sum(), points)[0]
offered = score(x)
# The law: a score is the gradient of the log-density.
print("score:            ", offered.tolist())
print("gradient of log p:", gradient.tolist())
off = (offered - gradient).abs().max().item()
"""

MODES = """
$setup
flow.eval()
evaluated = $results
$train
trained = $results
# The law: if the map is the same in both modes, so is the density.
print("in eval mode: ", *(result.tolist() for result in evaluated))
print("in train mode:", *(result.tolist() for result in trained))
off = max((a - b).abs().max().item() for a, b in zip(evaluated, trained))
"""

TEMPLATES = {
    "same/train-mode[density]": (Template(MODES, which="log_prob"),),
    "density/change-of-variables": (Template(CHANGE),),
    "density/mass": (
        Template(MASS_1D, within=3, size=1),
        Template(MASS_2D, within=3, size=2),
    ),
    "density/score": (Template(SCORE),),
    "density/evidence-bound": (Template(BOUND, whole=True),),
    "sampling/follows-density[ratios]": (Template(SAMPLES),),
    "density/base-constant": (Template(NORMAL),),
    "density/base-constant[quadratic-form]": (Template(CONSTANT),),
    "density/change-of-variables[samples]": (Template(BESIDE, whole=True, within=1e3),),
}
