#!/usr/bin/env bash
# make gpu-test: everything that needs a GPU, on a machine that has one. CI has none.
# Operator tests, verdict tables, golden fingerprints, CPU = GPU, a pair of quick runs that is gated, compute-sanitizer.
# PYTHON names an interpreter with a CUDA build of torch; foxflow must be importable from it (installed, or this
# checkout with the compiled module in foxflow/).
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
export FOXFLOW_REQUIRE_GPU=1 PYTHONUNBUFFERED=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"

echo "== operators on the GPU"
"$PYTHON" -m pytest -q -m gpu tests/ops

echo "== the verdict tables on the GPU"
"$PYTHON" -m pytest -q -m gpu tests/train/test_verdicts.py

echo "== the golden fingerprints on the GPU, tiny and quick"
for size in "--preset tiny" "--quick"; do
  "$PYTHON" -m foxflow golden tests/golden/fingerprints.json --seeds 42,43,44 $size --device cuda --track none
done

echo "== one fingerprint on every device, SIMD level and number of threads"
"$PYTHON" -m foxflow invariance --device cpu,cuda

echo "== two quick runs in fresh processes, compared and gated"
"$PYTHON" -m foxflow check --seeds 42 --quick --device cuda --track none

echo "== compute-sanitizer"
for tool in memcheck racecheck; do
  compute-sanitizer --tool $tool --error-exitcode 9 "$PYTHON" -m foxflow run --seed 42 --preset tiny --steps 3 \
    --eval-steps 1 --device cuda --track none --run-name "sanitizer-$tool" --json 2>&1 | tail -4
done
