"""Known failures: reading and writing their files, matching them with an audit, and judging how each
stands.
"""
