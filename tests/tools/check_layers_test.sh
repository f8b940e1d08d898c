#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does check_layers see each kind of include that it forbids, and nothing else?
set -euo pipefail
root="$1"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{plugin,strategy,trainer_integration}/include/zero "$tree"/plugin/{low,high/inner,unlisted}
echo 'foreach(room low high/inner high)' >"$tree/plugin/CMakeLists.txt"
touch "$tree"/plugin/include/zero/page.h "$tree"/strategy/include/zero/strategy.h "$tree"/plugin/low/low.h

failed=0
expect() {  # <passes|fails> <file> <line of source>
  local said=passes
  echo "$3" >"$tree/$2"
  "$root/scripts/check_layers" "$tree" >"$tree/out" || said=fails
  if [[ "$said" != "$1" ]]; then
    echo "$2 with '$3': expected that it $1"
    cat "$tree/out"
    failed=1
  fi
  rm "$tree/$2"
}

expect passes plugin/high/a.cpp '#include "plugin/low/low.h"'
expect passes plugin/high/a.cpp '#include "zero/page.h"'
expect passes plugin/high/a.cpp '#include <vector>'
expect passes plugin/high/a.cpp '#include "plugin/high/inner/inner.h"'
expect passes strategy/a.cpp '#include "plugin/high/high.h"'
expect passes trainer_integration/a.cpp '#include <zero/strategy.h>'
expect fails plugin/low/a.cpp '#include "plugin/high/high.h"'
expect fails plugin/low/a.cu '#include <zero/strategy.h>'
expect fails plugin/low/a.h '  #  include "strategy/presets.h"'
expect fails plugin/high/inner/a.cpp '#include "plugin/high/high.h"'
expect fails strategy/a.cpp '#include "trainer_integration/trainer.h"'
expect fails strategy/include/zero/a.h '#include "plugin/low/low.h"'
expect fails plugin/low/a.cpp '#include "low.h"'
expect fails plugin/low/a.cpp '#include "zero/absent.h"'
expect fails plugin/low/a.cpp '#include "plugin/absent/absent.h"'
expect fails plugin/unlisted/a.cpp '#include <vector>'
exit "$failed"
