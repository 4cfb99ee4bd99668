"""scikit-learn estimators, and the files that they are saved in."""
