#!/bin/sh
# Builds annals and installs it with its manual pages and completions; it changes nothing else and needs no root.
#
#     sh packaging/install.sh                      below ~/.local
#     PREFIX=/opt/annals sh packaging/install.sh   elsewhere
#     sh packaging/install.sh --program FILE       a program that is built already
#     sh packaging/install.sh --uninstall
set -eu
prefix=${PREFIX:-"$HOME/.local"}
program=
case "${1:-}" in
  '') ;;
  --program)
    program=$(realpath "$2")
    ;;
  --uninstall)
    rm -f "$prefix/bin/annals" "$prefix/share/man/man1/annals.1" "$prefix"/share/man/man1/annals-*.1 \
      "$prefix/share/bash-completion/completions/annals" "$prefix/share/zsh/site-functions/_annals" \
      "$prefix/share/fish/vendor_completions.d/annals.fish" "$prefix/share/nushell/vendor/autoload/annals.nu" \
      "$prefix/share/systemd/user/annals-keep.service" "$prefix/share/systemd/user/annals-keep.timer"
    rm -rf "$prefix/share/annals"
    exit 0
    ;;
  *)
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
cd "$(dirname "$0")/.."
if [ -z "$program" ]; then
  command -v cargo >/dev/null || {
    echo 'cargo is missing; install Rust from https://rustup.rs' >&2
    exit 1
  }
  cargo build --locked --profile dist -p annals-cli
  program=$(realpath "${CARGO_TARGET_DIR:-target}/dist/annals")
fi
mkdir -p "$prefix/bin" "$prefix/share"
install -m 755 "$program" "$prefix/bin/annals"
packaging/share.sh "$prefix/bin/annals" "$prefix/share"
# The timer runs the program that was installed.
sed "s|/usr/bin/annals|$prefix/bin/annals|" packaging/systemd/annals-keep.service >"$prefix/share/systemd/user/annals-keep.service"
"$prefix/bin/annals" --version
case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "$prefix/bin is not in PATH" ;;
esac
