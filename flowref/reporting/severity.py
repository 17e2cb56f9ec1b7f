"""How grave a violation is: what it makes wrong, and by how many nats."""

from __future__ import annotations

from flowref.model import Size, Verdict, base_of, named_by

LIKELIHOOD, SAMPLES, VALUES = "wrong likelihood", "wrong samples", "wrong values"
GRADIENTS, STATE, PRECISION = "wrong gradients", "state", "precision"
INTERFACE = "interface"
# The gravest first.
KINDS = (LIKELIHOOD, SAMPLES, VALUES, GRADIENTS, STATE, PRECISION, INTERFACE)

# Globs of laws and what their violation makes wrong; the first that matches decides.
TABLE = (
    (PRECISION, "*dtype* conduct/float32-* conduct/cast-follows conduct/extremes bijection/far-log-det"),
    (PRECISION, "state/cast-and-back batch-norm/offset-stability preprocessing/logit-boundary"),
    (INTERFACE, "*-shape */declared-sign bijection/log-det-narrow bijection/log-det-wide bijection/batch-dimensions"),
    (STATE, "batch-norm/updates-without-gradients conduct/no-gradients-left"),
    (GRADIENTS, "*gradient* batch-norm/backward-closed-form batch-norm/bias-before-is-idle conduct/score"),
    (GRADIENTS, "batch-norm/weight-before-* conduct/double-backward sampling/rsample-grad conduct/rsample-carries"),
    (GRADIENTS, "conduct/*parameters* conduct/no-dead-start coupling/init-not-dead coupling/every-parameter-learns"),
    (GRADIENTS, "bijection/inverse-gradient-finite bijection/solved-inverse-gradient state/trains"),
    (GRADIENTS, "batch-norm/eval-still-trains"),
    (STATE, "state/* batch-norm/*keeps-statistics mode/eval-is-pure mode/first-* mode/kept mode/settled mode/protocol"),
    (STATE, "batch-norm/running-* batch-norm/average* batch-norm/*momentum* batch-norm/batch-counter"),
    (STATE, "batch-norm/statistics-follow batch-norm/plain-average"),
    (STATE, "batch-norm/without-tracking batch-norm/initial-values batch-norm/eval-* batch-norm/state-dict-keys"),
    (STATE, "conduct/deterministic conduct/cache-coherent conduct/earlier-* conduct/no-global-settings"),
    (STATE, "conduct/input-not-mutated conduct/saved-leaves conduct/same-tensor conduct/instances-share-nothing"),
    (STATE, "conduct/no-random-numbers conduct/key-decides"),
    (LIKELIHOOD, "*log-det* density/* contribution/* residual/* preprocessing/* mode/train-density composition/additive"),
    (LIKELIHOOD, "bijection/constant-jacobian bijection/honest-zero bijection/orientation bijection/volume-preserving"),
    (LIKELIHOOD, "continuous/* bijection/injective bijection/monotone bijection/no-gap coupling/conditioner-blind"),
    (LIKELIHOOD, "batch-norm/batch-jacobian"),
    (SAMPLES, "sampling/* *roundtrip *inverse* bijection/back-into-domain bijection/image-in-codomain conduct/samples-*"),
    (SAMPLES, "mode/train-way-back multi-scale/recombines bijection/closed-ends"),
    (VALUES, "batch-norm/* sample-norm/* mode/* coupling/* multi-scale/* squeeze/* composition/* bijection/finite"),
    (VALUES, "conduct/nan-containment conduct/batch-one"),
    (INTERFACE, "conduct/*"),
)  # fmt: skip


def kind(law: str) -> str:
    """What the violation of a law makes wrong, one of `KINDS`.

    >>> kind("bijection/log-det"), kind("state/reload-equals"), kind("mine/own-law")
    ('wrong likelihood', 'state', 'wrong values')
    """
    for name, globs in TABLE:
        if any(named_by(glob, base_of(law)) for glob in globs.split()):
            return name
    return VALUES


def magnitude(size: Size) -> str:
    """The size of an error in words.

    >>> magnitude(Size(0.364643, 0.51, 48, 3))
    '0.36 nats per point, 0.18 bits per dimension'
    """
    return f"{size.nats:.2g} nats per point, {size.bits_per_dim:.2g} bits per dimension"


def severity(verdict: Verdict) -> str:
    """What a violation makes wrong, and its size where it has one.

    >>> from flowref.model import Status
    >>> severity(Verdict("t", "bijection/log-det", Status.VIOLATED, size=Size(2.0, 3.0, 48, 2)))
    'wrong likelihood: 2 nats per point, 1.4 bits per dimension'
    """
    kinds = f"minor, {kind(verdict.law)}" if verdict.minor else kind(verdict.law)
    return f"{kinds}: {magnitude(verdict.size)}" if verdict.size else kinds
