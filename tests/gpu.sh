#!/usr/bin/env bash
# make gpu-test: everything that needs a GPU, on a machine that has one. CI has none.
# Operator tests, verdict tables, CPU = GPU fingerprints, a pair of quick runs that is gated, compute-sanitizer.
# PYTHON names an interpreter with a CUDA build of torch; foxflow must be importable from it (installed, or this
# checkout with the compiled module in foxflow/).
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
export FOXFLOW_REQUIRE_GPU=1 PYTHONUNBUFFERED=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"

field() { "$PYTHON" -c "import json, sys; print(json.loads(sys.stdin.read())['$1'])"; }
once() { "$PYTHON" -m foxflow run --track none --json "$@"; }

echo "== operators on the GPU"
"$PYTHON" -m pytest -q -m gpu tests/ops

echo "== the verdict tables on the GPU"
"$PYTHON" -m pytest -q -m gpu tests/train/test_verdicts.py

echo "== one fingerprint on both devices, tiny and quick"
for preset in tiny default; do
  sizes=$([ $preset = tiny ] && echo "--preset tiny" || echo "--quick")
  for seed in 42 43 44; do
    cpu=$(once --seed $seed $sizes --device cpu --run-name "$preset-$seed-cpu" | field fingerprint)
    gpu=$(once --seed $seed $sizes --device cuda --run-name "$preset-$seed-gpu" | field fingerprint)
    echo "$preset $seed cpu $cpu gpu $gpu"
    if [ "$cpu" != "$gpu" ]; then
      "$PYTHON" -m foxflow compare "mlruns/records/$preset-$seed-cpu" "mlruns/records/$preset-$seed-gpu" | head -60
      exit 1
    fi
  done
done

echo "== two quick runs in fresh processes, compared and gated"
"$PYTHON" -m foxflow check --seeds 42 --quick --device cuda --track none

echo "== compute-sanitizer"
for tool in memcheck racecheck; do
  compute-sanitizer --tool $tool --error-exitcode 9 "$PYTHON" -m foxflow run --seed 42 --preset tiny --steps 3 \
    --eval-steps 1 --device cuda --track none --run-name "sanitizer-$tool" --json 2>&1 | tail -4
done
