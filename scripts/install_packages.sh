#!/usr/bin/env bash
# Installs what Trireme is built from, all of it from the distribution's packages. Does nothing, and
# asks for no rights, when everything is there already.
#
#   scripts/install_packages.sh            build, test and run
#   scripts/install_packages.sh --peers    also what benchmarks and golden values are compared with
#   scripts/install_packages.sh --fuzz     also clang and libFuzzer
#   scripts/install_packages.sh --docs     also what makes the documentation a site
#   scripts/install_packages.sh --pictures also what scripts/dashboard_pictures needs
#   scripts/install_packages.sh --tests    also what only tests use: that, zsh, mypy, espeak-ng, Slurm, test cases of ONNX, and a browser where there is a package
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config ccache git python3
  libgtest-dev libgmock-dev coinor-libcbc-dev
  libhwy-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev libxxhash-dev libpcre2-dev
  libsodium-dev libmicrohttpd-dev
  libjpeg-dev libpng-dev zlib1g-dev
  libopenmpi-dev openmpi-bin
  iproute2
  pybind11-dev python3-dev python3-numpy
)
site=(mkdocs mkdocs-material)
with_browser=(chromium chromium-driver python3-selenium fonts-dejavu-core)
browser=()
for argument in "$@"; do
  case "$argument" in
    --peers) packages+=(python3-torch libopenblas-dev) ;;
    --docs) packages+=("${site[@]}") ;;
    --pictures) packages+=(pngquant) browser=("${with_browser[@]}") ;;
    --tests) packages+=(zsh mypy espeak-ng libonnx-testdata slurmctld slurmd slurm-client munge "${site[@]}") browser=("${with_browser[@]}") ;;
    --fuzz) packages+=(clang libclang-rt-dev) ;;
    *)
      echo "install_packages.sh: unknown argument '$argument'; known are --peers, --fuzz, --docs, --pictures and --tests" >&2
      exit 2
      ;;
  esac
done

distribution=unknown
if [[ -r /etc/os-release ]]; then
  distribution=$(. /etc/os-release && echo "${ID:-unknown} ${VERSION_ID:-}")
fi

# Ubuntu has Chromium as a snap only; the test that wants it is skipped there.
if [[ "$distribution" == debian* ]]; then packages+=("${browser[@]}"); fi

refuse() {
  echo "install_packages.sh: $1" >&2
  echo "Known are Debian 12 and 13 and Ubuntu 24.04. Elsewhere, install what these Debian packages hold," >&2
  echo "then call the other scripts with --no-install: ${packages[*]}" >&2
  exit 1
}

command -v dpkg-query > /dev/null || refuse "this is '$distribution', which has no dpkg"

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query --show --showformat='${db:Status-Status} ' "$package" 2> /dev/null || true)
  [[ " $state" == *" installed "* ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

case "$distribution" in
  "debian 12" | "debian 13" | "ubuntu 24.04") ;;
  *) refuse "this is '$distribution', where the names of packages were not tried; missing: ${missing[*]}" ;;
esac

if [[ "$distribution" == "ubuntu 24.04" && " ${missing[*]} " == *" python3-torch "* ]]; then
  echo "install_packages.sh: Ubuntu 24.04 has no package python3-torch, which --peers asks for. Install PyTorch" >&2
  echo "in a virtual environment (pip install torch) and name its python in TRIREME_PEER_PYTHON." >&2
  exit 1
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo > /dev/null || refuse "installing needs root or sudo; missing: ${missing[*]}"
  as_root=(sudo)
fi

echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update --quiet
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install --yes --quiet --no-install-recommends "${missing[@]}"
