"""The commands of ``antithetic``, one file each; see :mod:`antithetic.cli`."""
