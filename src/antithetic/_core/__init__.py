"""Compiled kernels, and the scalar functions that they are made of."""
