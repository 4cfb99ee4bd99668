"""Train on Parquet files with a Dask cluster, to a certified accuracy, and pair their rows.

Here the cluster has two processes; elsewhere it can have as many machines as you like.

The files are small, so that the example is quick; nothing in it would change for a thousand times
as many. The rows are read block by block where they are needed, and never all at once.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

import antithetic.dask

FILES, ROWS, FEATURES = 4, 5_000, 10
NAMES = [f"x{k}" for k in range(FEATURES)]


def write_file(path, k):
    """File number k, as some other program might deliver it."""
    rng = np.random.default_rng(k)
    X = rng.normal(size=(ROWS, FEATURES))
    clicked = X @ np.cos(np.arange(FEATURES)) + rng.logistic(size=ROWS) > 0.0
    pd.DataFrame(X, columns=NAMES).assign(clicked=clicked).to_parquet(path)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for k in range(FILES):
            write_file(Path(folder) / f"{k}.parquet", k)
        checkpoint = Path(folder) / "fit.npz"

        # a cluster of your own: Client("tcp://10.0.0.1:8786")
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
        with cluster, Client(cluster) as client:
            clicks = dd.read_parquet(f"{folder}/*.parquet")
            X, y = clicks[NAMES], clicks["clicked"]
            print(
                f"{FILES} files, {X.npartitions} blocks, {len(client.scheduler_info()['workers'])}"
                " workers"
            )

            table = antithetic.dask.pair(X, y, "tree", client=client)
            print(
                f"pairs within blocks: {table.variance_ratio(client=client):.2f} of the variance of"
                " two random rows"
            )

            model = antithetic.dask.LogisticRegression(verbose=1, client=client).fit(X, y)
            print(
                f"accuracy {model.score(X, y):.4f}, at most {model.gap_:.0e} from the optimum after"
                f" {model.n_rounds_} rounds"
            )

            # a fit that was interrupted goes on from its file; here it was complete
            for _ in range(2):
                resumed = antithetic.dask.LogisticRegression(checkpoint=checkpoint, client=client)
                resumed.fit(X, y)
                print(f"with a checkpoint: {resumed.n_rounds_} rounds, gap {resumed.gap_:.0e}")

            chances = model.predict_proba(X)
            print(
                f"chances: {type(chances).__name__} of {chances.npartitions} blocks, the first"
                f" {chances.blocks[0].compute()[0, 1]:.3f}"
            )

        local = model.to_local()  # needs no cluster
        print(
            "one row, here:"
            f" {local.predict(pd.DataFrame(np.zeros((1, FEATURES)), columns=NAMES)).tolist()}"
        )


if __name__ == "__main__":
    main()
