//! `hythe top`: on a terminal of the test's own, as text, as a document, and where there is no
//! terminal.

use crate::support::terminal::Terminal;
use crate::support::{Root, eventually};
use rustix::process::Signal;

#[test]
fn it_draws_takes_keys_and_gives_the_terminal_back() {
    let root = Root::new();
    let subscriber = root.start(&["sub", "frames"]);
    eventually("it subscribes", || root.subscribers("frames") == 1);
    let mut terminal = Terminal::new();
    // What is blank is not drawn: words, not lines, can be looked for.
    assert!(terminal.is_plain());
    let top = terminal.start(&root, &["top", "--interval", "0.05"]);
    eventually("the channel is drawn", || {
        terminal.shows("frames") && terminal.shows("sorted")
    });
    assert!(terminal.shows("\x1b[?1049h") && !terminal.is_plain());
    terminal.types("sp");
    eventually("it pauses", || terminal.shows("PAUSED"));
    terminal.types("q");
    let ended = top.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    eventually("the screen before is back", || {
        terminal.shows("\x1b[?1049l")
    });
    assert!(terminal.is_plain(), "keys are shown again");
    subscriber.interrupt();
}

#[test]
fn signals_give_the_terminal_back_too() {
    let root = Root::new();
    root.ok(&["pool", "create"]);
    for signal in [Signal::TERM, Signal::INT] {
        let terminal = Terminal::new();
        let top = terminal.start(&root, &["top"]);
        eventually("it draws", || {
            terminal.shows("CHANNEL") && !terminal.is_plain()
        });
        top.signal(signal);
        top.end().succeeded();
        assert!(terminal.is_plain());
        eventually("the screen before is back", || {
            terminal.shows("\x1b[?1049l")
        });
    }
}

#[test]
fn without_a_terminal_it_prints_or_refuses() {
    let root = Root::new();
    root.run(&["top", "--once"])
        .failed(1, &["no pool", "default"]);
    let subscriber = root.start(&["sub", "frames"]);
    eventually("it subscribes", || root.subscribers("frames") == 1);
    root.run(&["top"])
        .failed(2, &["terminal", "hythe top --once", "hythe list --json"]);
    let text = root.ok(&["top", "--once", "--interval", "0.01"]);
    for word in ["frames", "hythe sub", "MSG/S", "QUEUED", "pool default"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    let document = root.json(&["top", "--interval", "0.01"]);
    assert_eq!(document["channels"][0]["name"], "frames");
    assert_eq!(document["channels"][0]["subscribers"], 1);
    assert_eq!(document["participants"][0]["name"], "hythe sub");
    assert_eq!(document["slots"]["free"], document["slots"]["total"]);
    subscriber.interrupt();
}
