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

/// Fails if a program that `cargo` built is older than its sources: `cargo test` of one package
/// builds none of another one, and what is tested then is not what was written.
///
/// # Panics
///
/// If a source was changed after the program was built.
pub fn assert_is_built_of_its_sources(program: &Path) {
    let changed = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|file| file.modified())
            .ok()
    };
    // Where it was not built, both are missing.
    let Some(built) = changed(program) else {
        return;
    };
    let sources = std::fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let sources = sources
        .split_once(": ")
        .map_or("", |(_program, sources)| sources);
    for source in sources.replace("\\ ", "\0").split_whitespace() {
        let source = source.replace('\0', " ");
        assert!(
            changed(Path::new(&source)).is_none_or(|changed| changed <= built),
            "{} is older than {source}: `cargo build --workspace` first",
            program.display()
        );
    }
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

    #[test]
    fn program_older_than_a_source_is_found() {
        let name = format!("hythe-testing-built-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("made");
        let [program, source] = ["program", "a source"].map(|name| folder.join(name));
        let at = |path: &Path, seconds| {
            let file = std::fs::File::create(path).expect("made");
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.set_modified(time).expect("own");
        };
        let written = source.display().to_string().replace(' ', "\\ ");
        let text = format!("{}: /nowhere/else {written}\n", program.display());
        std::fs::write(program.with_extension("d"), text).expect("made");
        at(&source, 2_000);
        let is_found =
            || std::panic::catch_unwind(|| assert_is_built_of_its_sources(&program)).is_err();
        assert!(!is_found(), "there is no program");
        at(&program, 1_999);
        assert!(is_found());
        at(&program, 2_000);
        assert!(!is_found());
        std::fs::remove_dir_all(&folder).expect("own");
    }

    /// With `std::fs::copy` or `std::fs::write` some round is "text file busy".
    #[test]
    fn written_program_runs_at_once_beside_other_starts() {
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
