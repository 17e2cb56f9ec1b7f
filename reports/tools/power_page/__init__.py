"""The parts of the page about what the laws see."""
