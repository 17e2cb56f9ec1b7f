"""The whole way on mutants of every kind of law, nothing switched off: caught, shrunk, recorded and
replayed.
"""

from __future__ import annotations

import numpy as np
import pytest

from flowref import loading, registry
from flowref.checking import Settings, pair_verdict, remeasure
from flowref.model import ADVICE, Status

QUICK = Settings("quick")
# One of each tolerance and force, with and without a second oracle, parts, kinks and joint batches.
MUTANTS = (
    "batch-norm/statistics[buffers]#start-forgotten",
    "map/inverse[latents]#forward-scaled",
    "map/one-to-one#folded",
    "map/log-det#log-det-relative",
    "map/promised-jacobian[monotone]#not-monotone",
    "composition/parts#overwritten-not-accumulated",
    "shape/any-batch[one-row]#batch-axis-squeezed",
    "same/manner[strides]#reads-raw-storage",
    "coupling/pattern[conditioner]#conditioner-sees-all",
    "density/base-constant[quadratic-form]#density-off",
    "sampling/follows-density[ratios]#samples-too-narrow",
    "dequantize/fills-the-level[bound]#midpoint",
    "sampling/quantiles[exponential]#canceled",
    "same/copied[after-training]#cached-tensor-refuses-a-copy",
    "same/copied#pickled-incompletely",
)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught_shrunk_and_replayed(mutant: str) -> None:
    """The law of a mutant is violated, on one point where one shows it; and what was recorded is
    violated again, by the same residual to the last bit, in a subject that is loaded anew.
    """
    law = registry.find_law(mutant.partition("#")[0])
    host = registry.find_mutant(mutant).host
    target = registry.parse_target(host).with_options(mutant=mutant)
    verdict = pair_verdict(target, law, QUICK)
    assert verdict.status is (Status.ADVICE if law.force == ADVICE else Status.VIOLATED)
    assert verdict.counterexample is not None
    assert verdict.evidence is not None
    loading.forget()
    again = remeasure(target, law, verdict.counterexample, QUICK)
    assert again.status is verdict.status
    assert again.evidence is not None
    np.testing.assert_array_equal(again.evidence.residual, verdict.evidence.residual)
    assert again.counterexample == verdict.counterexample
