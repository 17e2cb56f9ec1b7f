"""Samples: their shapes and independence; and the mass of densities without samples."""

from __future__ import annotations

from flowref.scripting.template import Template

SHAPE = """
expected, wrong = tuple(x.shape[1:]), False
for n in (1, 2, 5):
    torch.manual_seed(1)
    try:
        drawn = sample(n)
        shapes = tuple(drawn.shape), tuple(log_prob(drawn).shape)
    except Exception as error:
        print("sample and log_prob, for n of", n, "raise", type(error).__name__, error)
        wrong = True
        continue
    # The law: n points in the shape of an event, and n numbers for them.
    print("n:", n, " shape of the samples:", shapes[0], " of their log-densities:", shapes[1])
    wrong |= shapes[0] != (n, *expected) or math.prod(shapes[1]) != n
"""

PRECISION = """
torch.manual_seed(1)
x = sample(2)
# The law: a float64 object samples float64.
print("dtype of the samples:", x.dtype)
wrong = x.dtype != torch.float64
"""

FINITE = """
torch.manual_seed(1)
drawn = sample(8000).detach().reshape(8000, $size)
lost = (~drawn.isfinite()).any(1)
# The law: samples are finite.
print("samples that are not finite:", lost.sum().item(), "of", len(drawn))
print("one of them:", drawn[lost][:1].tolist())
wrong = lost.sum().item() > 2
"""

DIFFERENT_ROWS = """
torch.manual_seed(1)
x = sample(512).detach().reshape(512, $size)
others = len(torch.unique(x, dim=0))
# The law: noise is drawn for each row, so no two rows are equal.
print("rows drawn:", len(x), " different ones:", others)
wrong = others < 0.95 * len(x)
"""

INDEPENDENT_ROWS = """
torch.manual_seed(1)
x = sample(2000).detach().reshape(2000, $size)
ranks = x.argsort(0).argsort(0).double()  # one monotone scale for all distributions
first, second = ranks[::2] - ranks.mean(0), ranks[1::2] - ranks.mean(0)
steps = first - second
pairs = {
    "within pairs": (first, second),
    "between the two halves": (steps[:500], steps[500:]),
    "between both ends": (steps[:500], -steps[500:].flip(0)),
}
strongest = 0.0
for name, (some, others) in pairs.items():
    found = torch.nn.functional.cosine_similarity(some, others, dim=0)
    print("correlation of rows", name, found.tolist())
    strongest = max(strongest, found.abs().max().item())
# The law: the rows of a sample are independent of each other.
wrong = strongest > 0.3
"""

OTHER_CALLS = """
torch.manual_seed(1)
first, second = sample(3), sample(3)
# The law: two calls draw different points.
print("first call: ", first.tolist())
print("second call:", second.tolist())
wrong = torch.equal(first, second)
"""

NUMBERS = """
wrong = False
for points in (x[:1], torch.cat([x, x]), x.repeat(7, *[1] * (x.dim() - 1))[:7]):
    density = log_prob(points)
    # The law: one number for each point.
    print(len(points), "points have log-densities of shape", tuple(density.shape))
    wrong |= tuple(density.shape) not in ((len(points),), (len(points), 1))
"""

MASS = """
torch.manual_seed(1)
mean, spread = torch.zeros($size), 3 * torch.eye($size)
for count in [4000] * 8 + [100000]:  # a Student proposal that adapts to the mass
    noise = torch.randn(count, $size) @ spread.T
    scale = (5 / torch.distributions.Chi2(5.0 * torch.ones(())).sample((count, 1))).sqrt()
    points = mean + scale * noise
    squares = torch.linalg.solve(spread, (points - mean).T).square().sum(0)
    constants = math.lgamma((5 + $size) / 2) - math.lgamma(2.5) - $size / 2 * math.log(5 * math.pi)
    log_q = constants - torch.linalg.slogdet(spread)[1] - (5 + $size) / 2 * (squares / 5).log1p()
    with torch.no_grad():
        log_w = log_prob(points.reshape(-1, $sizes)).reshape(-1) - log_q
    w = torch.softmax(log_w, 0)
    mean = w @ points
    centered = points - mean
    spread = torch.linalg.cholesky(1.5 * (w[:, None] * centered).T @ centered + 1e-9 * spread @ spread.T)
weights = log_w.exp()
mass, error = weights.mean().item(), (weights.std() / len(weights) ** 0.5).item()
# The law: the mean of p/q over points of q is the mass of p, and that is one.
print("mass:", mass, " standard error:", error)
wrong = mass - 1 > max(0.01, 7 * error)
"""

THROUGH = """
torch.manual_seed(1)
z = base_sample($rows)
torch.manual_seed(1)
drawn, made = sample($rows), $generating(z)[0]
# The law: samples are base samples mapped by the flow.
print("base samples, mapped:       ", made.tolist())
print("samples:                    ", drawn.tolist())
off = (drawn - made.reshape(drawn.shape)).abs().max().item()
"""

PILED_UP = """
torch.manual_seed(1)
with torch.no_grad():
    z = $normalizing(sample(8000))[0].reshape(8000, $size)
ends = z.max(0).values, z.min(0).values
most = max(((z - end).abs() <= 1e-9 * (1 + end.abs())).sum(0).max().item() for end in ends)
# The law: the latents of samples are distinct; no value is drawn twice.
print("largest latents: ", ends[0].tolist())
print("smallest latents:", ends[1].tolist())
print("latents at one end of their coordinate:", most)
wrong = most > 2
"""

TEMPLATES = {
    "sampling/follows-density[clamping]": (Template(PILED_UP),),
    "map/finite[samples]": (Template(FINITE),),
    "shape/one-number-per-point[samples]": (Template(SHAPE), Template(PRECISION)),
    "sampling/base-through-inverse": (Template(THROUGH, whole=True, within=1e3),),
    "random/rows-independent[duplicates]": (Template(DIFFERENT_ROWS),),
    "random/rows-independent": (Template(INDEPENDENT_ROWS),),
    "random/seeded[two-calls]": (Template(OTHER_CALLS),),
    "shape/one-number-per-point[log-prob]": (Template(NUMBERS, whole=True),),
    "density/mass[importance]": (Template(MASS),),
}
