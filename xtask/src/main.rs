//! `cargo xtask`: the chores of this repository that need more than a line of shell.
//!
//! Called by people and by the Makefile, through the alias in `.cargo/config.toml`. Each chore is a
//! module with a `run` that returns what went wrong as text; only this file prints errors and picks
//! exit codes. Never a part of the product: nothing imports it, nothing ships it.

mod api;
mod boards;
mod licences;
mod metadata;
mod suite;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask CHORE

  tidy              check the rules of STYLE.md that a machine can check
  api [--write]     check or write docs/api.txt, the names that applications reach through hythe
  licences          check that every dependency may be linked under MIT OR Apache-2.0
  boards [BOARD…]   build the images of rtos/boards into target/boards
  sizes [--write]   check or write rtos/sizes.txt, what the C library costs on each board's compiler
  test [--slow [PART/PARTS]]
                    build and run all tests but the slow ones; or those, or a share of them
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((chore, rest)) => match (chore.as_str(), rest) {
            ("tidy", []) => tidy::run(),
            ("licences", []) => licences::run(),
            ("api", choice) => api::run(choice),
            ("boards", boards) => boards::run(boards),
            ("sizes", choice) => boards::sizes::run(choice),
            ("test", choice) => suite::run(choice),
            _ => return wrong_use(),
        },
        None => return wrong_use(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn wrong_use() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}
