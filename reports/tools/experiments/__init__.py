"""Experiments: trainings that go on where they were, their numbers as JSON, and a page of them."""
