//! What can be asked of the shell, and when: the table of commands, and the states in which each is
//! possible.
//!
//! Decides without doing: it is given the words of a command and the state, and returns the command
//! or says what is possible instead. Never touches a core.

use hythe_command::error::CliError;
use hythe_command::units;
use hythe_terminal::escaped;
use serde::Serialize;

use super::peek::Place;
use super::rpc;
use super::test::{Exchange, Wait};
use crate::tasks::Action;

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is open.
    Closed,
    /// Pool and board are there; what the core does is nothing of ours.
    Opened,
    /// The core is up, and our ports are at its echo.
    Running,
    /// Our ports are gone; the core is up.
    Shut,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Opened => "opened",
            Self::Running => "running",
            Self::Shut => "shut",
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Open,
    Run { app: Option<String> },
    Test(Exchange),
    State,
    Tasks,
    Task { name: String, action: Action },
    Segments,
    Peek(Place),
    Objects,
    Rpc(rpc::Wanted),
    Shutdown,
    Stop,
    Help,
    Quit,
}

/// A row of the table: how a command is written, what it does, when it is possible.
#[derive(Debug)]
pub(super) struct Definition {
    name: &'static str,
    arguments: &'static str,
    does: &'static str,
    allowed: &'static [State],
    parse: fn(&[&str]) -> Result<Command, String>,
}

const ALWAYS: &[State] = &[State::Closed, State::Opened, State::Running, State::Shut];

/// All commands, in the order of a session.
const TABLE: [Definition; 14] = [
    Definition {
        name: "open",
        arguments: "",
        does: "finds the board, or a core of that name that runs already",
        allowed: &[State::Closed],
        parse: |words| alone(words, Command::Open),
    },
    Definition {
        name: "run",
        arguments: "[APP]",
        does: "starts APP, or what the board names first, and opens ports at its echo",
        allowed: &[State::Opened, State::Shut],
        parse: run,
    },
    Definition {
        name: "test",
        arguments: "N SIZE [poll|bell]",
        does: "sends N messages of SIZE through the core, compares each byte",
        allowed: &[State::Running],
        parse: test,
    },
    Definition {
        name: "state",
        arguments: "",
        does: "shows the registers of the link, of both sides",
        allowed: &[State::Running, State::Shut],
        parse: |words| alone(words, Command::State),
    },
    Definition {
        name: "tasks",
        arguments: "",
        does: "lists the tasks that the program has registered",
        allowed: &[State::Running, State::Shut],
        parse: |words| alone(words, Command::Tasks),
    },
    Definition {
        name: "task",
        arguments: "start|stop|kill NAME [ARGUMENT]",
        does: "starts, stops or kills a task of the program",
        allowed: &[State::Running, State::Shut],
        parse: task,
    },
    Definition {
        name: "segments",
        arguments: "",
        does: "lists the segments that the core and processes see by address",
        allowed: &[State::Running, State::Shut],
        parse: |words| alone(words, Command::Segments),
    },
    Definition {
        name: "peek",
        arguments: "ID OFFSET [BYTE]",
        does: "shows a byte of a segment under its address here and in the core; writes BYTE first",
        allowed: &[State::Running, State::Shut],
        parse: peek,
    },
    Definition {
        name: "objects",
        arguments: "",
        does: "lists the semaphores and queues of the pool, with what dead holders left",
        allowed: &[State::Running, State::Shut],
        parse: |words| alone(words, Command::Objects),
    },
    Definition {
        name: "rpc",
        arguments: "METHOD [HEX]",
        does: "calls a method of the program, argument and result in hexadecimal",
        allowed: &[State::Running, State::Shut],
        parse: |words| rpc::read(words).map(Command::Rpc),
    },
    Definition {
        name: "shutdown",
        arguments: "",
        does: "closes the ports when all buffers are back; tasks started by name stop",
        allowed: &[State::Running],
        parse: |words| alone(words, Command::Shutdown),
    },
    Definition {
        name: "stop",
        arguments: "",
        does: "stops the core, whoever started it, and closes the pool",
        allowed: &[State::Opened, State::Running, State::Shut],
        parse: |words| alone(words, Command::Stop),
    },
    Definition {
        name: "help",
        arguments: "",
        does: "lists what is possible now",
        allowed: ALWAYS,
        parse: |words| alone(words, Command::Help),
    },
    Definition {
        name: "quit",
        arguments: "",
        does: "ends the session; a core and a pool that it made go with it",
        allowed: ALWAYS,
        parse: |words| alone(words, Command::Quit),
    },
];

impl Definition {
    fn usage(&self) -> String {
        format!("{} {}", self.name, self.arguments)
            .trim_end()
            .to_owned()
    }
}

/// Reads a command that is possible in a state.
///
/// # Errors
/// Wrong use; the text says what was wrong, and what is possible.
pub(super) fn parse(line: &str, state: State) -> Result<Command, CliError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, arguments) = match words.split_first() {
        Some((name, arguments)) => (*name, arguments),
        None => ("", &[][..]),
    };
    let Some(definition) = TABLE.iter().find(|definition| definition.name == name) else {
        return Err(CliError::WrongUse(format!(
            "there is no command `{}`; possible now ({}): {}",
            escaped(name),
            state.name(),
            names(state)
        )));
    };
    if !definition.allowed.contains(&state) {
        return Err(CliError::WrongUse(format!(
            "`{name}` is not possible while {}; possible now: {}",
            state.name(),
            names(state)
        )));
    }
    (definition.parse)(arguments).map_err(|wrong| {
        CliError::WrongUse(format!("{wrong}; it is written `{}`", definition.usage()))
    })
}

/// A command that is possible now: how it is written, and what it does.
#[derive(Debug, Serialize)]
pub(super) struct Possible {
    pub(super) command: String,
    pub(super) does: &'static str,
}

/// All of them, in the order of a session.
pub(super) fn possible_now(state: State) -> Vec<Possible> {
    let rows = TABLE.iter().filter(|row| row.allowed.contains(&state));
    let possible = rows.map(|row| Possible {
        command: row.usage(),
        does: row.does,
    });
    possible.collect()
}

fn names(state: State) -> String {
    let rows = TABLE.iter().filter(|row| row.allowed.contains(&state));
    rows.map(|row| row.name).collect::<Vec<_>>().join(", ")
}

fn alone(words: &[&str], command: Command) -> Result<Command, String> {
    match words.first() {
        None => Ok(command),
        Some(word) => Err(format!("nothing is taken here, not `{}`", escaped(word))),
    }
}

fn run(words: &[&str]) -> Result<Command, String> {
    match words {
        [] => Ok(Command::Run { app: None }),
        [app] => Ok(Command::Run {
            app: Some((*app).to_owned()),
        }),
        [_, more, ..] => Err(format!("`{}` is one word too many", escaped(more))),
    }
}

fn task(words: &[&str]) -> Result<Command, String> {
    let (name, action) = match words {
        ["start", name, argument @ ..] => {
            let argument = argument.join(" ");
            (name, Action::Start { argument })
        }
        ["stop", name] => (name, Action::Stop),
        ["kill", name] => (name, Action::Kill),
        ["stop" | "kill", _, more, ..] => {
            return Err(format!("`{}` is one word too many", escaped(more)));
        }
        ["start" | "stop" | "kill"] => return Err("a task has a name".to_owned()),
        [other, ..] => {
            return Err(format!(
                "`{}` is none of start, stop and kill",
                escaped(other)
            ));
        }
        [] => return Err("something is to be done with a task".to_owned()),
    };
    Ok(Command::Task {
        name: (*name).to_owned(),
        action,
    })
}

fn peek(words: &[&str]) -> Result<Command, String> {
    let (id, offset, byte) = match words {
        [id, offset] => (id, offset, None),
        [id, offset, byte] => (id, offset, Some(byte)),
        _ => return Err("a byte takes two or three words".to_owned()),
    };
    let wrong = |what: &str, word: &str| format!("`{}` is no {what}", escaped(word));
    let parse = |byte: &&str| byte.parse().map_err(|_| wrong("byte: 0 to 255 are", byte));
    Ok(Command::Peek(Place {
        id: id.parse().map_err(|_| wrong("id of a segment", id))?,
        offset: offset.parse().map_err(|_| wrong("offset", offset))?,
        written: byte.map(parse).transpose()?,
    }))
}

fn test(words: &[&str]) -> Result<Command, String> {
    let (messages, size, wait) = match words {
        [messages, size] => (messages, size, "bell"),
        [messages, size, wait] => (messages, size, *wait),
        _ => return Err("a test takes two or three words".to_owned()),
    };
    let count = messages.parse().ok().filter(|count| *count > 0);
    let wait = match wait {
        "poll" => Wait::Poll,
        "bell" => Wait::Bell,
        _ => return Err(format!("`{}` is neither poll nor bell", escaped(wait))),
    };
    Ok(Command::Test(Exchange {
        messages: count
            .ok_or_else(|| format!("`{}` is no number of messages", escaped(messages)))?,
        size_bytes: units::parse_size(size)
            .map_err(|wrong| format!("`{}`: {wrong}", escaped(size)))?,
        wait,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str, state: State) -> String {
        match parse(line, state) {
            Err(CliError::WrongUse(text)) => text,
            other => panic!("`{line}` while {}: {other:?}", state.name()),
        }
    }

    #[test]
    fn each_command_is_possible_exactly_where_the_table_says() {
        for definition in &TABLE {
            let line = match definition.name {
                "test" => "test 10 4K",
                "task" => "task kill one",
                "peek" => "peek 1 2",
                "rpc" => "rpc 1 61",
                name => name,
            };
            for state in ALWAYS {
                let allowed = definition.allowed.contains(state);
                assert_eq!(parse(line, *state).is_ok(), allowed, "{line} {state:?}");
                let listed = possible_now(*state);
                let listed = listed.iter().any(|row| row.command == definition.usage());
                assert_eq!(listed, allowed, "{line} {state:?}");
            }
        }
    }

    #[test]
    fn what_is_misplaced_or_unknown_names_what_is_possible() {
        assert_eq!(
            refused("test 1 1", State::Closed),
            "`test` is not possible while closed; possible now: open, help, quit"
        );
        assert_eq!(
            refused("tset 1 1", State::Shut),
            "there is no command `tset`; possible now (shut): run, state, tasks, \
             task, segments, peek, objects, rpc, stop, help, quit"
        );
        assert_eq!(
            refused("open", State::Running),
            "`open` is not possible while running; possible now: test, state, tasks, task, \
             segments, peek, objects, rpc, shutdown, stop, help, quit"
        );
    }

    #[test]
    fn arguments_are_read_and_refused_with_how_they_are_written() {
        let exchange = |messages, size_bytes, wait| {
            Command::Test(Exchange {
                messages,
                size_bytes,
                wait,
            })
        };
        let read = |line| parse(line, State::Running).expect("a command");
        assert_eq!(read("test 5 4K"), exchange(5, 4096, Wait::Bell));
        assert_eq!(read(" test  5 1 poll "), exchange(5, 1, Wait::Poll));
        for (line, wrong) in [
            ("test", "two or three words"),
            ("test 1 2 poll more", "two or three words"),
            ("test 0 2", "`0` is no number of messages"),
            ("test -1 2", "`-1` is no number of messages"),
            ("test 1 0", "`0`: a size is at least 1"),
            ("test 1 x", "`x`"),
            ("test 1 1 sleep", "`sleep` is neither poll nor bell"),
        ] {
            let text = refused(line, State::Running);
            assert!(text.contains(wrong), "{line}: {text}");
            assert!(text.ends_with("`test N SIZE [poll|bell]`"), "{text}");
        }
        let start = |name: &str, argument: &str| Command::Task {
            name: name.to_owned(),
            action: Action::Start {
                argument: argument.to_owned(),
            },
        };
        assert_eq!(read("task start one"), start("one", ""));
        assert_eq!(read("task start one two  three"), start("one", "two three"));
        for (line, wrong) in [
            ("task", "something is to be done"),
            ("task kill", "a task has a name"),
            ("task kill one two", "`two` is one word too many"),
            ("task end one", "`end` is none of start, stop and kill"),
        ] {
            assert!(refused(line, State::Running).contains(wrong), "{line}");
        }
        let place = |written| Place {
            id: 7,
            offset: 4096,
            written,
        };
        assert_eq!(read("peek 7 4096"), Command::Peek(place(None)));
        assert_eq!(read("peek 7 4096 255"), Command::Peek(place(Some(255))));
        for (line, wrong) in [
            ("peek 7", "two or three words"),
            ("peek x 1", "`x` is no id of a segment"),
            ("peek 7 -1", "`-1` is no offset"),
            ("peek 7 1 256", "`256` is no byte: 0 to 255 are"),
        ] {
            assert!(refused(line, State::Running).contains(wrong), "{line}");
        }
        assert!(refused("quit now", State::Closed).contains("not `now`"));
        assert!(refused("run a b", State::Opened).contains("`b` is one word too many"));
    }
}
