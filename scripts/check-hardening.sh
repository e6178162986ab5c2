#!/usr/bin/env bash
# Looks at how programs and libraries were built: check-hardening.sh rust|c FILE…
#
# All are loaded at any address, have no stack that can be run, and what the linker fills in is
# read-only once they run; those in C guard their stacks, and call functions that know the size of
# what they write into. Called by scripts/installation.sh, and inside of the Debian that it makes.
# Needs readelf. Never runs what it looks at.

set -euo pipefail

language=${1:?rust or c}
shift
failed=0

# wants FILE WHAT TEXT PATTERN: the text has it.
wants() {
    grep -q -- "$4" <<<"$3" && return
    printf 'check-hardening: %s: no %s\n' "$1" "$2" >&2
    failed=1
}

for file in "$@"; do
    header=$(readelf --file-header --wide "$file")
    segments=$(readelf --program-headers --wide "$file")
    dynamic=$(readelf --dynamic --wide "$file")
    wants "$file" "address of its own choice (PIE)" "$header" 'Type: *DYN'
    wants "$file" "read-only relocations" "$segments" 'GNU_RELRO'
    wants "$file" "symbols bound at its start (BIND_NOW)" "$dynamic" '\(BIND_NOW\|Flags:.* NOW\)'
    wants "$file" "stack without code" "$segments" 'GNU_STACK .* RW '
    [[ $language == c ]] || continue
    symbols=$(readelf --symbols --wide "$file")
    wants "$file" "guarded stacks" "$symbols" '__stack_chk_fail'
    wants "$file" "checked copies (_FORTIFY_SOURCE)" "$symbols" '_chk\(@\|$\)'
done
exit $failed
