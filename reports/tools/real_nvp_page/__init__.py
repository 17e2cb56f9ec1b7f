"""What `reports/tools/real_nvp.py` runs: one module for each experiment, and what they share."""

from real_nvp_page import (
    ablations,
    families,
    filament,
    four_shapes,
    handful,
    moons_and_checkerboard,
    remedies,
)

EXPERIMENTS = (
    moons_and_checkerboard.EXPERIMENT,
    four_shapes.EXPERIMENT,
    ablations.EXPERIMENT,
    handful.EXPERIMENT,
    filament.EXPERIMENT,
    remedies.EXPERIMENT,
    families.EXPERIMENT,
)
