#!/usr/bin/env bash
# Configures and builds a preset (default: release).   scripts/build.sh [PRESET] [TARGET …]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true
# Object files are the same wherever the checkout lies, so that ccache serves every clone.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
log="build/$preset.configure.log"
mkdir -p build
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
exec cmake --build --preset "$preset" --parallel "$(nproc)" ${1:+--target "$@"}
