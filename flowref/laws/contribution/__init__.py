"""Stochastic transforms (SurVAE): layers that may draw random numbers, and their likelihood
contribution V.
"""
