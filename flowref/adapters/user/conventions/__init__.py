"""Calling conventions of user code: which methods and arguments go which way, where the log-det is, and in
what form values are returned.

A convention is recognized by names, signatures, and by what calls of a copy return (types, shapes, whether
an argument is returned unchanged); never by a residual, and never by what would satisfy a law.
"""
