"""What is drawn and weighed forward is trained as what it is: no sample is cut off from what drew it."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.held_noise import slopes_of
from flowref.laws.common.requirements import has_parameters, in_double, true_gradients
from flowref.laws.conduct.parameter_gradients import LARGEST
from flowref.laws.conduct.state import not_fixed
from flowref.laws.contribution.calls import contribution, measurable
from flowref.laws.contribution.gradient import PushingParametric
from flowref.laws.contribution.places import whole
from flowref.model import BOUND, Batch, Residual, Undecidable, law, requires
from flowref.model.abilities import Flow


@requires("its forward draws nothing, or its inverse draws, too")
def adds_what_it_draws(flow: Flow) -> bool:
    """Steps of a Markov chain are often not differentiated, on purpose; what is exact is held to more."""
    return flow.facts.kernel is not None and flow.facts.kernel.draws == (True, False)


@law(
    "contribution/sample-gradient",
    tolerance=BOUND,
    local=False,
    scales=(0.0, 0.3),
    effort=1,
    size=16,
    applies=adds_what_it_draws & in_double & true_gradients & has_parameters & not_fixed,
    source="Kingma and Welling (arXiv:1312.6114), section 2.4: noise is held and its transform differentiated; "
    "Roeder et al. (arXiv:1703.09194): the score of what draws may be left out, being zero on average",
)
def sample_gradient(flow: PushingParametric, batch: Batch) -> Residual:
    """Of a layer that adds what it draws, autograd's derivative of the contribution with respect to the
    parameters is on average that of the contribution with its noise held.

    Measured along one direction of the space of all parameters, at a few points with much noise each.
    Whole latents are not judged: what draws them may have gradients that are none of its value, on purpose.
    """
    batch, usable = measurable(flow, batch, LARGEST)
    rows = len(batch.x)
    z = np.asarray(flow.push(batch.x, batch.seed, batch.context).value, dtype=np.float64)
    if any(whole(entry) for entry in z.reshape(rows, -1).T):
        raise Undecidable("it draws whole numbers, through which gradients may pass on purpose")
    found = slopes_of(flow, "push", batch, contribution)
    return Residual(
        found.placed(found.gaps, rows),
        allowed=1 + found.placed(found.allowed - 1, rows),
        decidable=usable & (found.placed(np.ones(len(found.chosen)), rows) > 0),
        trivial=found.placed(found.size, rows) == 0,
        observed={
            "autograd": found.placed(found.recorded, rows),
            "differences": found.placed(found.measured, rows),
            "standard error": found.placed(found.error, rows),
        },
        note="autograd's derivative of the contribution in the parameters is on average not that with the noise "
        "held: a sample is cut off from what it was drawn by",
    )
