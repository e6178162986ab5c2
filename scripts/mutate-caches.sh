#!/usr/bin/env bash
# Takes out every clean, every invalidate and every barrier of the C library, moves it past its
# neighbour, or shortens its range, one at a time, in a scratch copy, and checks that the cache
# tests (rtos/tests/cache_life.c) fail.
#
# Called by `make mutants`; with an argument: only files whose name has it. Prints one line per
# mutant with the check that caught it; fails if one survives, if the tests fail without any
# mutation, or if a mutant does not compile.
#
# A place is a call of hythe_clean, hythe_invalidate, hythe_store_release, hythe_load_acquire,
# hythe_fence or hythe_fence_acquire; and each call that reads or writes a shared word through them
# (hythe_read, hythe_write, and what names them in one file), which is tried without its cache
# maintenance: `stale`, `uncleaned`. Ordering is the same for all words, and is taken out where it
# stands.
#
# A clean or invalidate of more than a word is tried without the first bytes of its range, and
# without the last: `headless`, `tailless`. Of those that begin at a slot, all of the headroom is
# left out as well: `payload`. A statement that cleans, invalidates or orders, or writes a word, is
# tried behind the next one of its block that does anything with memory, and before the one in front
# of it: `later`, `earlier`.
#
# Left out is what `exempt` lists, as file:function:call:mutant|why.

set -euo pipefail
cd "$(dirname "$0")/.."
only=${1:-}
exempt=(
    'link.c:meet:read_linux_session:stale|a geometry that was read while an agent changed it is given up at the next look at the session'
    'give.c:hythe_release:hythe_invalidate:later|the mark is in memory by then, so that its line may be dropped behind it as well'
    'geometry.c:hythe_geometry_copy:header_word:SECTION_BYTES:stale|find_core_section() has invalidated and read the same word just before'
    'service.c:peek:hythe_invalidate:removed|no part of a link: tests/test_task.c has this one'
    'service.c:await_begin:hythe_load_acquire:unordered|a word of tasks of one core, with one cache'
    'task.c:hythe_task_main:hythe_store_release:unordered|a word of tasks of one core, with one cache'
    'task.c:hythe_tasks_reap:hythe_load_acquire:unordered|a word of tasks of one core, with one cache'
)
tree=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r rtos "$scratch/"
cd "$scratch/rtos"
mkdir ../objects ../mutants

# The last of them are for what needs a rare coincidence.
seeds=(20261123 5000 77777 1 2000 900000)
flags=(-std=gnu11 -O1 -Iinclude -Iport -Isrc -Itests -include tests/cache_atomic.h)
tests=(tests/cache_*.c tests/linux_side.c)

compile() {
    gcc "${flags[@]}" -c "$1" -o "$2"
}

# Links the objects and runs the tests, at most once for each seed; a mutant that loops for ever is caught as well.
passes() {
    gcc ../objects/*.o -o ../test
    local seed
    for seed in "${seeds[@]}"; do
        HYTHE_SEED=$seed timeout 60 ../test >../log 2>&1 || return 1
    done
}

# For mutants of one call: while `mutant` is not 0, words are read and written without cache maintenance.
perl -0pi -e '
    s/(static inline void hythe_clean)/extern int mutant;\n\n$1/;
    s/(hythe_(?:invalidate|clean)\(port, word, sizeof \*word\);)/if (mutant == 0) {\n        $1\n    }/g;
' src/shared.h
(($(grep -c 'mutant == 0' src/shared.h) == 2)) || { echo "shared.h: words are not read and written as here expected" >&2; exit 1; }
echo 'int mutant;' >../mutant.c

# Writes ../mutants/N.c and N.what for each mutant of the file.
mutations() {
    perl -0 -e '
        my ($file, $path) = @ARGV;
        open my $in, "<", $path or die; my $text = <$in>; my $n = 0;
        my $call = qr/(\((?:[^()]++|(?-1))*+\))/;
        sub mutant { my ($at, $length, $name, $what, $with) = @_;
            my $before = substr($text, 0, $at); my $line = 1 + ($before =~ tr,\n,,);
            my $function = "?"; $function = $1 while $before =~ /^[a-z][^\n;{]*?\b(\w+)\((?=[^;]*?\)\n\{)/mg;
            my $changed = $text; substr($changed, $at, $length) = $with; $n++;
            open my $out, ">", "../mutants/$n.c"; print $out $changed; close $out;
            open $out, ">", "../mutants/$n.what"; print $out "$file|$line|$function|$name|$what\n"; close $out; }
        sub parts { my ($list) = @_; my ($depth, @found) = (0, "");
            for my $c (split //, substr($list, 1, -1)) {
                $depth += $c eq "(" ? 1 : $c eq ")" ? -1 : 0;
                if ($c eq "," && $depth == 0) { push @found, "" } else { $found[-1] .= $c }
            }
            return @found; }
        sub shorten { my ($at, $length, $name, $shown, $arguments) = @_; my ($port, $from, $bytes) = parts($arguments);
            return if $bytes =~ /sizeof|^ 1$/;
            my $less = "($bytes) < 4 ? 0 : ($bytes) - 4";
            mutant($at, $length, $shown, "headless", "$name($port, (const volatile uint8_t *)($from) + 4, $less)");
            mutant($at, $length, $shown, "tailless", "$name($port, $from, $less)");
            mutant($at, $length, $shown, "payload", "$name($port, buffer->data, buffer->length)") if $from =~ /buffer->slot/; }
        # Statements of one block, whole, by where they begin; those that hold others, too.
        sub move { my ($at, $shown) = @_; my $begin = rindex($text, "\n", $at) + 1;
            my ($indent) = substr($text, $begin) =~ /^( +)\S/; return if $begin + length $indent != $at;
            my $statement = qr/(?:$indent\/\*.*?\*\/\n)*$indent(?:[^ \n}#][^\n;{]*(?:\n$indent +[^\n;{]*)*;\n|[^ \n}#][^{;]*(?:;[^{;\n]*)*\{\n.*?\n$indent\}(?: while [^\n]*;)?(?: else \{\n.*?\n$indent\})?\n)/s;
            my $touches = qr/hythe_(?:clean|invalidate|read|write|store_\w+|load_\w+|fence\w*|outbox_push|request_mark|link_ring|give_back|flows_are_awaited)\(|push\(|write_\w+\(|locked_\w+\(/;
            my $outside = length($indent) - 1; my $leaves = qr/^ {0,$outside}\S/m;
            my $rest = substr($text, $begin); $rest =~ /^($statement)/ or return; my $own = $1;
            my ($skipped, $left) = ("", substr($rest, length $own));
            while ($left =~ /^(\n*$statement)/) { my $next = $1; last if $next =~ /^\s*return/ || $next =~ $leaves; $skipped .= $next; $left = substr($left, length $next);
                if ($next =~ $touches) { mutant($begin, length($own . $skipped), $shown, "later", $skipped . $own); last } }
            my @before = (); my $head = substr($text, 0, $begin);
            unshift @before, $1 while $head =~ s/(\n*$statement)\z// && $1 !~ $leaves;
            my $passed = "";
            while (@before) { my $previous = pop @before; $passed = $previous . $passed;
                if ($previous =~ $touches) { mutant($begin - length $passed, length($passed . $own), $shown, "earlier", $own . $passed); last } } }
        my %plain = (hythe_store_release => "hythe_store_relaxed", hythe_load_acquire => "hythe_load_relaxed");
        while ($text =~ /\b(hythe_clean|hythe_invalidate|hythe_store_release|hythe_load_acquire|hythe_fence_acquire|hythe_fence|hythe_read
                        |hythe_write|header_word|linux_word|read_changes|read_linux_session|write_core|write_name)$call/gx) {
            my ($name, $arguments, $at) = ($1, $2, $-[0]); my $length = length($name . $arguments);
            # Calls among the arguments are places, too.
            pos($text) = $at + length $name;
            substr($text, 0, $at) =~ /([^\n]*)\z/;
            # Definitions, and comments.
            next if $1 =~ /^[a-z]/ || $1 =~ m,^ *(/?\*|//), ;
            my $whole = $name . $arguments;
            my $shown = $name . ($whole =~ /_AT_(\w+)/ ? ":$1" : "");
            my $place = pos($text);
            shorten($at, $length, $name, $shown, $arguments) if $name =~ /hythe_(clean|invalidate)$/;
            move($at, $shown) if $name =~ /hythe_(clean|invalidate|fence|fence_acquire|write)$/;
            pos($text) = $place;
            if ($plain{$name}) { mutant($at, $length, $shown, "unordered", $plain{$name} . $arguments) }
            elsif ($name =~ /hythe_(clean|invalidate|fence)/) { mutant($at, $length, $shown, "removed", "(void)0") }
            elsif ($name =~ /write/) {
                mutant($at, $length, $shown, "uncleaned", "({ extern int mutant; mutant = 1; $whole; mutant = 0; })") }
            else { mutant($at, $length, $shown, "stale",
                "({ extern int mutant; mutant = 1; uint32_t mutant_value = $whole; mutant = 0; mutant_value; })") }
        }' "$1" "$1"
}

for source in src/*.c "${tests[@]}" ../mutant.c; do
    compile "$source" "../objects/$(basename "$source" .c).o"
done
if ! passes; then
    cat ../log >&2
    exit 1
fi
echo "without mutation: the tests pass"

is_exempt() {
    local entry
    for entry in "${exempt[@]}"; do
        if [[ ${entry%%|*} == "$1" ]]; then
            echo "left out: ${1}: ${entry#*|}"
            return 0
        fi
    done
    return 1
}

survivors=0
count=0

# Only the objects that the mutated file is in are built again.
build_mutant() {
    local source
    if [[ $1 == *.h ]]; then
        cp "$2" "$1"
        for source in src/*.c; do
            compile "$source" "../objects/$(basename "$source" .c).o"
        done
    else
        compile "$2" "../objects/$(basename "$1" .c).o"
    fi
}

# The words of shared.h itself are mutated as they are in the tree.
cp src/shared.h ../shared.h
for file in src/*.c src/shared.h; do
    [[ $file == *"$only"* ]] || continue
    rm -f ../mutants/*
    [[ $file == *.h ]] && cp "$tree/rtos/$file" "$file"
    mutations "$file"
    for number in $(cd ../mutants && find . -name "*.c" -printf "%f\n" | sort -n); do
        IFS='|' read -r name line function call what <"../mutants/${number%.c}.what"
        if is_exempt "${name#src/}:$function:$call:$what"; then
            continue
        fi
        build_mutant "$file" "../mutants/$number"
        if passes; then
            verdict=SURVIVED survivors=$((survivors + 1))
        else
            verdict="caught: $(grep -om1 '^tests/[^ ]* .*' ../log || tail -n1 ../log)"
        fi
        count=$((count + 1))
        printf '%-13s %4s %-26s %-32s %-10s %.100s\n' "${name#src/}" "$line" "$function" "$call" "$what" "$verdict"
    done
    cp ../shared.h src/shared.h
    [[ $file == *.h ]] || compile "$file" "../objects/$(basename "$file" .c).o"
done
echo "$count mutants, $survivors survived"
((survivors == 0))
