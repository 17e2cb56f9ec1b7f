"""Continuous flows: solvers and trace estimates."""
