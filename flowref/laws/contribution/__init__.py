"""Laws of kernels: maps that may draw, and what they contribute to a log-likelihood."""
