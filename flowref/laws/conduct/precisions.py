"""Precision with 64-bit types on and off (JAX)."""

from __future__ import annotations

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.probes import absent, probes
from flowref.model import ADVICE, EXACT, GIVEN, Batch, Residual, Unsupported, law
from flowref.model.abilities import Narrowed


# Advice: a wider result is right, and a truncated one is all there is. Log-dets and densities are
# exempt: a sum may be wider than its terms.
@law(
    "dtype/follows[float32]",
    key="conduct/float32-kept",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=3,
    scales=GIVEN,
    local=False,
    source="jax.enable_x64, type promotion: numbers of Python are weak and follow an array, those of numpy "
    "and jnp.zeros without a dtype are not; without 64-bit types a float64 that is asked for is truncated, "
    "with a warning",
)
def float32_kept(flow: Narrowed, batch: Batch) -> Residual:
    """A float32 object maps float32 points to float32 points with 64-bit types on, and requests no
    64-bit number with them off.
    """
    seen: list[str] = []
    refusals: list[str] = []
    probed = probes(flow, batch, complete=False, calls=("forward", "inverse"))
    for probe in probed:
        context = probe.inputs[1] if len(probe.inputs) > 1 else None
        on, error = attempt(flow.single, probe.name, probe.points, context, True)
        off, refusal = attempt(flow.single, probe.name, probe.points, context, False)
        if refusal:
            refusals.append(refusal)
            continue
        if off[1]:
            seen.append(f"{probe.name} requests a 64-bit type where these are off: {off[1]}")
        if error:
            seen.append(f"{probe.name} refuses float32 points where 64-bit types are on: {error}")
        elif on[0][0] == "float64":
            seen.append(
                f"{probe.name} gives float64 for float32 points where 64-bit types are on, as by a number "
                "of numpy"
            )
    if len(refusals) == len(probed):
        raise Unsupported(f"it does not run in float32 ({refusals[0]})")
    return absent(seen, len(batch.x), "{}")
