"""NumPyro: transforms as those of torch.distributions, and distributions."""
