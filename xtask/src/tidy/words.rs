//! Rule `word`: names that the table "Words" of STYLE.md has replaced do not come back.
//!
//! Only identifiers and phrases that mean nothing else are held here; everyday words are found by
//! reading.

use super::finding::Finding;
use super::tree::{Language, Source};

/// What is not written, and what is instead. Parts of longer names count, too.
const REPLACED: &[(&str, &str)] = &[
    ("Waiter", "WaitSet"),
    ("hythe_waiter", "hythe_wait_set"),
    ("hand_on", "forward"),
    ("handed on", "forwarded"),
    ("core_way", "core link"),
    ("Misfit", "IncompatibleChannel"),
    ("DropOldest", "EvictOldest"),
    ("drop-oldest", "evict-oldest"),
    ("drop_oldest", "evict_oldest"),
    ("leave_the_left", "disconnect_closed"),
    ("until_not_busy", "retry_on_contention"),
    ("caretaker", "supervisor"),
    ("OwnCpu", "GuestCpuInstructions"),
    ("igns of life", "keep-alives"),
    ("ign of life", "keep-alive"),
    ("sign_of_life", "keep_alive"),
    ("ladder of sends", "send-method fallback"),
    ("Method::LADDER", "Method::BEST_FIRST"),
    ("HeldStore", "ZeroCopyQueue"),
    ("LaidStore", "PrebuiltPackets"),
    ("told.rs", "board_output.rs"),
    ("HeardOut", "HalfClosed"),
    ("Patience", "send timeout"),
    ("no_room", "full"),
    ("displacing", "evicting the oldest"),
    ("drop the oldest", "evict the oldest"),
    ("leave_the_gone", "disconnect_closed"),
    ("refused.rs", "unconnected.rs"),
    ("residence.rs", "prefault.rs"),
    ("border.rs", "FFI guard"),
    ("shelf.rs", "handle pool"),
    ("own_cpu", "guest_cpu_instructions"),
    ("own-cpu", "guest-cpu-instructions"),
    ("--lossless", "--repair-window"),
    ("held back", "queued in the qdisc"),
    ("Beset", "fault"),
    ("Manner", "fault"),
    ("Studio", "fixture"),
];

/// These must name what they are about.
const EXEMPT: &[&str] = &["xtask/src/tidy/words.rs", "STYLE.md"];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if source.language == Language::Unread || EXEMPT.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let lines = source.text.lines().enumerate();
    let found = lines.filter_map(|(index, line)| {
        let (word, instead) = REPLACED.iter().find(|(word, _)| line.contains(word))?;
        let what = format!("`{word}` is not a word of this project, `{instead}` is");
        let remedy = "see the table \"Words\" of STYLE.md";
        Some(source.finding(index + 1, "word", what, remedy))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_names_are_found_with_what_to_write() {
        let source = Source::new("a.rs", "fn f() {}\nlet a = Waiter::new();\n// handed on\n");
        let found = check(&source);
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3]);
        assert!(found[0].what.contains("WaitSet"), "{}", found[0].what);
        assert!(check(&Source::new("STYLE.md", "Waiter\n")).is_empty());
    }
}
