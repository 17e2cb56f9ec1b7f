"""The names of the flows that can be fitted; `families` builds them, and loads torch."""

REAL_NVP = "real-nvp"
# Trained by matching, not by their likelihood.
MATCHED = ("matching", "diffusion")
FLOWS = (
    *(REAL_NVP, "spline", "maf", "residual", "cnf", "augmented", "stochastic", "rad"),
    *MATCHED,
)
