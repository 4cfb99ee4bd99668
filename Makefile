.PHONY: check format docs kernels slow bench wheel

check:
	ruff format --check
	ruff check
	mypy
	pytest

format:
	ruff format
	ruff check --fix

docs:
	sphinx-build -W --keep-going -n docs build/docs

kernels:
	for isa in $$(python -c "from antithetic._core import kernels; print(*kernels.available())"); do \
	  ANTITHETIC_ISA=$$isa pytest -m kernel || exit 1; done

slow: bench
	for seed in 1 2 3 4 5 6 7 8 9 10; do pytest --hypothesis-profile=searching --hypothesis-seed=$$seed tests || exit 1; done

bench:
	python benchmarks/all.py --page docs/figures.md --side-by-side $(ARGS)

wheel:
	python -m build --wheel
