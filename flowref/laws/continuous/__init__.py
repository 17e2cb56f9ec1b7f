"""Laws of continuous flows: solvers and estimates of their traces."""
