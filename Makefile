# Each target installs what it needs into .venv, and nothing elsewhere. PYTHON chooses the interpreter that makes .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet

.PHONY: demo test test-fast lab rounds healthy check golden pictures bench clean

# Train a real model on real data with two ranks, through the launcher.
demo: $(VENV)/.demo
	$(BIN)/ddpkit launch -n 2 -- train.py --config config/default.yaml

# All tests. `make test-fast` leaves out those that start ranks that import torch.
# The lab's packages are installed where that may be done (root, Debian); elsewhere its tests are skipped, and say so.
# Four at a time, each with a lab of its own: most of them wait for something.
test: $(VENV)/.dev
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/pytest -n 4 --dist loadfile --durations=25

test-fast: $(VENV)/.dev
	$(BIN)/pytest -m "not torch and not lab"

# A cluster to try things on: four nodes and a login host, with sshd, pdsh and SLURM. Says how to enter it and end it.
lab: $(VENV)/.dev
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/python tests/lab/cluster.py up $(VENV)/lab

# A hundred launches on the lab's nodes, each ended in a random way at a random moment: nothing may be left. A quarter of
# an hour; SEED=2 draws others.
rounds: $(VENV)/.dev
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/python tests/lab/rounds.py --seed $(or $(SEED),1)

# Fifty tests of healthy nodes over each way in: `ddpkit test` must find nothing. Half an hour; ROUNDS=5 is shorter.
healthy: $(VENV)/.dev
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/python tests/lab/healthy.py --rounds $(or $(ROUNDS),50)

# What must be clean before a change lands: style, types, shell scripts.
check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/shellcheck.sh

# Write the golden plans and TROUBLESHOOTING.md again, then look at what changed: git diff
golden: $(VENV)/.dev
	DDPKIT_WRITE_GOLDEN=1 $(BIN)/pytest -q -k "golden or in_step" tests/test_plan.py tests/test_docs.py tests/test_catalogue.py

# Draw the pictures in docs/img again, from real runs.
pictures: $(VENV)/.dev
	$(BIN)/python scripts/pictures.py

# Time to "first all_reduce done and exited", side by side, as ratios: on this machine, then on nodes (where a lab can
# stand: root, Debian; about ten minutes on a quiet machine).
bench: $(VENV)/.dev
	$(BIN)/python bench/start.py
	$(BIN)/python bench/tips.py
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/python bench/nodes.py

# torch is installed first and from its pin, so that nothing else chooses another build of it.
$(VENV)/.torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt torch
	touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(PIP) install -c constraints.txt -e '.[train]'
	touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(PIP) install -c constraints.txt -e '.[train,dev]'
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
