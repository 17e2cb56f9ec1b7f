"""Bijections: round trips and log-determinants."""

from __future__ import annotations

from flowref.scripting.template import Template

JACOBIAN = "torch.autograd.functional.jacobian"

LOG_DET = f"""
_, reported = forward(x)
jacobian = {JACOBIAN}(lambda v: forward(v[None])[0][0], x[0])
expected = torch.linalg.slogdet(jacobian$square).logabsdet
# The law: the log-det that forward reports is log|det J| of forward.
print("reported log-det:         ", reported$ladj)
print("log|det d output/d input|:", expected.item())
off = abs(reported$ladj - expected.item())
"""

LOG_DET_OF_BATCH = f"""
_, reported = forward(x)
jacobians = [{JACOBIAN}(lambda v: forward(v[None])[0][0], row) for row in x]
expected = torch.stack([torch.linalg.slogdet(one$square).logabsdet for one in jacobians])
# The law: each log-det that forward reports is log|det J| at its point.
print("reported log-dets:         ", reported.tolist())
print("log|det d output/d input|: ", expected.tolist())
off = (reported - expected).abs().max().item()
"""

INVERSE_LOG_DET = f"""
z = $latents
_, reported = inverse(z)
jacobian = {JACOBIAN}(lambda v: inverse(v[None])[0][0], z[0])
expected = torch.linalg.slogdet(jacobian$square).logabsdet
# The law: the log-det that inverse reports is log|det J| of inverse.
print("reported log-det:         ", reported$ladj)
print("log|det d output/d input|:", expected.item())
off = abs(reported$ladj - expected.item())
"""

ANTISYMMETRY = """
y, there = forward(x)
_, back = inverse(y.detach())
# The law: the log-dets of the two directions cancel.
print("log-det of forward at x:   ", there$ladj)
print("log-det of inverse at f(x):", back$ladj)
off = abs(there$ladj + back$ladj)
"""

ROUND_TRIP = """
y, _ = forward(x)
back, _ = inverse(y.detach())
# The law: inverse(f(x)) is x.
print("f(x):         ", y.tolist())
print("inverse(f(x)):", back.tolist())
off = (back - x).abs().max().item()
"""

FORWARD_ROUND_TRIP = """
z = $latents
x, _ = inverse(z)
again, _ = forward(x.detach())
# The law: f(inverse(z)) is z.
print("inverse(z):   ", x.tolist())
print("f(inverse(z)):", again.tolist())
off = (again - z).abs().max().item()
"""

PRODUCT = f"""
y = forward(x)[0].detach()
there = {JACOBIAN}(lambda v: forward(v[None])[0][0], x[0])$square
back = {JACOBIAN}(lambda v: inverse(v[None])[0][0], y[0])$square
# The law: the derivatives of the two directions are inverse matrices.
print("derivative of inverse times that of forward:", (back @ there).tolist())
off = (back @ there - torch.eye($size)).abs().max().item()
"""

SHAPE = """
y, log_det = forward(x)
# The law: one number per point, in the shape of the batch.
print("shape of x:", tuple(x.shape), " of the log-det:", tuple(log_det.shape), " expected: $ladj_shape")
wrong = tuple(log_det.shape) != $ladj_shape
"""

INVERSE_SHAPE = """
z = forward(x)[0].detach().clone()
x, log_det = inverse(z)
# The law: one number per point, in the shape of the batch.
print("shape of z:", tuple(z.shape), " of the log-det:", tuple(log_det.shape), " expected: $ladj_shape")
wrong = tuple(log_det.shape) != $ladj_shape
"""

BATCHES = """
flat, deep = forward(x), forward(x[None])
# The law: an extra batch dimension does not change the results.
print("shape", tuple(x.shape), "is mapped to", tuple(flat[0].shape))
print("shape", tuple(x[None].shape), "is mapped to", tuple(deep[0].shape))
off = max((a - b[0]).abs().max().item() for a, b in zip(flat, deep))
"""

BY_DIFFERENCES = """
_, reported = forward(x)
steps = 1e-4 * torch.eye($size).reshape($size, 1, $sizes)
with torch.no_grad():
    columns = [(forward(x + h)[0] - forward(x - h)[0]).reshape(-1) / 2e-4 for h in steps]
expected = torch.linalg.slogdet(torch.stack(columns, 1)).logabsdet
# The law: the log-det that forward reports agrees with finite differences.
print("reported log-det:          ", reported$ladj)
print("log|det| of its differences:", expected.item())
off = abs(reported$ladj - expected.item())
"""

INVERSE_BY_DIFFERENCES = """
z = $latents
_, reported = inverse(z)
steps = 1e-4 * torch.eye($size).reshape($size, 1, $sizes)
with torch.no_grad():
    columns = [(inverse(z + h)[0] - inverse(z - h)[0]).reshape(-1) / 2e-4 for h in steps]
expected = torch.linalg.slogdet(torch.stack(columns, 1)).logabsdet
# The law: the log-det that inverse reports agrees with finite differences.
print("reported log-det:          ", reported$ladj)
print("log|det| of its differences:", expected.item())
off = abs(reported$ladj - expected.item())
"""

ESTIMATES = f"""
torch.manual_seed(1)
with torch.no_grad():
    estimates = torch.stack([$which($at)[1].reshape(-1) for _ in range(400)])
jacobian = {JACOBIAN}(lambda v: $which(v[None])[0][0], $at[0])$square
expected = torch.linalg.slogdet(jacobian).logabsdet.item()
mean, error = estimates.mean().item(), estimates.std().item() / len(estimates) ** 0.5
# The law: the mean of the estimates is log|det d output/d input|, to within a half.
print("mean of the estimates:   ", mean, " standard error:", error)
print("log|det d output/d input|:", expected)
wrong = abs(mean - expected) > 0.5 * abs(expected) + 8 * error
"""

NO_VOLUME = """
_, reported = forward(x)
# The law: a map that is promised to preserve volume has log-det 0.
print("reported log-det:", reported$ladj)
off = abs(reported$ladj)
"""

CONSTANT = """
_, reported = forward(torch.cat([x, 2 * x + 1, torch.zeros_like(x)]))
# The law: the log-det of a linear map is the same everywhere.
print("reported log-dets:", reported.tolist())
wrong = (reported - reported[:1]).abs().max().item() > 1e-9
"""

ORDER = """
ordered = x.sort(0).values
y, _ = forward(ordered)
# The law: an increasing map keeps the order of points.
print("x:   ", ordered.tolist())
print("f(x):", y.tolist())
off = (y[:-1] - y[1:]).max().item()
"""

NUMBERS = """
y, log_det = forward(x)
# The law: value and log-det are finite if they are at neighboring points.
print("x:      ", x.tolist())
print("f(x):   ", y.tolist())
print("log-det:", log_det.tolist())
nearby = [forward(x + step) for step in (1e-6, -1e-6)]
print("nearby: ", [(value.tolist(), ladj.tolist()) for value, ladj in nearby])
wrong = not (y.isfinite().all() and log_det.isfinite().all())
"""

FOLDED = f"""
points = torch.cat([x, $ordinary, 3 * $ordinary, 10 * $ordinary])
dets = [
    torch.linalg.det({JACOBIAN}(lambda v: forward(v[None])[0][0], point)$square).item()
    for point in points
]
# The law: the determinant of a bijection vanishes nowhere, and keeps its sign.
least, most = min(range(len(dets)), key=dets.__getitem__), max(range(len(dets)), key=dets.__getitem__)
print("det J at", points[least].tolist(), "is", dets[least])
print("det J at", points[most].tolist(), "is", dets[most])
wrong = dets[least] < 0 < dets[most]
"""

NO_ZERO = f"""
_, log_det = forward(x)
jacobian = {JACOBIAN}(lambda v: forward(v[None])[0][0], x[0])$square
# The law: det J is zero if J has a row or a column of zeros.
print("Jacobian:        ", jacobian.tolist())
print("reported log-det:", log_det$ladj)
idle = min(jacobian.abs().amax(0).min().item(), jacobian.abs().amax(1).min().item())
wrong = idle == 0 and log_det.isfinite().all().item()
"""

SAME_IMAGE = """
other = $other
y, image = forward(x)[0], forward(other)[0]
# The law: different points have different images.
print("x: ", x.tolist(), " f(x): ", y.tolist())
print("x':", other.tolist(), " f(x'):", image.tolist())
wrong = torch.equal(y, image) and not torch.equal(x, other)
"""

TEMPLATES = {
    "map/one-to-one[orientation]": (Template(FOLDED),),
    "map/singular-jacobian": (Template(NO_ZERO),),
    "map/one-to-one": (Template(SAME_IMAGE),),
    "map/log-det[differences]": (
        Template(BY_DIFFERENCES),
        Template(INVERSE_BY_DIFFERENCES),
    ),
    "map/log-det[estimate]": (Template(ESTIMATES, which="forward"),),
    "map/log-det[inverse, estimate]": (
        Template("$setup\n" + ESTIMATES.strip("\n"), which="inverse"),
    ),
    "map/promised-jacobian[volume]": (Template(NO_VOLUME),),
    "map/promised-jacobian[constant]": (Template(CONSTANT, whole=True),),
    "map/promised-jacobian[monotone]": (Template(ORDER, whole=True),),
    "map/finite": (Template(NUMBERS),),
    "shape/any-batch[batch-axes]": (Template(BATCHES),),
    "map/log-det": (Template(LOG_DET), Template(LOG_DET_OF_BATCH, whole=True)),
    "map/log-det[inverse]": (Template(INVERSE_LOG_DET),),
    "map/log-det[antisymmetry]": (Template(ANTISYMMETRY),),
    "map/inverse": (Template(ROUND_TRIP), Template(ROUND_TRIP, whole=True)),
    "map/inverse[latents]": (
        Template(FORWARD_ROUND_TRIP),
        Template(FORWARD_ROUND_TRIP, whole=True),
    ),
    "map/inverse-jacobian": (Template(PRODUCT),),
    "shape/one-number-per-point[one-feature]": (
        Template(SHAPE, whole=True),
        Template(INVERSE_SHAPE, whole=True),
    ),
    "map/finite[wide]": (Template(SHAPE, whole=True), Template(INVERSE_SHAPE, whole=True)),
    "shape/one-number-per-point[log-det]": (
        Template(SHAPE),
        Template(INVERSE_SHAPE),
        Template(SHAPE, whole=True),
    ),
}
