#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does check_hazards see a row without a test, a test that is gone and a broken row, and nothing else?
set -euo pipefail
root="$1"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{docs,tests/engine}
cat >"$tree/tests/engine/a_test.cpp" <<'END'
TEST(Suite, Name) { EXPECT_TRUE(true); }
TEST(Suite,
     BrokenLine) {}
TEST_P(Cases, Each) {}
// TEST(Suite, Commented)
END

failed=0
expect() {  # <passes|fails> <row>
  local said=passes
  printf '# Habits\n\n| habit | what happens | test |\n| --- | --- | --- |\n%s\n' "$2" >"$tree/docs/hazards.md"
  "$root/scripts/check_hazards" "$tree" >"$tree/out" || said=fails
  if [[ "$said" != "$1" ]]; then
    echo "'$2': expected that it $1"
    cat "$tree/out"
    failed=1
  fi
}

expect passes ''
expect passes '| a | b | `Suite.Name` |'
expect passes '| a | b | `Suite.Name`, `Suite.BrokenLine` and `Cases.Each` |'
expect passes '| `a \| b` | b | `Suite.Name` |'
expect fails '| a | b | `Suite.Gone` |'
expect fails '| a | b | `Suite.Name`, `Suite.Gone` |'
expect fails '| a | b | `Suite.Commented` |'
expect fails '| a | b | Suite.Name |'
expect fails '| a | b | |'
expect fails '| a | `Suite.Name` |'
expect fails '| a | b | c | `Suite.Name` |'
exit "$failed"
