"""What `reports/tools/likelihoods.py` runs."""

from likelihoods_page import moons

EXPERIMENTS = (moons.EXPERIMENT,)
