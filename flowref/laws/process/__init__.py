"""Laws of processes that take data to noise: of tokens, and by stochastic differential equations."""
