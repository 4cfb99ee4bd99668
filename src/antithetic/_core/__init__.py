"""The compiled kernels, and the numbers by which they know losses and schedules."""
