"""Training the reference flows: data sets, runs on disk that survive being killed, pictures, and a
verdict at the end.
"""
