//! `include/hythe.h` is what cbindgen makes of `src/`: checked here, and written anew with
//! `HYTHE_HEADER=write`.

use std::path::{Path, PathBuf};

const START: &str = include_str!("../../header.start");

const MAX_COLUMNS: usize = 100;

/// How many columns wider a comment of one line is than the line ` * WORDS` of a block.
const COMMENT_MARKS: usize = "/** WORDS */".len() - " * WORDS".len();

/// What no constant can say.
const EVENT: &str = "\
/**
 * The set of one event of a channel, by its number: 0 to HYTHE_EVENTS_MAX - 1. Sets are joined
 * with `|`.
 */
#define HYTHE_EVENT(number) (UINT64_C(1) << (number))";

/// What Rust cannot define: functions of as many arguments as those of POSIX.
const OPENING: &str = "\
/**
 * As sem_open(3): with O_CREAT in `oflag`, a mode_t and an unsigned value follow. NULL for
 * SEM_FAILED.
 */
static inline struct hythe_sem *hythe_sem_open(const char *name, int oflag, ...)
{
    unsigned mode = 0, value = 0;
    if (oflag & O_CREAT) {
        va_list arguments;
        va_start(arguments, oflag);
        mode = va_arg(arguments, unsigned);
        value = va_arg(arguments, unsigned);
        va_end(arguments);
    }
    return hythe_sem_open_with(name, oflag, mode, value);
}

/** As mq_open(3): with O_CREAT in `oflag`, a mode_t and a const struct mq_attr * follow. */
static inline hythe_mqd_t hythe_mq_open(const char *name, int oflag, ...)
{
    unsigned mode = 0;
    const struct mq_attr *attributes = NULL;
    if (oflag & O_CREAT) {
        va_list arguments;
        va_start(arguments, oflag);
        mode = va_arg(arguments, unsigned);
        attributes = va_arg(arguments, const struct mq_attr *);
        va_end(arguments);
    }
    return hythe_mq_open_with(name, oflag, mode, attributes);
}";

fn crate_path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn generated() -> String {
    let mut config =
        cbindgen::Config::from_file(crate_path("cbindgen.toml")).expect("a readable configuration");
    config.header = Some(START.trim_end().to_owned());
    config.after_includes = Some(EVENT.to_owned());
    let mut text = Vec::new();
    cbindgen::Builder::new()
        .with_crate(crate_path(""))
        .with_config(config)
        .generate()
        .expect("a header")
        .write(&mut text);
    let mut text = String::from_utf8(text).expect("text");
    // Behind the declarations that they call, and inside of `extern "C"`.
    let end = text.rfind("#ifdef __cplusplus").expect("its end");
    text.insert_str(end, &format!("{OPENING}\n\n"));
    for_c(&text)
}

/// In the manner of C: what callers need to keep stands under a heading of rustdoc's, short
/// comments stand on one line, negative numbers in parentheses.
fn for_c(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut done: Vec<String> = Vec::new();
    let mut rest = lines.as_slice();
    while let [line, tail @ ..] = rest {
        rest = tail;
        if let ("/**", [only, end, behind @ ..]) = (line.trim_start(), tail)
            && end.trim_start() == "*/"
            && only.len() + COMMENT_MARKS <= MAX_COLUMNS
        {
            let (indent, said) = only.split_once("* ").unwrap_or(("", only));
            let indent = &indent[..indent.len() - 1];
            done.push(format!("{indent}/** {said} */"));
            rest = behind;
        } else if let Some((name, number)) = line.split_once(" -").filter(|_| is_constant(line)) {
            done.push(format!("{name} (-{number})"));
        } else {
            done.push(line.replace("# Safety", "Requires:"));
        }
    }
    done.join("\n") + "\n"
}

fn is_constant(line: &str) -> bool {
    line.starts_with("#define HYTHE_")
}

#[test]
fn header_is_what_the_source_says() {
    let (path, wanted) = (crate_path("include/hythe.h"), generated());
    if std::env::var_os("HYTHE_HEADER").is_some_and(|value| value == "write") {
        std::fs::write(&path, &wanted).expect("a writable header");
        return;
    }
    let found = std::fs::read_to_string(&path).expect("a header");
    assert!(
        found == wanted,
        "include/hythe.h is out of date; run: HYTHE_HEADER=write cargo test -p hythe-c --test it header::"
    );
}
