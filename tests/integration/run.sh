#!/usr/bin/env bash
# Runs the end-to-end tests; exit code 77 ("skipped") when there is no Python environment for them.
set -euo pipefail
cd "$(dirname "$0")"
python=../../.venv/bin/python
if ! "$python" -c 'import pytest, openai, httpx, grpc_health, grpc_reflection' 2>/dev/null; then
  echo "The Python clients are missing: scripts/test.sh makes .venv with them. Skipped."
  exit 77
fi
exec "$python" -m pytest -q -rs --color=no -p no:cacheprovider "$@"
