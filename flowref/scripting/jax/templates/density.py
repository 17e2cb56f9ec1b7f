"""Densities: the change of variables, total mass, and samples."""

from __future__ import annotations

from flowref.scripting.template import Template

CHANGE = """
data = $data
z, log_det = $normalizing(data)
density, base = log_prob(data), base_log_prob(z)
# The law: log p(x) = log p_Z(f(x)) + log-det.
print("log p(x):          ", density)
print("base plus log-det: ", base + log_det)
off = float(abs(density - base - log_det).max())
"""

MASS_1D = """
grid = jnp.linspace($from, $to, 200001)
density = jnp.exp(log_prob(((grid[1:] + grid[:-1]) / 2).reshape$shape)).reshape(-1)
mass = float((jnp.nan_to_num(density) * (grid[1] - grid[0])).sum())
# The law: a density integrates to one.
print("integral of the density from $from to $to:", mass)
off = abs(mass - 1)
"""

MASS_2D = """
edges = jnp.linspace($from, $to, 1001)
middle = (edges[1:] + edges[:-1]) / 2
points = jnp.stack(jnp.meshgrid(middle, middle), -1).reshape$shape
density = jnp.exp(log_prob(points)).reshape(-1)
mass = float((jnp.nan_to_num(density) * (edges[1] - edges[0]) ** 2).sum())
# The law: a density integrates to one.
print("integral of the density over [$from, $to]^2:", mass)
off = abs(mass - 1)
"""

SAMPLES = """
x = sample(200000, jax.random.key(1))
log_p = log_prob(x).reshape(-1)
x = x.reshape(-1, $size)
middle, spread = jnp.median(x, 0), 0.6 * x.std(0)
scores = []
for shift in jnp.concatenate([jnp.zeros((1, $size)), jnp.eye($size), -jnp.eye($size)]):
    w = (x - middle - shift * x.std(0)) / spread
    box = (abs(w) < 1).all(1)  # r is uniform on a box: its density is 1 / (2 spread)^d
    ratio = box * jnp.exp(-log_p - jnp.log(2 * spread).sum())
    scores.append(float((ratio.mean() - 1) / (ratio.std() / len(x) ** 0.5)))
    print(f"mean of r/p: {ratio.mean():.4f}, {scores[-1]:+.1f} standard errors from 1")
# The law: samples follow the density, so the mean of r/p is 1 for every density r.
wrong = max(map(abs, scores)) > 6
"""

NORMAL = """
z = $latents
density = base_log_prob(z)
expected = -0.5 * (z.reshape(len(z), -1) ** 2).sum(1) - 0.5 * $size * math.log(2 * math.pi)
# The law: a standard normal base has this constant.
print("base log-density:", density)
print("expected:        ", expected)
off = float(abs(density - expected).max())
"""

SCORE = """
gradient = jax.grad(lambda points: log_prob(points).sum())(x)
offered = score(x)
# The law: a score is the gradient of the log-density.
print("score:            ", offered)
print("gradient of log p:", gradient)
off = float(abs(offered - gradient).max())
"""

SHAPE = """
expected, wrong = x.shape[1:], False
for n in (1, 2, 5):
    try:
        drawn = sample(n, jax.random.key(1))
        shapes = drawn.shape, log_prob(drawn).shape
    except Exception as error:
        print("sample and log_prob, for n of", n, "raise", type(error).__name__, error)
        wrong = True
        continue
    # The law: n points in the shape of an event, and n numbers for them.
    print("n:", n, " shape of the samples:", shapes[0], " of their log-densities:", shapes[1])
    wrong |= shapes[0] != (n, *expected) or math.prod(shapes[1]) != n
"""

DIFFERENT_ROWS = """
x = sample(512, jax.random.key(1)).reshape(512, $size)
others = len(jnp.unique(x, axis=0))
# The law: noise is drawn for each row, so no two rows are equal.
print("rows drawn:", len(x), " different ones:", others)
wrong = others < 0.95 * len(x)
"""

TEMPLATES = {
    "density/change-of-variables": (Template(CHANGE),),
    "density/mass": (
        Template(MASS_1D, within=3, size=1),
        Template(MASS_2D, within=3, size=2),
    ),
    "density/score": (Template(SCORE),),
    "sampling/follows-density[ratios]": (Template(SAMPLES),),
    "density/base-constant": (Template(NORMAL),),
    "shape/one-number-per-point[samples]": (Template(SHAPE),),
    "random/rows-independent[duplicates]": (Template(DIFFERENT_ROWS),),
}
