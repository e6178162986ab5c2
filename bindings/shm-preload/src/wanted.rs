//! Which keys the environment wants segments for that a core sees: `HYTHE_SHM=all`, or
//! `HYTHE_SHM=KEY,…` with keys as numbers, in hexadecimal behind `0x`.
//!
//! Read once, at the first call. What is no such value is told on standard error, whatever is
//! logged: the program would run without what was asked for.

use std::sync::OnceLock;

use crate::log;

/// What a call of shmget(2) is to find or make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A segment that a core sees: the program says so.
    Yes,
    /// One that a core sees, unless there is one of the kernel's own: the environment says so.
    IfNew,
    /// What the kernel makes of it.
    No,
}

/// What `HYTHE_SHM` says.
enum Keys {
    All,
    These(Vec<i32>),
}

/// What the environment says of this key.
pub(crate) fn by_environment(key: i32) -> Wanted {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    let is_named = match KEYS.get_or_init(read) {
        Keys::All => true,
        Keys::These(keys) => keys.contains(&key),
    };
    if is_named { Wanted::IfNew } else { Wanted::No }
}

fn read() -> Keys {
    let said = std::env::var_os("HYTHE_SHM").unwrap_or_default();
    let said = said.to_string_lossy();
    if said == "all" {
        return Keys::All;
    }
    let words = said
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    Keys::These(words.filter_map(number).collect())
}

/// Keys have 32 bits, with a sign or without.
fn number(word: &str) -> Option<i32> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let read = match digits {
        Some(digits) => u32::from_str_radix(digits, 16).map(u32::cast_signed).ok(),
        None => word.parse::<i64>().ok().and_then(|number| {
            let unsigned = u32::try_from(number).map(u32::cast_signed);
            unsigned.or_else(|_| i32::try_from(number)).ok()
        }),
    };
    // Key 0 names no segment: every call with it makes one.
    let read = read.filter(|key| *key != libc::IPC_PRIVATE);
    if read.is_none() {
        log::say(format_args!(
            "HYTHE_SHM has `{}`, which is no key; give `all`, or keys such as 0x1234,77",
            word.escape_debug()
        ));
    }
    read
}
