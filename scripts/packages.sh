#!/usr/bin/env bash
# The Debian packages that Tercet is built from; sourced by the other scripts.
#   ensure_packages build|test   installs what is missing with apt (as root or with sudo), or lists it and fails.

TERCET_BUILD_PACKAGES=(
  g++ cmake ninja-build ccache mold pkg-config
  libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libtbb-dev libsentencepiece-dev libboost-dev nlohmann-json3-dev libspdlog-dev libcli11-dev prometheus-cpp-dev
  libpcre2-dev libutf8proc-dev libxxhash-dev libssl-dev libcurl4-openssl-dev libarchive-dev libedit-dev
  libgtest-dev libgmock-dev libbenchmark-dev libfmt-dev ca-certificates curl python3-pip
)
TERCET_TEST_PACKAGES=(libsimde-dev python3 python3-venv git)

ensure_packages() {
  local wanted=("${TERCET_BUILD_PACKAGES[@]}") missing=() package as_root=()
  if [ "$1" = test ]; then wanted+=("${TERCET_TEST_PACKAGES[@]}"); fi
  for package in "${wanted[@]}"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -q '^installed$' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo)
    else
      echo "These Debian packages are missing and need root to install; run this, then start again:" >&2
      echo "  apt-get install ${missing[*]}" >&2
      return 1
    fi
  fi
  echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}
