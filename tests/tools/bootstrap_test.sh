#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does bootstrap install what is missing, only that, and leave a finished machine alone? Package manager, python and pip
# are stand-ins that write down what they were asked for.
set -euo pipefail
root="$1"
version=$(sed -nE 's/^set\(LIBZERO_TORCH_VERSION "([0-9.]+)"\).*/\1/p' "$root/cmake/TorchVersion.cmake")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{scripts,cmake,bin}
cp "$root/scripts/bootstrap" "$tree/scripts/"
cp "$root/cmake/TorchVersion.cmake" "$tree/cmake/"

stand_in() { # <name>: the script comes from stdin
  { echo '#!/usr/bin/env bash'; cat; } >"$tree/bin/$1"
  chmod +x "$tree/bin/$1"
}
for tool in bash env sed grep cat paste mkdir rm dirname touch chmod; do
  ln -s "$(command -v "$tool")" "$tree/bin/$tool"
done
stand_in dpkg-query <<'END'
for package in "${@:3}"; do [[ " $ABSENT " == *" $package "* ]] || echo "installed $package"; done
END
stand_in apt-get <<<'echo "apt-get $*" >>"$LOG"'
stand_in id <<<'echo "$USER_ID"'
stand_in python3 <<'END'
echo "python3 $*" >>"$LOG"
if [[ "$1 $2" == "-m venv" ]]; then
  mkdir -p "$3/bin"
  cat "$(dirname "$0")/venv-python" >"$3/bin/python"
  chmod +x "$3/bin/python"
fi
END
stand_in venv-python <<'END'
echo "pip $*" >>"$LOG"
[[ -z "$PIP_FAILS" ]] || exit 1
site=.venv/lib/python3.11/site-packages
mkdir -p $site/torch-$VERSION.dist-info $site/torch/lib $site/torch/include/torch/headeronly
touch $site/torch/lib/libtorch_cpu.so $site/torch-$VERSION.dist-info/RECORD
for part in MAJOR MINOR PATCH; do
  n=${VERSION%%.*} VERSION=${VERSION#*.}
  echo "#define TORCH_VERSION_$part $n"
done >$site/torch/include/torch/headeronly/version.h
END

failed=0
export ABSENT='' USER_ID=0 PIP_FAILS='' VERSION="$version" LOG="$tree/log"
run() {
  : >"$LOG"
  status=0
  PATH="$tree/bin" "$tree/bin/bash" "$tree/scripts/bootstrap" >"$tree/out" 2>&1 || status=$?
}
expect() {  # <what it means> <condition as a command>
  if ! "${@:2}"; then
    echo "expected: $1 (exit status $status)"
    cat "$tree/out" "$LOG"
    failed=1
  fi
}
said() { grep -qF -- "$1" "$tree/out"; }
asked() { grep -qF -- "$1" "$LOG"; }
not() { ! "$@"; }
unset LIBZERO_TORCH_ROOT

run
expect 'a bare checkout gets LibTorch' test "$status" = 0
expect 'pip is asked for the pinned release' asked "pip -m pip install torch==$version"
expect 'nothing is asked from apt-get' not asked apt-get

run
expect 'a second run ends well' test "$status" = 0
expect 'a second run changes nothing' test ! -s "$LOG"

rm "$tree"/.venv/lib/python3.11/site-packages/torch-*/RECORD
run
expect 'a half-finished .venv is repaired' asked "pip -m pip install torch==$version"

rm "$tree"/.venv/lib/python3.11/site-packages/torch-*/RECORD
PIP_FAILS=1 run
expect 'a failing pip is a failing bootstrap' test "$status" != 0
run
expect 'and the next run tries again' test "$status" = 0

ABSENT='libbenchmark-dev dict-gcide ninja-build' run
if [[ ! -e /usr/share/dictd/gcide.dict.dz ]]; then
  expect 'a missing file of a package is installed' asked dict-gcide
fi
expect 'what is missing is installed' asked 'install -y --no-install-recommends ninja-build'
expect 'what is there is not' not asked libgtest-dev

ABSENT=ninja-build USER_ID=1000 run
expect 'without root and sudo it says what to run' said 'as root, run: apt-get install ninja-build'
expect 'and fails' test "$status" != 0

stand_in sudo <<<'echo sudo >>"$LOG"; exec "$@"'
ABSENT=ninja-build USER_ID=1000 run
expect 'without root it uses sudo' asked sudo
expect 'and ends well' test "$status" = 0

mv "$tree/bin/apt-get" "$tree/bin/no-apt-get"
ABSENT=ninja-build run
expect 'another distribution is told what is missing' said 'this is not Debian'
expect 'and fails' test "$status" != 0

LIBZERO_TORCH_ROOT="$tree" run
expect 'a folder without LibTorch is refused' said "holds no LibTorch; LibZeRO needs $version"
LIBZERO_TORCH_ROOT=$(echo "$tree"/.venv/lib/python3.11/site-packages/torch) run
expect 'a matching LIBZERO_TORCH_ROOT is taken' test "$status" = 0
sed -i 's/MAJOR [0-9]*/MAJOR 1/' "$tree"/.venv/lib/python3.11/site-packages/torch/include/torch/headeronly/version.h
LIBZERO_TORCH_ROOT=$(echo "$tree"/.venv/lib/python3.11/site-packages/torch) run
expect 'another release is refused' said "LibZeRO needs $version"
exit "$failed"
