#!/bin/sh
# Check every shell script that git knows, or would know after the next commit.
set -eu
cd "$(dirname "$0")/.."
files=$(git ls-files --cached --others --exclude-standard | while read -r file; do
    case $file in
    tests/golden/* | examples/*/tests/golden*) ;; # plans: what they quote is what the tests are about
    *.sh | *.slurm | *.sbatch) echo "$file" ;;
    *) if head -c 64 "$file" 2>/dev/null | head -n 1 | grep -aqE '^#!.*[/ ](ba|da)?sh'; then echo "$file"; fi ;;
    esac
done)
# shellcheck disable=SC2086 # no script of ours has a blank in its name
shellcheck $files
