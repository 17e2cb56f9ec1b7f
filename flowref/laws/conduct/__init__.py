"""API behaviour: what every call guarantees in every mode and state."""
