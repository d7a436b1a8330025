#!/usr/bin/env bash
# From nothing to an answer: installs what is missing, builds, fetches SmolLM2-135M-Instruct, starts the four services, asks
# one question, streams the answer, and stops them again.
#
#   scripts/quickstart.sh ["your question"]
set -euo pipefail
cd "$(dirname "$0")/.."
question=${1:-"What is the capital of France, and what is it known for? Answer in two sentences."}
source scripts/packages.sh

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || step() { printf '\n%s\n' "$*"; }

step "1/4 Debian packages"
ensure_packages build
echo "all there"

step "2/4 Build (the first one takes some minutes)"
scripts/build.sh release tercet tercet-tokenizer tercet-scheduler tercet-executor tercet-gateway

step "3/4 Model"
model=models/smollm2.gguf
if [ -s "$model" ]; then
  echo "$model is there"
else
  build/release/bin/tercet pull smollm2 --output models
fi

step "4/4 Ask"
echo "> $question"
echo
build/release/bin/tercet run "$model" "$question" --temperature 0 --max-tokens 128 --stats

cat <<'EOF'

That was tokenizer, scheduler, executor and gateway as four processes. To go on:

  build/release/bin/tercet chat models/smollm2.gguf      talk to it
  build/release/bin/tercet serve models/smollm2.gguf     serve it on http://127.0.0.1:8080/v1 for any OpenAI client
  build/release/bin/tercet bench models/smollm2.gguf     measure this machine
  scripts/test.sh                                        run all tests
EOF
