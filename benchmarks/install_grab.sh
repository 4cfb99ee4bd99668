#!/usr/bin/env bash
# Install grab-sampler into the environment of `python`, for `antithetic bench`.
# It is in no extra: torch-sparse, which it imports, is compiled against the torch that is installed, so torch must be there first and the
# build must not be isolated from it. That takes a C++ compiler and, on one core, half an hour. Where it fails, rows say "not installed".
set -euo pipefail

python=${PYTHON:-python}
"$python" -c "import torch" 2>/dev/null || {
    echo "torch is not installed; first: pip install \"antithetic[torch]\"" >&2
    exit 1
}
version=$("$python" -c "import torch; print(torch.__version__)")
"$python" -m pip install setuptools wheel
if ! "$python" -c "import torch_sparse" 2>/dev/null; then
    # -O0: the sampler uses none of its kernels
    CFLAGS="${CFLAGS:--O0 -g0}" CXXFLAGS="${CXXFLAGS:--O0 -g0}" "$python" -m pip install --no-build-isolation --no-deps torch-sparse
fi
"$python" -m pip install absl-py overrides tqdm pandas
"$python" -m pip install --no-deps grab-sampler
[[ $("$python" -c "import torch; print(torch.__version__)") == "$version" ]] || {
    echo "torch is no longer $version" >&2
    exit 1
}
"$python" -c "from grabsampler.sorter import MeanBalance, PairBalance; print('grab-sampler is installed')"
