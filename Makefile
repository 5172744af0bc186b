# Each target installs what it needs into .venv, and nothing elsewhere. PYTHON chooses the interpreter that makes .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
INTEROP := .venv-interop
CUDA := .venv-cuda
CORES := $(shell nproc 2> /dev/null || getconf _NPROCESSORS_ONLN)
# Three processes a core, each with a lab of its own: most tests wait for something. The longest files come first (conftest.py).
FILES := --dist loadfile --no-loadscope-reorder
PARALLEL := -n $(shell expr 3 '*' $(CORES)) $(FILES)
# Up to torch 2.10 the flight recorder is off by default, from 2.11 it is on. 5 to 7 GB of disk each.
CUDA_TORCH ?= 2.11.0 2.10.0
# The lab's SLURM, 22.05, 24.11 or 26.05; without it, the machine's own. Another version than its own is a Debian system
# in /var/cache/ddpkit-lab: half a GB, made once in some minutes.
export LAB_SLURM = $(SLURM)
# Thousands of Python processes start in the tests. Each would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-user test-again test-thorough test-fast test-light test-slurm test-interop test-cuda gpu lab rounds heal healthy check golden schema pictures docs bench diagnosis dist release-check clean

# Train a real model on real data with two ranks, through the launcher.
demo: $(VENV)/.demo
	$(BIN)/ddpkit launch -n 2 -- train.py --config config/default.yaml

# All tests.
# The lab's packages are installed where that may be done (root, Debian); elsewhere its tests are skipped, and say so.
# One process compiles the tests meanwhile, which each of the others would do.
test: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/pytest --collect-only --quiet > /dev/null & $(BIN)/python tests/lab/cluster.py install && wait
	$(BIN)/pytest $(PARALLEL) --durations=25 -m "not thorough"

# The command line and files as an ordinary user of a plain Debian has them: what is committed.
test-user: $(VENV)/.dev
	$(BIN)/python tests/ordinary_user.py $(BIN)/pytest -n 2 --dist loadfile -m "not torch and not lab and not thorough" \
		tests/cli tests/node/test_owned.py tests/node/test_search_path.py tests/test_config.py tests/test_files.py \
		tests/test_machine.py tests/test_trusted_files.py

# What failed last, once more, and nothing else beside it.
test-again: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/pytest --last-failed --last-failed-no-failures none

# The same things again in many more ways: every command of the guide on nodes, every fault of a node.
test-thorough: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/pytest $(PARALLEL) --durations=25 -m thorough

# What a change of a line is tried with: nothing is started but Python itself, and no torch is installed.
test-fast: $(VENV)/.dev
	$(BIN)/pytest -n $(CORES) $(FILES) -m "not torch and not lab and not live and not thorough" tests

# All that needs neither torch nor the lab.
test-light: $(VENV)/.dev
	$(BIN)/pytest $(PARALLEL) -m "not torch and not lab"

# The lab tests of SLURM on another version: make test-slurm SLURM=24.11. LAB_CGROUPS=1 limits memory and devices, as most
# sites do; the machine needs version 1 of the cgroup controllers.
test-slurm: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/pytest $(PARALLEL) --durations=25 -m "not thorough" -k "slurm or sbatch or srun or job or test_lab" tests/lab

# Scripts of other libraries (Accelerate, Lightning, transformers, DeepSpeed, torch's own) under every backend, in the lab.
# They have a Python of their own; what is seen goes into tests/interop/*.json, and with `make golden` into the guide.
# An hour on two busy processors, nearly all of it imports: a rank takes 3 to 7 s of a processor before it trains.
test-interop: $(VENV)/.dev $(INTEROP)/.ready
	$(BIN)/python tests/lab/cluster.py install
	rm -rf $(INTEROP)/cells
	$(BIN)/pytest -n 2 -m interop --durations=25 tests/test_example_scripts.py tests/interop; code=$$?; \
		$(BIN)/python tests/interop/table.py $(INTEROP)/cells; $(BIN)/python tests/interop/drills.py $(INTEROP)/cells/drills; \
		exit $$code

# CUDA builds of torch over a stand-in driver, without a GPU: CUDA that does not start is reported as that, everywhere;
# where it starts, each rank has its own GPU, and NCCL's reason is reported with its cause.
# It downloads 2 to 3 GB a version, and needs a C compiler. `make test` skips these tests, with the reason.
test-cuda: $(VENV)/.dev $(CUDA_TORCH:%=$(CUDA)/%/.ready)
	CUDA_PYTHONS="$(subst $() ,:,$(strip $(CUDA_TORCH:%=$(CURDIR)/$(CUDA)/%/bin/python)))" \
		$(BIN)/pytest -n 2 --durations=5 tests/gpu/test_standin.py

# On a machine with NVIDIA GPUs: run ddpkit on them, within 9 minutes. docs/how-to/gpu.md has the rest.
# GPU_PYTHON is a Python with a CUDA build of torch, typer and rich; without it, one is made with torch of the index.
gpu: $(if $(GPU_PYTHON),,$(CUDA)/$(firstword $(CUDA_TORCH))/.ready)
	$(or $(GPU_PYTHON),$(CUDA)/$(firstword $(CUDA_TORCH))/bin/python) tests/gpu/verify.py

# A cluster to try things on: four nodes and a login host, with sshd, pdsh and SLURM. It prints how to enter and end it.
# SLURM=24.11 or SLURM=26.05 chooses another version.
lab: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/python tests/lab/cluster.py up $(VENV)/lab

# A hundred launches on the lab's nodes, each ended in a random way at a random moment: nothing may be left. A quarter of
# an hour; SEED=2 draws others.
rounds: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/python bench/rounds.py --seed $(or $(SEED),1)

# Two hundred trainings on the lab's nodes, each with a fault: the result must not change, bit for bit. Hours; ROUNDS=10
# is shorter, SEED=2 draws others.
heal: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/python bench/heal.py --rounds $(or $(ROUNDS),200) --seed $(or $(SEED),1)

# The score of `ddpkit explain` on labelled logs of real failures and healthy runs.
diagnosis: $(VENV)/.dev
	$(BIN)/python tests/diagnosis/score.py $(CASES)

# Tests and launches on healthy nodes over each way in: nothing may be found, tried again or put aside. Two hours;
# ROUNDS=5 is shorter.
healthy: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/python bench/healthy.py --rounds $(or $(ROUNDS),50)
	$(BIN)/python bench/healthy.py --launches --rounds $(or $(ROUNDS),250)

# What must be clean before a change lands: style, types (the package's for macOS as well), shell scripts, readability.
check: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --no-warn-unreachable ddpkit
	PATH="$(CURDIR)/$(BIN):$$PATH" tools/shellcheck.sh
	$(BIN)/python tools/readability.py

# Write the golden plans and the schemas of TOML files again, then look at what changed: git diff
golden: $(VENV)/.dev schema
	DDPKIT_WRITE_GOLDEN=1 $(BIN)/pytest -q -k "golden or in_step" tests/launchers/test_plan.py
	DDPKIT_WRITE_GOLDEN=1 $(BIN)/pytest -q -k "golden or in_step" tests/test_docs.py

# Write the schemas of ddpkit.toml and of the catalogue again, from the settings and the fields of an entry.
schema: $(VENV)/.dev
	$(BIN)/python tools/toml_schema.py
	$(BIN)/python tools/catalogue_schema.py

# Draw the pictures in docs/img again, from real runs.
pictures: $(VENV)/.dev
	$(BIN)/python tools/pictures.py

# Build the documentation site into build/site: open build/site/index.html, or `mkdocs serve` while you write.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Time to "first all_reduce done and exited", side by side, as ratios: on this machine, then on nodes (where a lab can
# stand: root, Debian; about ten minutes on a quiet machine). Then what watching a run costs its training, and what 8,000
# ranks cost the launcher, and how soon a run of roles has ended after a kill of each process.
bench: $(VENV)/.dev $(VENV)/.torch
	$(BIN)/python bench/start.py
	$(BIN)/python bench/advice.py
	$(BIN)/python tests/lab/cluster.py install
	$(BIN)/python bench/nodes.py
	$(BIN)/python bench/preload.py
	$(BIN)/python bench/watch.py
	$(BIN)/python bench/lines.py
	$(BIN)/python bench/logs.py
	$(BIN)/python bench/scale.py
	$(BIN)/python bench/scale.py --nodes 1000 --seconds 30 --dump
	$(BIN)/python bench/collector.py
	$(BIN)/python bench/role_kills.py

# What an index takes: the sdist, and the wheel built from it.
dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation

# Whether this commit is one to release: its files are whole, its versions agree, and nothing is uncommitted.
release-check: check dist
	DDPKIT_RELEASE=1 $(BIN)/pytest -q tests/test_packaging.py

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Nothing else that is installed asks for torch, so that nothing else chooses another build of it than the pin.
$(VENV)/.torch: constraints.txt | $(BIN)/python
	@echo "PyTorch is some hundred MB, with CUDA several GB: this takes minutes, and says nothing until it is there"
	$(PIP) install -c constraints.txt torch
	touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(PIP) install -c constraints.txt -e '.[train]'
	touch $@

$(VENV)/.dev: constraints.txt pyproject.toml | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[train,dev]'
	touch $@

# DeepSpeed reads torch while it is built, so not apart from it. What it compiles at its first start on a CPU is
# compiled here once: ranks that wait for it together take minutes, and one that is killed leaves a lock behind.
$(INTEROP)/.ready: constraints.txt tests/interop/requirements.txt
	test -x $(INTEROP)/bin/python || $(PYTHON) -m venv $(INTEROP)
	$(INTEROP)/bin/pip install -q -c constraints.txt torch numpy setuptools wheel
	DS_BUILD_OPS=0 $(INTEROP)/bin/pip install -q --no-build-isolation -c constraints.txt torch -r tests/interop/requirements.txt
	rm -rf $(INTEROP)/extensions
	TORCH_EXTENSIONS_DIR=$(CURDIR)/$(INTEROP)/extensions $(INTEROP)/bin/python -c \
		"from deepspeed.comm.torch import build_shm_op; build_shm_op()"
	touch $@

# The pin of torch is another version.
$(CUDA)/%/.ready: constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	sed '/^torch==/d' constraints.txt > $(@D)/constraints.txt
	@echo "torch $* with CUDA takes minutes, and prints nothing"
	$(@D)/bin/pip install -q -c $(@D)/constraints.txt torch==$* numpy rich typer
	$(@D)/bin/python -c "import torch; assert torch.version.cuda, 'the index has torch without CUDA'"
	touch $@

clean:
	rm -rf $(VENV) $(INTEROP) $(CUDA) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
