//! Options of `mpirun` that have one dash and a long name, such as `-np`, for `hythe run`.
//!
//! clap takes such a word for short options. Only where that makes no sense, the words are looked
//! at again. Never changes what is understood as it is.

use std::ffi::OsString;

use hythe_command::CommandLine;
use hythe_command::args::Globals;

use crate::JobsCommand;

const LONG_NAMES: [&str; 5] = ["-np", "-wdir", "-host", "-hosts", "-hostfile"];

/// The arguments of this process, the program's name first.
pub(crate) fn parse(
    line: &CommandLine,
    mut words: Vec<OsString>,
) -> Result<(Globals, JobsCommand), clap::Error> {
    let mut refused = match line.parse(&words) {
        Ok(parsed) => return Ok(parsed),
        Err(refused) => refused,
    };
    if !words.iter().any(|word| word == "run") {
        return Err(refused);
    }
    // From the left: those of the program that is run are reached last, and not before it is
    // understood.
    for index in 1..words.len() {
        if LONG_NAMES.iter().any(|name| words[index] == *name) {
            let mut long = OsString::from("-");
            long.push(&words[index]);
            words[index] = long;
            match line.parse(&words) {
                Ok(parsed) => return Ok(parsed),
                Err(error) => refused = error,
            }
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn run(line: &str) -> Option<hythe_jobs_command::RunArgs> {
        let words = line.split(' ').map(OsString::from).collect();
        match parse(&command_line(), words).ok()?.1 {
            JobsCommand::Run(args) => Some(args),
            _ => None,
        }
    }

    #[test]
    fn options_are_those_of_mpirun() {
        for line in [
            "hythe run -n2 prog -np 3",
            "hythe run -n 2 prog -np 3",
            "hythe run -np 2 prog -np 3",
            "hythe run --np 2 -- prog -np 3",
            "hythe run -host localhost -wdir /tmp -np 2 prog -np 3",
            "hythe run -np 2 -H localhost --wdir /tmp prog -np 3",
        ] {
            let args = run(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(args.count, Some(2), "{line}");
            assert_eq!(args.program, ["prog", "-np", "3"], "{line}");
        }
    }

    #[test]
    fn unknown_options_before_the_program_are_refused() {
        for line in [
            "hythe run --oversubscribe prog",
            "hythe run -n 2 -q prog",
            "hythe run --oversubscribe prog -np 2",
            "hythe run -np two prog",
            "hythe tasks -np 2",
        ] {
            assert!(run(line).is_none(), "{line}");
        }
        let args = run("hythe run -- -odd -x").expect("behind the dashes");
        assert_eq!(args.program, ["-odd", "-x"]);
    }
}
