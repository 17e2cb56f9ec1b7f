"""TensorFlow Probability on JAX: bijectors and distributions."""
