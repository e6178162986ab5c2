//! What is left of output before that of PVM and that of Hythe are compared: nothing that is
//! another in every run, as numbers of tasks and the order of lines are.

use hythe_testing::Polling;
use std::process::Output;
use std::time::{Duration, Instant};

/// What is left of output before it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// All but the numbers of tasks.
    Lines,
    /// All but numbers: times, and what follows from them.
    Shape,
}

/// Of a number with a point: so many digits are the same in any order.
const SURE_CHARACTERS: usize = 14;

/// Digits, hexadecimal, that may name a task: with a host's number of 1 to 3 and something behind
/// it.
fn is_task(word: &str) -> bool {
    let (digits, radix) = match word.strip_prefix("0x").or_else(|| word.strip_prefix('t')) {
        Some(digits) => (digits, 16),
        None if word.starts_with(['4', '8']) && word.len() == 5 => (word, 16),
        None => (word, 10),
    };
    let number = u32::from_str_radix(digits, radix);
    number.is_ok_and(|number| (1 << 18..4 << 18).contains(&number))
}

/// A line with `TASK` for each task's number, contexts among them, and as one word what is one
/// number.
pub(crate) fn line(text: &str, compare: Compare) -> String {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '.';
    let mut left = text;
    let mut kept = String::new();
    while let Some(begin) = left.find(is_word) {
        let (before, from) = left.split_at(begin);
        let end = from.find(|character| !is_word(character));
        let (word, after) = from.split_at(end.unwrap_or(from.len()));
        // Numbers stand in columns, as wide as they are.
        match compare {
            Compare::Lines => kept.push_str(before),
            Compare::Shape => kept.extend(before.split_whitespace().chain([" "])),
        }
        let starts_with_digit = word.starts_with(|one: char| one.is_ascii_digit());
        let shown = match compare {
            // Before tasks: a time may be as large as their numbers.
            Compare::Shape if starts_with_digit || word == "inf" => "#",
            _ if is_task(word.trim_end_matches('.')) => "TASK",
            // A name that begins with one.
            _ if word.get(..6).is_some_and(is_task) => {
                kept.push_str("TASK");
                &word[6..]
            }
            _ => word,
        };
        kept.push_str(&without_last_digits(shown));
        left = after;
    }
    kept.push_str(left);
    kept.trim_end().to_owned()
}

/// A sum or product of several tasks has its last digits by the order in which their parts came.
fn without_last_digits(word: &str) -> String {
    let is_of_number = |one: char| one.is_ascii_digit() || one == '.';
    let end = word.find(|one| !is_of_number(one)).unwrap_or(word.len());
    let (number, exponent) = word.split_at(end);
    match number.len() > SURE_CHARACTERS && number.contains('.') {
        true => [&number[..SURE_CHARACTERS], exponent].concat(),
        false => word.to_owned(),
    }
}

/// What is said only where one task is slower than another: that the group server is there
/// already, or a member not yet, or that numbers in a group are not in the order of the tasks'.
const RACES: [&str; 4] = [
    "Group Server already running",
    "gettid(): No such instance",
    "doesn't match up!",
    "getinst(): Not in group",
];

/// What `frsg` says of a sum that it begins in memory which it never wrote: it is right only where
/// there happens to be a zero.
const UNDEFINED: [&str; 3] = [
    "um of Squares of ",
    "was calculated by Sum1 as",
    "it should have been",
];

/// Is it another in each run?
fn is_chance(line: &str) -> bool {
    let mut known = RACES.iter().chain(&UNDEFINED);
    // A second group server's complaint begins with an empty one.
    known.any(|text| line.contains(text)) || line.trim_end().ends_with("]:")
}

pub(crate) fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.sort();
    // How often a program says that it waits is chance.
    lines.dedup();
    lines
}

/// What a program and the tasks that it spawned have printed, on both streams.
pub(crate) fn printed(output: &Output, compare: Compare) -> Vec<String> {
    let all = both(output);
    // The command says how a task failed.
    let lines = all.lines().filter(|line| !line.starts_with("hythe: "));
    let lines = lines.filter(|line| !is_chance(line));
    sorted(lines.map(|one| line(one, compare)))
}

/// The same for PVM, whose daemon writes into its log what spawned tasks print: behind its own
/// number, date and time stands the task's.
fn printed_on_pvm(output: &Output, log: &str, compare: Compare) -> Vec<String> {
    let all = both(output);
    let of_tasks = log.lines().filter_map(|line| {
        let mut words = line.splitn(4, ' ');
        let (_, _, _) = (words.next()?, words.next()?, words.next()?);
        let said = words.next()?;
        let (task, said) = said.strip_prefix("[t")?.split_once("] ")?;
        (task.starts_with(['4', '8']) && task.len() == 5 && said != "EOF" && said != "BEGIN")
            .then_some(said)
    });
    let lines = all.lines().chain(of_tasks);
    let lines = lines.filter(|line| !is_chance(line));
    sorted(lines.map(|one| line(one, compare)))
}

/// A program's output on PVM and by Hythe is the same, which it returns, and so are the exit codes.
pub(crate) fn assert_same(
    words: &[&str],
    [theirs, ours]: [&Output; 2],
    (log, bound): (impl Fn() -> String, Duration),
    compare: Compare,
) -> Vec<String> {
    let wanted = printed(ours, compare);
    assert!(!wanted.is_empty(), "{words:?} prints nothing");
    assert_eq!(
        ours.status.code(),
        theirs.status.code(),
        "{words:?}: {ours:#?}"
    );
    // The daemons write what they get when they get it.
    let (start, mut polling) = (Instant::now(), Polling::new("the same lines"));
    loop {
        let found = printed_on_pvm(theirs, &log(), compare);
        if found == wanted {
            return wanted;
        }
        assert!(
            start.elapsed() < bound,
            "{words:?}\nours alone: {:#?}\ntheirs alone: {:#?}\nof {} and {} lines",
            without(&wanted, &found),
            without(&found, &wanted),
            wanted.len(),
            found.len()
        );
        polling.pause();
    }
}

/// Lines of the first that the second has not.
fn without<'a>(lines: &'a [String], others: &[String]) -> Vec<&'a String> {
    lines.iter().filter(|line| !others.contains(line)).collect()
}

/// Both streams.
fn both(output: &Output) -> String {
    let [printed, complained] = [&output.stdout, &output.stderr];
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(printed) + &text(complained)
}
