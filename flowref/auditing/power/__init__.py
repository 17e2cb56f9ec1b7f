"""How much the laws see: what is planted and caught, how small it may be, and how rarely correct code
is accused.
"""
