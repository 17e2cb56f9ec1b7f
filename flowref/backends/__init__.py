"""The frameworks: noise, jacobians, state and modes of one framework each."""
