"""Numbers by which the kernels know the losses; ``cpp/losses.hpp`` has the formulas."""

LOG_LOSS, HINGE, SQUARED_HINGE, MODIFIED_HUBER, PERCEPTRON = range(5)
SQUARED_ERROR, HUBER, EPSILON_INSENSITIVE, SQUARED_EPSILON_INSENSITIVE = range(5, 9)
QUANTILE, TWEEDIE = range(9, 11)
SOFTMAX = -1  # has one score per class, the others one score: they do not accept this number
DUAL_STEPS = frozenset({LOG_LOSS, HINGE, SQUARED_HINGE, SQUARED_ERROR})  # losses for SDCA
