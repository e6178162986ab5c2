#!/usr/bin/env bash
# Weakens every ordering of the lock-free code, one at a time, in a scratch copy, and checks that a loom model fails.
#
# Called by `make mutants`. Works on a copy of the six crates, with a target directory of its own (first argument): cargo
# does not tell a copy's artefacts from the original's. Prints one line per mutant; fails if one survives, if
# the models fail without any mutation, or if a mutant does not compile.
#
# Left out, by name of the function (file:function), are orderings that a model checker cannot see the use of:
#   journal.rs:end, journal.rs:begin_move
#       keep the order of one thread's own stores for the moment of its death; a model keeps that anyway
#   journal.rs:pending, connections.rs:leave_all_connections
#       read what the dead left, behind the proof of death, which is an ordering of its own

set -euo pipefail
shopt -s extglob
cd "$(dirname "$0")/.."
target=$(mkdir -p "$1" && cd "$1" && pwd)
only=${2:-}
exempt=' journal.rs:end journal.rs:begin_move journal.rs:pending connections.rs:leave_all_connections '
files=(
    crates/queue/src/ring.rs
    crates/queue/src/bell.rs
    crates/queue/src/events.rs
    crates/pool/src/cell.rs
    crates/pool/src/journal.rs
    crates/pool/src/marks.rs
    crates/pool/src/member/oldest.rs
    crates/pool/src/member/connections.rs
    crates/pool/src/tables/connections.rs
    crates/pool/src/tables/ends.rs
    crates/memory/src/model.rs
    crates/sys/src/biased_lock/mod.rs
)

# Steps that are not orderings, and that the models must miss as well: file|from|to.
steps=(
    'crates/queue/src/events.rs|match memory.replace_cell(self.at, found, after) {|match if found == after { Ok(()) } else { memory.replace_cell(self.at, found, after) } {'
    'crates/pool/src/cell.rs|bear_witness(memory, layout, mark.by, seen);|'
    'crates/pool/src/cell.rs|if again != bits|if again == 0'
    'crates/pool/src/journal.rs|        mark = mark.next();|        let _ = mark.next();'
    'crates/pool/src/journal.rs|== Some(cell)|!= None'
    'crates/pool/src/member/connections.rs|found.left \& ATTENDED {|found.left \& 8 {'
    'crates/pool/src/member/connections.rs|found.left \& ATTENDED != 0|found.left < 8'
    'crates/pool/src/journal.rs|Some(layout.oldest(row as usize))|None'
    'crates/pool/src/member/oldest.rs|found == seen|found.by != 255'
    'crates/sys/src/biased_lock/mod.rs|facade::order_this_thread();|'
    'crates/sys/src/biased_lock/mod.rs|facade::order_all_threads();|'
    'crates/sys/src/biased_lock/mod.rs|self.owner.store(NOBODY, Ordering::Relaxed);|'
    'crates/sys/src/biased_lock/mod.rs|if self.owner.load(Ordering::Relaxed) == owner {|if true {'
    'crates/pool/src/member/recovery.rs|== Operation::Release \&\& was_leased_since(control, step)|== Operation::Give'
)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

copy() {
    mkdir "$scratch/crates"
    cp -r crates/{abi,memory,queue,pool,sys,terminal} "$scratch/crates/"
    cp Cargo.lock rust-toolchain.toml "$scratch/"
    sed 's|^members = .*|members = ["crates/*"]|' Cargo.toml >"$scratch/Cargo.toml"
}

# The models that can see a change of this file: only queue, bell and the lock are used without the pool.
models() {
    case $1 in
    crates/queue/*) cargo_models -p hythe-queue --test it ;;
    crates/sys/*) cargo_models -p hythe-sys --lib ;;
    *) cargo_models -p hythe-pool --lib ;;
    esac
}

# A mutant may make a model loop for ever: it then counts as caught, like one that fails. `bound_s` says how long that is.
cargo_models() {
    (cd "$scratch" && cargo test --release --no-run "$@" 2>&1) >"$scratch/build.log" || return 2
    (cd "$scratch" && timeout "$bound_s" cargo test --release "$@" loom 2>&1) >"$scratch/test.log"
}

# Built again for each mutant, so without what makes the last few per cent.
export RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$target RUST_BACKTRACE=0
export CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_INCREMENTAL=true

# Every mutation as: line, function, from, to. Comments, `use` lines and unit tests are passed over.
mutations() {
    awk '
        /^#\[cfg\(all\(test/ { exit }
        /^ *(\/\/|use )/ { next }
        match($0, /fn [a-z_]+/) { name = substr($0, RSTART + 3, RLENGTH - 3) }
        /Ordering::AcqRel/ { print NR, name, "Ordering::AcqRel", "Ordering::Relaxed"
                             print NR, name, "Ordering::AcqRel", "Ordering::Acquire" }
        /Ordering::Acquire/ { print NR, name, "Ordering::Acquire", "Ordering::Relaxed" }
        /Ordering::Release/ { print NR, name, "Ordering::Release", "Ordering::Relaxed" }
        /full_barrier\(\);/ { print NR, name, "full_barrier();", "" }
    ' "$1"
}

copy
echo "without mutation:"
bound_s=1200
longest_s=0
for package in crates/queue crates/pool crates/sys; do
    start_s=$SECONDS
    if ! models "$package/"; then
        cat "$scratch"/build.log "$scratch"/test.log >&2 2>/dev/null
        exit 1
    fi
    longest_s=$((SECONDS - start_s > longest_s ? SECONDS - start_s : longest_s))
    echo "  $package: the models pass"
done
# The time of the builds is in it; many times that is for ever, also on a machine that does other things meanwhile.
bound_s=$((120 + 5 * longest_s))

survivors=0
count=0

# try FILE NAME FROM TO: runs the models on the mutated scratch copy, says what became of it, and mends the copy.
try() {
    local status=0 verdict
    if cmp -s "$1" "$scratch/$1"; then
        echo "$1: nothing to mutate at \`$3\`" >&2
        exit 1
    fi
    models "$1" || status=$?
    case $status in
    0) verdict=SURVIVED survivors=$((survivors + 1)) ;;
    2) cat "$scratch/build.log" >&2 && exit 1 ;;
    124) verdict='caught (endless)' ;;
    *) verdict=caught ;;
    esac
    count=$((count + 1))
    printf '%-26s %-14s %s -> %s: %s\n' "$1" "$2" "$3" "${4:-nothing}" "$verdict"
    cp "$1" "$scratch/$1"
}

for file in "${files[@]}"; do
    [[ $file == *"$only"* ]] || continue
    while read -r line name from to; do
        [[ $exempt == *" ${file##*/}:$name "* ]] && continue
        sed -i "${line}s/$from/$to/" "$scratch/$file"
        try "$file" "$line $name" "$from" "$to"
    done < <(mutations "$file")
done
for step in "${steps[@]}"; do
    IFS='|' read -r file from to <<<"$step"
    [[ $file == *"$only"* ]] || continue
    sed -i "s/$from/$to/" "$scratch/$file"
    try "$file" 'step' "${from##+( )}" "${to##+( )}"
done
echo "$count mutants, $survivors survived"
((survivors == 0))
