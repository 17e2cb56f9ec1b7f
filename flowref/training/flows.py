"""The names of the flows that can be fitted; `families` builds them, and loads torch."""

REAL_NVP = "real-nvp"
FLOWS = (REAL_NVP, "spline", "maf", "residual", "cnf", "augmented", "stochastic", "rad")
