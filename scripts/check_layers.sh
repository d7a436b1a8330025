#!/usr/bin/env bash
# Includes follow the layers (see cmake/layers.cmake): kernels see nothing of the project, common sees common, a service sees
# kernels, protos, common and itself. Prints each line that breaks this; exit code 1 if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0

# refuse FOLDER REGEX: no file under FOLDER may include a path that matches REGEX.
refuse() {
  if grep -rnE "^#include \"($2)" --include='*.h' --include='*.cc' "$1"; then
    echo "^ $1 may not include $2" >&2
    status=1
  fi
}

refuse kernels 'common/|services/|tercet/|tests/|bench/'
refuse common 'kernels/|services/|tercet/|tests/|bench/'
services=$(cd services && ls -d */ | tr -d /)
for service in $services; do
  for other in $services; do
    [ "$service" = "$other" ] || refuse "services/$service" "services/$other/"
  done
  refuse "services/$service" 'tests/|bench/'
done
exit $status
