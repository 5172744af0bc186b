#!/bin/bash
# Runs in the container of every node, started by run_script.sh: torchrun, told by run_script.sh who it is.

set -euo pipefail
cd "$(dirname "$0")"

# CHANGE: what every rank runs. "$@" is what stood behind run_script.sh.
command=(python -u train.py "$@")

# ---- From here on nothing needs a change.

# shellcheck source=scripts/slurm/steps.sh
. ./steps.sh
run_torchrun "${command[@]}"
