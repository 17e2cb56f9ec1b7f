"""How user code spells a flow: which methods and arguments go which way, where the log-det is, and
in what form values come back.

A convention is recognized by names, signatures, and by what calls on a copy return (types, shapes,
whether an argument comes back untouched); never by a residual, and never by what would satisfy a
law.
"""
