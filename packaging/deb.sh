#!/bin/sh
# Makes the Debian package target/debian/annals_VERSION_ARCHITECTURE.deb with cargo-deb.
#
#     packaging/deb.sh                  builds the program with the profile dist
#     packaging/deb.sh --program FILE   packs a program that is built already
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
case "${1:-}" in
  '') cargo --config tools/dist.toml build --locked --profile dist -p annals-cli ;;
  --program)
    mkdir -p "$target/dist"
    [ "$(realpath "$2")" = "$(realpath -m "$target/dist/annals")" ] || cp "$2" "$target/dist/annals"
    ;;
  *)
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
rm -rf "$target/share"
packaging/share.sh "$target/dist/annals" "$target/share"
gzip -9nf "$target"/share/man/man1/*.1
rm -rf "$target/debian"
cargo deb --no-build --no-strip --profile dist -p annals-cli --output "$target/debian/"
