"""scikit-learn estimators, and the files that they are saved in."""

# scikit-learn imports this too, but deep inside other imports. There it takes longer: in Python
# 3.11 and 3.12, calls at some depths of the stack map and unmap memory (CPython issue 142183).
import scipy.stats  # noqa: F401
