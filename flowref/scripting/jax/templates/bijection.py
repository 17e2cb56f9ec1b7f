"""Bijections: round trips and log-determinants."""

from __future__ import annotations

from flowref.scripting.template import Template

ANY = 1e9  # residuals of exact laws are flags
# Jacobian at one point, in forward mode, which supports loops of unknown length.
JACOBIAN = "jax.jacfwd(lambda v: {}(v[None])[0][0])"
OF_FORWARD, OF_INVERSE = JACOBIAN.format("forward"), JACOBIAN.format("inverse")

LOG_DET = f"""
_, reported = forward(x)
jacobian = {OF_FORWARD}(x[0])
expected = jnp.linalg.slogdet(jacobian$square)[1]
# The law: the log-det that forward reports is log|det J| of forward.
print("reported log-det:         ", reported.sum())
print("log|det d output/d input|:", expected)
off = abs(float(reported.sum() - expected))
"""

LOG_DET_OF_BATCH = f"""
_, reported = forward(x)
jacobians = [{OF_FORWARD}(row) for row in x]
expected = jnp.stack([jnp.linalg.slogdet(one$square)[1] for one in jacobians])
# The law: each log-det that forward reports is log|det J| at its point.
print("reported log-dets:         ", reported)
print("log|det d output/d input|: ", expected)
off = float(abs(reported - expected).max())
"""

INVERSE_LOG_DET = f"""
z = $latents
_, reported = inverse(z)
jacobian = {OF_INVERSE}(z[0])
expected = jnp.linalg.slogdet(jacobian$square)[1]
# The law: the log-det that inverse reports is log|det J| of inverse.
print("reported log-det:         ", reported.sum())
print("log|det d output/d input|:", expected)
off = abs(float(reported.sum() - expected))
"""

ANTISYMMETRY = """
y, there = forward(x)
_, back = inverse(y)
# The law: the log-dets of the two directions cancel.
print("log-det of forward at x:   ", there.sum())
print("log-det of inverse at f(x):", back.sum())
off = abs(float(there.sum() + back.sum()))
"""

ROUND_TRIP = """
y, _ = forward(x)
back, _ = inverse(y)
# The law: inverse(f(x)) is x.
print("x:            ", x)
print("f(x):         ", y)
print("inverse(f(x)):", back)
off = float(abs(back - x).max())
"""

FORWARD_ROUND_TRIP = """
z = $latents
point, _ = inverse(z)
again, _ = forward(point)
# The law: f(inverse(z)) is z.
print("z:            ", z)
print("inverse(z):   ", point)
print("f(inverse(z)):", again)
off = float(abs(again - z).max())
"""

PRODUCT = f"""
y = forward(x)[0]
there = {OF_FORWARD}(x[0])$square
back = {OF_INVERSE}(y[0])$square
# The law: the derivatives of the two directions are inverse matrices.
print("derivative of inverse times that of forward:", back @ there)
off = float(abs(back @ there - jnp.eye($size)).max())
"""

SHAPE = """
y, log_det = forward(x)
# The law: one number per point, in the shape of the batch.
print("shape of x:", x.shape, " of the log-det:", log_det.shape, " expected: $ladj_shape")
wrong = log_det.shape != $ladj_shape
"""

INVERSE_SHAPE = """
z = forward(x)[0]
point, log_det = inverse(z)
# The law: one number per point, in the shape of the batch.
print("shape of z:", z.shape, " of the log-det:", log_det.shape, " expected: $ladj_shape")
wrong = log_det.shape != $ladj_shape
"""

BY_DIFFERENCES = """
_, reported = forward(x)
steps = 1e-4 * jnp.eye($size).reshape($size, 1, $sizes)
columns = [(forward(x + h)[0] - forward(x - h)[0]).reshape(-1) / 2e-4 for h in steps]
expected = jnp.linalg.slogdet(jnp.stack(columns, 1))[1]
# The law: the log-det that forward reports agrees with finite differences.
print("reported log-det:           ", reported.sum())
print("log|det| of its differences:", expected)
off = abs(float(reported.sum() - expected))
"""

INVERSE_BY_DIFFERENCES = """
z = $latents
_, reported = inverse(z)
steps = 1e-4 * jnp.eye($size).reshape($size, 1, $sizes)
columns = [(inverse(z + h)[0] - inverse(z - h)[0]).reshape(-1) / 2e-4 for h in steps]
expected = jnp.linalg.slogdet(jnp.stack(columns, 1))[1]
# The law: the log-det that inverse reports agrees with finite differences.
print("reported log-det:           ", reported.sum())
print("log|det| of its differences:", expected)
off = abs(float(reported.sum() - expected))
"""

NO_VOLUME = """
_, reported = forward(x)
# The law: a map that is promised to preserve volume has log-det 0.
print("reported log-det:", reported)
off = float(abs(reported).max())
"""

CONSTANT = """
_, reported = forward(jnp.concatenate([x, 2 * x + 1, jnp.zeros_like(x)]))
# The law: the log-det of a linear map is the same everywhere.
print("reported log-dets:", reported)
wrong = float(abs(reported - reported[:1]).max()) > 1e-9
"""

ORDER = """
ordered = jnp.sort(x, axis=0)
y, _ = forward(ordered)
# The law: an increasing map keeps the order of points.
print("x:   ", ordered)
print("f(x):", y)
off = float((y[:-1] - y[1:]).max())
"""

NUMBERS = """
y, log_det = forward(x)
# The law: value and log-det are finite if they are at neighboring points.
print("x:      ", x)
print("f(x):   ", y)
print("log-det:", log_det)
nearby = [forward(x + step) for step in (1e-6, -1e-6)]
print("nearby: ", nearby)
wrong = not (jnp.isfinite(y).all() and jnp.isfinite(log_det).all())
"""

FOLDED = f"""
points = jnp.concatenate([x, $ordinary, 3 * $ordinary, 10 * $ordinary])
dets = [float(jnp.linalg.det({OF_FORWARD}(point)$square)) for point in points]
# The law: the determinant of a bijection vanishes nowhere, and keeps its sign.
least, most = dets.index(min(dets)), dets.index(max(dets))
print("det J at", points[least], "is", dets[least])
print("det J at", points[most], "is", dets[most])
wrong = dets[least] < 0 < dets[most]
"""

NO_ZERO = f"""
_, log_det = forward(x)
jacobian = {OF_FORWARD}(x[0])$square
# The law: det J is zero if J has a row or a column of zeros.
print("Jacobian:        ", jacobian)
print("reported log-det:", log_det)
idle = min(abs(jacobian).max(0).min(), abs(jacobian).max(1).min())
wrong = idle == 0 and jnp.isfinite(log_det).all()
"""

SAME_IMAGE = """
other = $other
y, image = forward(x)[0], forward(other)[0]
# The law: different points have different images.
print("x: ", x, " f(x): ", y)
print("x':", other, " f(x'):", image)
wrong = (y == image).all() and not (x == other).all()
"""

INVERSE_GRADIENT = """
z = $point
total = lambda v: sum(one.sum() for one in jax.tree.leaves(inverse(v)))
gradient = jax.grad(total)(z)
# The law: if the inverse and its log-det are finite, so is their gradient.
print("z:         ", z)
print("inverse(z):", inverse(z))
print("gradient:  ", gradient)
wrong = bool(jnp.isfinite(total(z)) and not jnp.isfinite(gradient).all())
"""

TEMPLATES = {
    "gradient/finite[inverse]": (Template(INVERSE_GRADIENT, within=ANY),),
    "map/one-to-one[orientation]": (Template(FOLDED),),
    "map/singular-jacobian": (Template(NO_ZERO),),
    "map/one-to-one": (Template(SAME_IMAGE),),
    "map/log-det[differences]": (
        Template(BY_DIFFERENCES),
        Template(INVERSE_BY_DIFFERENCES),
    ),
    "map/promised-jacobian[volume]": (Template(NO_VOLUME),),
    "map/promised-jacobian[constant]": (Template(CONSTANT, whole=True),),
    "map/promised-jacobian[monotone]": (Template(ORDER, whole=True),),
    "map/finite": (Template(NUMBERS),),
    "map/log-det": (Template(LOG_DET), Template(LOG_DET_OF_BATCH, whole=True)),
    "map/log-det[inverse]": (Template(INVERSE_LOG_DET),),
    "map/log-det[antisymmetry]": (Template(ANTISYMMETRY),),
    "map/inverse": (Template(ROUND_TRIP), Template(ROUND_TRIP, whole=True)),
    "map/inverse[latents]": (
        Template(FORWARD_ROUND_TRIP),
        Template(FORWARD_ROUND_TRIP, whole=True),
    ),
    "map/inverse-jacobian": (Template(PRODUCT),),
    "shape/one-number-per-point[log-det]": (
        Template(SHAPE),
        Template(INVERSE_SHAPE),
        Template(SHAPE, whole=True),
    ),
}
