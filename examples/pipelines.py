"""Use the classifier in scikit-learn: pipeline, grid search, cross-validation, and a table.

The features are raw, in their own units, and are scaled first. A search passes the table to each
fold's ``fit``, cut to the rows of the fold.
"""

from __future__ import annotations

from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import antithetic
from antithetic import SGDClassifier


def search_in_pipeline(X, y):
    """Choose the penalty of the last step of a pipeline, by cross-validation."""
    pipeline = make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", random_state=0))
    grid = {
        "sgdclassifier__alpha": [1e-4, 1e-3, 1e-2, 1e-1],
        "sgdclassifier__penalty": ["l2", "l1"],
    }
    search = GridSearchCV(pipeline, grid, cv=5).fit(X, y)
    best = ", ".join(
        f"{name.removeprefix('sgdclassifier__')}={value}"
        for name, value in search.best_params_.items()
    )
    print(f"best of the grid: {best}, accuracy {search.best_score_:.3f}")
    return search.best_estimator_


def search_with_table(X, y):
    """Share one table among all fits of a search.

    It must be made of the rows that the estimator sees, here the scaled ones.
    """
    scaled = StandardScaler().fit_transform(X)
    table = antithetic.pair(scaled, y)
    estimator = SGDClassifier(loss="log_loss", order="shuffle", random_state=0)
    search = GridSearchCV(estimator, {"alpha": [1e-3, 1e-2, 1e-1]}, cv=5).fit(
        scaled, y, table=table
    )
    pairs = search.best_estimator_.plan_.order.pairs
    print(
        f"with a table: alpha={search.best_params_['alpha']}, accuracy {search.best_score_:.3f};"
        f" the pairs of the best are those of the table given: {pairs.given == table}"
    )


def main():
    X, y = antithetic.datasets.load("diabetes", return_X_y=True)
    best = search_in_pipeline(X, y)
    scores = cross_val_score(best, X, y, cv=10)
    print(f"ten folds: accuracy {scores.mean():.3f}, standard deviation {scores.std():.3f}")
    classifier = best[-1]
    print(
        f"epochs {classifier.n_iter_}, first step {classifier.eta0_:.3g}, found from the data:"
        f" {classifier.plan_.why}"
    )
    search_with_table(X, y)


if __name__ == "__main__":
    main()
