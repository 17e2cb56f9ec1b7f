"""What other programs read of a report, one module a format: each is a function from a report to
text.
"""
