"""Training the reference flows: data sets, runs on disk that can be resumed, plots, and an audit
at the end.
"""
