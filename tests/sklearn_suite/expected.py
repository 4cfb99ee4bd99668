"""Which of scikit-learn's tests fail with our estimators in place of its own, and why.

A name without parameters stands for all cases of a test. With other versions than this they may
pass.
"""

from __future__ import annotations

VERSION = "1.9."

PRIVATE = (
    "looks for scikit-learn's private attributes (_standard_coef and the like), which are no part"
    " of its interface"
)
CALLBACK = "patches scikit-learn's private _ValidationScoreCallback, which our classes do not use"
DECAY = (
    "compares with a recursion in which sparse rows move the intercept by 0.01 of the step; our"
    " fits do not depend on how rows are stored"
)
PROBABILITIES = (
    "asks of sparse rows that the least of three scores has the least probability, when two are"
    " clipped to 0. That holds for scikit-learn's sparse fit, whose intercept hardly moves, but not"
    " for its dense fit of the same rows, and so not for ours"
)
LUCK = (
    "puts its point (0.2, -1) on the decision boundary of the optimum, whose weights are (-1,"
    " -0.2): the sign is that of the order of the last rows. Of the seeds 0 to 59, scikit-learn's"
    " own class fails with 30"
)
KINK = (
    "compares two runs to 0.015 in the weights; with the suite's seed one of them is 0.017 off: a"
    " hinge loss has kinks, where steps may stay; its objective is 0.4 % above the minimum"
)
SHARE = (
    "asks for an F1 above 0.96: ours has 0.93 to 0.96 within an estimated 1 % of the minimum,"
    " scikit-learn's own class 0.93 to 0.97, depending on seed and settings"
)
ONE_ROW = (
    "compares to 14 or 16 digits with a recursion that takes one row a step; our default is two,"
    " and batch_size=1 passes"
)
CORNER = (
    "wants exact zeros after 2000 passes over 8 rows in one fixed order. There 'auto' lets its"
    " steps fall too fast (decay 0.79): the objective is 0.428, and 0.414 with scikit-learn's"
    " learning rate and two rows a step; the optimum is 0.4. With shuffle=True the decay is 0.012,"
    " and the zeros are found"
)
INTERCEPT = (
    "each step sets the weights to 0 and adds rows that are violated, so 0 is left once the"
    " intercept alone satisfies them. In the last 50 rows, all of one class, it has to go from -1.1"
    " to 1.1 by 0.1 in every other step: that takes 44 steps, and two rows a step are 25"
)
POOR_FIT = (
    "wants weights of two seeds to differ by more than 1 after one epoch. scikit-learn's differ by"
    " 33, at a mean hinge loss of 1.6 where zero weights have 1; ours by 0.6, at 0.04"
)
PARTIAL = (
    "wants two calls of partial_fit with 7 rows to equal one fit of 14. That is twice 2+2+2+1 rows,"
    " not 7 times 2, and 'auto' finds its steps from the rows of the first call; batch_size=1 with"
    " scikit-learn's learning rate passes"
)
SELECTION = (
    "wants two epochs (partial_fit twice, for us too the same as fit of the rows twice over with"
    " max_iter=1) to select the features that ten epochs select. In other orders of the rows they"
    " do not: in 37 of 60 with scikit-learn's class, in 7 of 60 with ours"
)

SOLVER = (
    "wants a refusal, a warning or float64 weights of the solver that solver= names; ours is one"
    " for all names, without these limits"
)
MESSAGE = (
    "wants the words in which each of scikit-learn's solvers says that max_iter was too small; ours"
    " warns in others, after as many iterations, and needs no more than four here"
)
DIGITS = (
    "compares 5 digits or more of weights or probabilities with those of another fit. Ours ends by"
    " a bound on the objective, of 1e-12 at best: that leaves 6 digits of weights, fewer of small"
    " ones"
)
PATH = (
    "compares 6 digits of a loss with a private function of scikit-learn, which runs its own lbfgs"
    " with tol=1e-4: -0.99680, where ours and the optimum are -0.99647"
)
LBFGS = (
    "has 7 digits of the probabilities of scikit-learn's lbfgs with tol=1e-4, which are wrong by"
    " 6e-5; ours by 1e-6"
)
ANNOUNCED = "wants a warning that a default or parameter will change; ours is the new one already"
TRANSLATED = "wants a warning for penalty=, which our class translates without one"
THREADS = "wants a warning that n_jobs has no effect; here it is the number of threads"
NO_ITERATION = (
    "with max_iter=0 counts the iteration that SciPy's L-BFGS-B makes all the same; ours makes none"
)
NEW_DEFAULTS = (
    "wants older defaults of LogisticRegressionCV (scoring='accuracy', l1_ratios=None); ours are"
    " those that scikit-learn announces"
)

SGD = "sklearn.linear_model.tests.test_sgd::"
LOGISTIC = "sklearn.linear_model.tests.test_logistic::"
SPARSE = ("csr_matrix", "csr_array")

EITHER = {
    f"{LOGISTIC}test_check_solver_option": SOLVER,
    f"{LOGISTIC}test_liblinear_multiclass_raises": SOLVER,
    f"{LOGISTIC}test_liblinear_with_large_values": SOLVER,
    f"{LOGISTIC}test_liblinear_dual_random_state": SOLVER,
    f"{LOGISTIC}test_newton_cholesky_fallback_to_lbfgs": SOLVER,
    f"{LOGISTIC}test_logistic_regression_callback_support_warning": SOLVER,
    **{
        f"{LOGISTIC}test_large_sparse_matrix[{rows}-{solver}]": SOLVER
        for rows in SPARSE
        for solver in ("liblinear", "sag", "saga")
    },
    **{
        f"{LOGISTIC}test_dtype_match[{rows}-{fit_intercept}-liblinear]": SOLVER
        for rows in SPARSE
        for fit_intercept in (False, True)
    },
    f"{LOGISTIC}test_max_iter": MESSAGE,
    f"{LOGISTIC}test_LogisticRegressionCV_on_folds": DIGITS,
    "sklearn.model_selection.tests.test_search::"
    "test_search_cv_sample_weight_equivalence[estimator0]": DIGITS,
    f"{LOGISTIC}test_logistic_cv_multinomial_score[neg_log_loss-multiclass_agg_list3]": PATH,
    "sklearn.tests.test_multioutput::test_multiclass_multioutput_estimator_predict_proba": LBFGS,
    f"{LOGISTIC}test_logisticregressioncv_warns_with_use_legacy_attributes": ANNOUNCED,
    f"{LOGISTIC}test_l1_ratio_None_deprecated": ANNOUNCED,
    f"{LOGISTIC}test_lr_scoring_warns": ANNOUNCED,
    f"{LOGISTIC}test_penalty_deprecated": TRANSLATED,
    f"{LOGISTIC}test_lr_penalty_l1ratio_incompatible[l1-0.0]": TRANSLATED,
    f"{LOGISTIC}test_logisticregression_warns_with_n_jobs": THREADS,
    f"{LOGISTIC}test_logistic_regression_callback_support[0]": NO_ITERATION,
    f"{SGD}test_plain_has_no_average_attr[SGDClassifier]": PRIVATE,
    f"{SGD}test_plain_has_no_average_attr[SparseSGDClassifier]": PRIVATE,
    f"{SGD}test_plain_has_no_average_attr[SGDRegressor]": PRIVATE,
    f"{SGD}test_plain_has_no_average_attr[SparseSGDRegressor]": PRIVATE,
    f"{SGD}test_validation_mask_correctly_subsets": CALLBACK,
    f"{SGD}test_late_onset_averaging_reached[SparseSGDClassifier]": DECAY,
    f"{SGD}test_late_onset_averaging_reached[SparseSGDRegressor]": DECAY,
    f"{SGD}test_average_binary_computed_correctly[SparseSGDClassifier]": DECAY,
    f"{SGD}test_sgd_multiclass_average[SparseSGDClassifier]": DECAY,
    f"{SGD}test_sgd_averaged_computed_correctly[SparseSGDRegressor]": DECAY,
    f"{SGD}test_sgd_averaged_partial_fit[SparseSGDRegressor]": DECAY,
    f"{SGD}test_average_sparse[SparseSGDRegressor]": DECAY,
    f"{SGD}test_sgd_proba[SparseSGDClassifier]": PROBABILITIES,
}

FAILURES = {
    "sklearn": {
        **EITHER,
        f"{SGD}test_class_weights[SGDClassifier]": LUCK,
        f"{SGD}test_class_weights[SparseSGDClassifier]": LUCK,
        f"{SGD}test_sample_weights[SGDClassifier]": LUCK,
        f"{SGD}test_sample_weights[SparseSGDClassifier]": LUCK,
    },
    "ours": {
        **EITHER,
        f"{LOGISTIC}test_get_default_scorer": NEW_DEFAULTS,
        f"{LOGISTIC}test_multinomial_cv_iris": NEW_DEFAULTS,
        f"{SGD}test_late_onset_averaging_reached[SGDClassifier]": ONE_ROW,
        f"{SGD}test_late_onset_averaging_reached[SGDRegressor]": ONE_ROW,
        f"{SGD}test_average_binary_computed_correctly[SGDClassifier]": ONE_ROW,
        f"{SGD}test_sgd_multiclass_average[SGDClassifier]": ONE_ROW,
        f"{SGD}test_sgd_averaged_computed_correctly[SGDRegressor]": ONE_ROW,
        f"{SGD}test_sgd_averaged_partial_fit[SGDRegressor]": ONE_ROW,
        f"{SGD}test_average_sparse[SGDRegressor]": ONE_ROW,
        f"{SGD}test_sgd_l1[SGDClassifier]": CORNER,
        f"{SGD}test_sgd_l1[SparseSGDClassifier]": CORNER,
        f"{SGD}test_equal_class_weight[SGDClassifier]": KINK,
        f"{SGD}test_equal_class_weight[SparseSGDClassifier]": KINK,
        f"{SGD}test_balanced_weight[SGDClassifier]": SHARE,
        f"{SGD}test_balanced_weight[SparseSGDClassifier]": SHARE,
        f"{SGD}test_large_regularization[l2]": INTERCEPT,
        f"{SGD}test_sgd_random_state[42-SGDClassifier]": POOR_FIT,
        "sklearn.tests.test_multiclass::test_ovr_partial_fit": PARTIAL,
        "sklearn.feature_selection.tests.test_from_model::test_partial_fit": SELECTION,
    },
}
