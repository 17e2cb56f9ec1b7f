"""The power of the laws: planted defects that are caught, their smallest detectable size, and the
rate of false alarms.
"""
