#!/usr/bin/env bash
# Builds the addon in the dev profile, and tests the package as it would be installed: in a scratch
# directory, with what the tests need from npm. Without it, what needs it is skipped by name.
#
#     bindings/node/test.sh DIRECTORY
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch="$(mkdir -p "$1" && cd "$1" && pwd)"
target="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)"
fixtures="$PWD/fixtures"

cargo build -p annals-node --locked
rm -rf "$scratch/annals"
mkdir -p "$scratch/annals"
cp -R bindings/node/{package.json,tsconfig.json,lib,test,examples} docs/NODE.md "$scratch/annals/"
library="$target/debug/libannals_node.so"
[ "$(uname)" = Darwin ] && library="${library%.so}.dylib"
cp "$library" "$scratch/annals/annals.node"

cd "$scratch"
# The optional package of the SDK is the program itself, which the tests do not run.
npm install --no-package-lock --no-save --no-audit --no-fund --ignore-scripts --omit=optional --prefix "$scratch" \
  typescript@5 @types/node@20 @anthropic-ai/claude-agent-sdk >"$scratch/npm.log" 2>&1 ||
  echo "skipped: tsc and the tests with @anthropic-ai/claude-agent-sdk: npm cannot install them"
cd annals
ANNALS_PROGRAM="$target/debug/annals" ANNALS_FIXTURES="$fixtures" node --test --test-concurrency=2 test/
if [ -x "$scratch/node_modules/.bin/tsc" ]; then
  awk '/^```(js|ts)$/ { kind = substr($0, 4); name = sprintf("docs-%d.m%s", ++n, kind); next }
       /^```/ { name = "" } name { print > name }' NODE.md
  "$scratch/node_modules/.bin/tsc" --noEmit -p .
  echo "tsc: ok"
fi
