#!/usr/bin/env bash
# mpirun.sh MPIRUN RANKS COMMAND…: more ranks than cores, also as root (in containers), with either MPI.
set -euo pipefail
mpirun=$1 ranks=$2
shift 2
options=()
if "$mpirun" --version | grep -qE "Open MPI|OpenRTE"; then
  options+=(--oversubscribe)
  [[ $(id -u) -eq 0 ]] && options+=(--allow-run-as-root)
fi
exec "$mpirun" "${options[@]}" -n "$ranks" "$@"
