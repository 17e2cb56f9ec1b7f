"""NumPyro: transforms like those of torch.distributions, and distributions."""
