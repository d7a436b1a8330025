#!/usr/bin/env bash
# All tests: builds the release preset, fetches the test models, and runs ctest (C++ tests, and the end-to-end tests that
# use the official clients).
#
#   scripts/test.sh [ctest arguments, e.g. -R executor]
#
# Environment: TERCET_CONFORMANCE_DIR (default ../shared/conformance) and TERCET_MODEL_DIR (default models/); tests that
# need what is not there skip and say so.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
ensure_packages test

echo "== Building"
scripts/build.sh release

echo "== Test models"
for model in smollm2 gemma3 qwen2.5-coder; do
  if [ ! -s "models/$model.gguf" ]; then
    build/release/bin/tercet pull "$model" --output models || echo "Could not fetch $model: its tests will skip."
  fi
done

echo "== Python clients for the end-to-end tests"
if [ ! -x .venv/bin/pytest ] || ! cmp -s tests/integration/requirements.txt .venv/requirements.txt; then
  python3 -m venv .venv
  if .venv/bin/pip install --quiet --disable-pip-version-check -r tests/integration/requirements.txt; then
    cp tests/integration/requirements.txt .venv/requirements.txt
  else
    echo "Could not install the Python clients: the end-to-end tests will skip."
  fi
fi

echo "== Tests"
exec ctest --preset release --timeout 900 "$@"
