//! Programs that a test makes and then runs.
//!
//! A file cannot be executed while a process has it open for writing (`ETXTBSY`). A test that
//! writes one itself may find so, though it has closed it: a process that another thread starts
//! meanwhile has a copy of the descriptor until its `exec`. So another process writes it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies a program, for everybody to run.
///
/// # Panics
///
/// If `install` (coreutils) fails.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let mut child = install(from.as_ref(), to.as_ref(), Stdio::null());
    assert!(child.wait().expect("own child").success());
}

/// Writes a script, for everybody to run.
///
/// # Panics
///
/// If `install` (coreutils) fails.
pub fn write_script(to: impl AsRef<Path>, text: &str) {
    let mut child = install(Path::new("/dev/stdin"), to.as_ref(), Stdio::piped());
    let mut input = child.stdin.take().expect("piped");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    assert!(child.wait().expect("own child").success());
}

fn install(from: &Path, to: &Path, input: Stdio) -> std::process::Child {
    let mut command = Command::new("install");
    command.args(["-m", "755"]).args([from, to]).stdin(input);
    command.spawn().expect("install is of coreutils")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// With `std::fs::copy` or `std::fs::write` some round is "text file busy".
    #[test]
    fn a_program_can_be_run_at_once_though_others_are_started_meanwhile() {
        const ROUNDS: usize = 100;
        let _alone = crate::STARTING.lock();
        let name = format!("hythe-testing-programs-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("made");
        let is_over = AtomicBool::new(false);
        let run = |path: &Path| Command::new(path).output().expect("not busy").stdout;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let status = Command::new("true").status();
                        assert!(status.expect("coreutils").success());
                    }
                });
            }
            let ended = std::panic::catch_unwind(|| {
                for round in 0..ROUNDS {
                    let path = folder.join(round.to_string());
                    write_script(&path, "#!/bin/sh\necho written\n");
                    assert_eq!(run(&path), b"written\n");
                    copy_program(&path, folder.join("copy"));
                    assert_eq!(run(&folder.join("copy")), b"written\n");
                }
            });
            is_over.store(true, Ordering::Relaxed);
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
        });
        std::fs::remove_dir_all(&folder).expect("own");
    }
}
