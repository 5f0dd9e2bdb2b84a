#!/usr/bin/env bash
# Builds the addon in the dev profile, packs the package, and tests it where it is installed: in an empty
# directory, beside what the tests need from npm. Without that, what needs it is skipped by name.
#
#     bindings/node/test.sh DIRECTORY
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch="$(mkdir -p "$1" && cd "$1" && pwd)"
target="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)"
fixtures="$PWD/fixtures"

cargo build -p annals-node --locked
rm -rf "$scratch/source" "$scratch/test" "$scratch/examples" "$scratch/node_modules/annals" "$scratch"/*.tgz "$scratch"/docs-*
mkdir -p "$scratch/source"
cp -R bindings/node/{package.json,README.md,lib} "$scratch/source/"
cp -R bindings/node/{tsconfig.json,test,examples} docs/NODE.md "$scratch/"
library="$target/debug/libannals_node.so"
[ "$(uname)" = Darwin ] && library="${library%.so}.dylib"
cp "$library" "$scratch/source/annals.node"

cd "$scratch"
npm pack --silent --pack-destination "$scratch" ./source >/dev/null
echo '{ "private": true }' >package.json
quiet=(--no-package-lock --no-audit --no-fund --ignore-scripts --prefix "$scratch")
npm install "${quiet[@]}" ./annals-*.tgz >"$scratch/npm.log" 2>&1
# The optional package of the SDK is the program itself, which the tests do not run.
npm install "${quiet[@]}" --omit=optional typescript@5 @types/node@20 @anthropic-ai/claude-agent-sdk >>"$scratch/npm.log" 2>&1 ||
  echo "skipped: tsc and the tests with @anthropic-ai/claude-agent-sdk: npm cannot install them"
ANNALS_PROGRAM="$target/debug/annals" ANNALS_FIXTURES="$fixtures" node --test --test-concurrency=2 test/
if [ -x node_modules/.bin/tsc ]; then
  awk '/^```(js|ts)$/ { kind = substr($0, 4); name = sprintf("docs-%d.m%s", ++n, kind); next }
       /^```/ { name = "" } name { print > name }' NODE.md
  node_modules/.bin/tsc --noEmit -p .
  echo "tsc: ok"
fi
