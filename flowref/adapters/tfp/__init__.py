"""TensorFlow Probability on JAX: bijectors and distributions of its substrate."""
