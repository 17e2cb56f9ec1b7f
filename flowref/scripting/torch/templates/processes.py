"""Noise processes: matrices, moments, schedules, conversions, preconditioning and priors."""

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
$slope
given = $given
found, expected = $found, $wanted
# The law: what was mixed is found again.
print("$method:", found[0].flatten().tolist())
print("expected:", expected[0].flatten().tolist())
off = (found - expected).abs().max().item()
"""

VELOCITY = """
at, h = $at, 5e-4 * $final
torch.manual_seed(1)
data, noise = torch.rand($shape) - 0.5, torch.randn($shape)


def mixture(at, data, noise):
    return $mixed


mixed, share = mixture(at, data, noise), $share
alpha = mixture(at, 0 * data + 1, 0 * noise) - mixture(at, 0 * data, 0 * noise)
given = $given
noise_of_score = -share * given
data_of_score = data + (noise - noise_of_score) * share / alpha  # they have the same mixture
moved = [mixture(at + step, data_of_score, noise_of_score) for step in (h, -h)]
found, expected = $found, (moved[0] - moved[1]) / (2 * h)
# The law: the velocity that a score makes is that of the mixture, up to its direction.
print("$method:", found[0].flatten().tolist())
print("expected:", expected[0].flatten().tolist())
wrong = min((found - one).abs().max().item() for one in (expected, -expected)) > 1e-3
"""

PRODUCTS = """
every, one = torch.as_tensor(flow.$every).double(), torch.as_tensor(flow.$single).double()
before, step, after = every[:-1], $step, every[1:]
apart = [(after - product).abs().amax((1, 2)) for product in (before @ step, step @ before)]
apart = min(apart, key=lambda one: one.max())
# The law: the matrices of all steps so far are products of those of single steps.
at = apart.argmax().item()
print(f"$every[{at + 1}] differs by {apart[at].item():.4g} from the product with the one before")
off = apart.max().item()
"""

KOLMOGOROV = """
times, h = $times, 1e-4 * $final


def transitions(t):
    return $evolving


def rates(t):
    return $speed


P, Q = transitions(times), rates(times)
slope = (transitions(times + h) - transitions(times - h)) / (2 * h)
apart = [(slope - one).abs().max().item() for one in (P @ Q, Q @ P)]
# The law: transition matrices change by their rates, P' = P Q (Q P, if columns sum to one).
print("P' differs from P Q by", apart[0], "and from Q P by", apart[1])
wrong = min(apart) > 1e-3 * (1 + slope.abs().max().item())
"""

DERIVATIVE = """
t, h = $times, 1e-4 * $final
torch.manual_seed(1)
first, second = torch.randn(2, len(t), 1)


def function(t):
    return $function


def derivative(t):
    return $derivative


slope = (function(t + h) - function(t - h)) / (2 * h)
# The law: $is is the derivative of $of in time.
print("$is:", derivative(t).flatten().tolist())
print("differences of $of:", slope.flatten().tolist())
wrong = ((derivative(t) - slope).abs() / (1 + slope.abs())).max().item() > 1e-4
"""

EQUAL = """
t = $times
$lines
found = $found
apart = [((found - one).abs() / (1 + abs(one))).max().item() for one in ($expected,)]
# The law: functions of time are those of one process ($said).
print("$found:", found.tolist())
for usage, gap in zip("$expected".split(", "), apart):
    print("differs from", usage, "by", gap)
wrong = min(apart) > 1e-3
"""

SCALINGS = """
sigma = torch.linspace($spread, $most, 8)
c_skip, c_out, c_in = $scales
total = sigma**2 + $spread**2
expected = [$spread**2 / total, sigma * $spread / total.sqrt(), 1 / total.sqrt()]
# The law: inputs and targets of the network have unit variance, up to 2 %.
shares = [(a.abs() / b).tolist() for a, b in zip((c_skip, c_out, c_in), expected)]
for name, share in zip(("c_skip", "c_out", "c_in"), shares):
    print(name, "in units of what it should be:", share)
wrong = max(abs(one - 1) for share in shares for one in share) > 0.02
"""

WEIGHT = """
sigma = torch.linspace($spread, $most, 8)
c_skip, c_out, c_in = $scales
uniform = $weight * c_out**2
# The law: the weight of the loss is 1 / c_out^2, up to a factor.
print("weight * c_out^2:", uniform.tolist())
wrong = (uniform.max() / uniform.min()).item() > 1.02
"""

PRIOR = """
torch.manual_seed(1)
z = $draws
mean, spread = z.mean(0), z.std(0)
expected = torch.distributions.Normal(mean, spread).log_prob(z).flatten(1).sum(1)
found = $density(z)
# The law: the log-density of a prior is that of its draws.
print("deviation of the draws:", spread.mean().item())
print("log-density, and that of normal draws:", found[0].item(), expected[0].item())
wrong = (found - expected).mean().abs().item() > 0.01
"""

NARROW = """
torch.manual_seed(1)
spread = ($draws).std().item()
$last
deviation = torch.as_tensor($deviation).max().item()
# The law: a prior is not narrower than the noise at the end.
print("deviation of the prior:", spread)
print("deviation of the noise at the end:", deviation)
wrong = spread < deviation / 2
"""

TEMPLATES = {
    "process/kolmogorov": (
        Template(PRODUCTS, whole=True, when="product"),
        Template(KOLMOGOROV, whole=True, when="random vectors"),
    ),
    "process/schedule[functions]": (
        Template(DERIVATIVE, whole=True, when="velocity is|derivative is"),
        Template(EQUAL, whole=True, when="^(?!the velocity|a derivative)"),
    ),
    "process/preconditioning": (Template(SCALINGS, whole=True),),
    "process/preconditioning[weight]": (Template(WEIGHT, whole=True),),
    "process/prior": (
        Template(NARROW, whole=True, when="noise at the end"),
        Template(PRIOR, whole=True, when="log-density"),
    ),
    "process/rates": (Template(RATES, whole=True),),
    "process/transitions": (Template(TRANSITIONS, whole=True),),
    "process/moments": (Template(MOMENTS, whole=True),),
    "process/schedule": (Template(SCHEDULE, whole=True),),
    "process/conversions": (
        Template(VELOCITY, whole=True, when="velocity from the score"),
        Template(CONVERSIONS, whole=True, within=100.0),
    ),
}
