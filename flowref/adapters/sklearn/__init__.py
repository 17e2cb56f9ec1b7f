"""The adapter of scikit-learn."""
