#!/bin/sh
# Writes what every package has besides the program: manual pages, completions, the timer of systemd and the licences.
#
#     packaging/share.sh PROGRAM DIRECTORY      for example target/dist/annals target/share
set -eu
program=$(realpath "$1")
mkdir -p "$2"
target=$(realpath "$2")
cd "$(dirname "$0")/.."

mkdir -p "$target/man/man1" "$target/bash-completion/completions" "$target/zsh/site-functions" \
  "$target/fish/vendor_completions.d" "$target/nushell/vendor/autoload" "$target/annals" "$target/systemd/user"
"$program" man "$target/man/man1"
"$program" completions bash >"$target/bash-completion/completions/annals"
"$program" completions zsh >"$target/zsh/site-functions/_annals"
"$program" completions fish >"$target/fish/vendor_completions.d/annals.fish"
"$program" completions nushell >"$target/nushell/vendor/autoload/annals.nu"
"$program" completions powershell >"$target/annals/annals.ps1"
cp packaging/systemd/annals-keep.service packaging/systemd/annals-keep.timer "$target/systemd/user/"
cp LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md "$target/annals/"
