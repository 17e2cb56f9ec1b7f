"""The names of the flows that can be fitted. `families` builds them, which imports torch."""

REAL_NVP = "real-nvp"
# Trained by a matching loss, not by likelihood.
MATCHED = ("matching", "diffusion")
FLOWS = (
    *(REAL_NVP, "spline", "maf", "residual", "cnf", "augmented", "stochastic", "rad"),
    *MATCHED,
)
