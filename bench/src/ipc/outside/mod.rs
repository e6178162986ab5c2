//! Systems whose users write C, C++ or Java: Open MPI, MPICH, iceoryx, Cyclone DDS, Aeron IPC.
//!
//! Each is a small program (`bench/peers`), compiled for the run, that measures by itself and
//! prints what it found. What is not installed is left out, and why is said. Nothing of the project
//! needs these systems, and none of them takes part in a run of another.

mod aeron;
mod iceoryx;
mod roudi;

use std::cell::OnceCell;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use self::roudi::Roudi;
use super::case::{Pattern, System, word};
use crate::error::BenchError;
use crate::lookout::SILENCE_BOUND;
use crate::starter::{self, STARTING, mpi};

/// One run of one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) system: System,
    pub(super) pattern: Pattern,
    pub(super) size: usize,
    /// Round trips at most, or messages of a rate.
    pub(super) count: u64,
    pub(super) time: Duration,
    pub(super) cpus: Option<[usize; 2]>,
}

impl Exchange {
    /// The words of the plan: size, count, seconds.
    fn plan(&self) -> [String; 3] {
        [
            self.size.to_string(),
            self.count.to_string(),
            self.time.as_secs_f64().to_string(),
        ]
    }

    /// -1: wherever the system likes.
    fn cpu_words(&self) -> [String; 2] {
        let cpus = self.cpus.map(|cpus| cpus.map(|cpu| cpu as i64));
        cpus.unwrap_or([-1; 2]).map(|cpu| cpu.to_string())
    }

    /// A program that is killed then.
    fn bound(&self) -> Duration {
        STARTING + SILENCE_BOUND + 2 * self.time
    }
}

/// What is compiled and started for a run, removed and ended behind it.
#[derive(Debug, Default)]
pub(super) struct Outside {
    folder: OnceCell<TempDir>,
    /// For what is mapped by both sides.
    shared: OnceCell<TempDir>,
    /// Serves iceoryx and Cyclone DDS.
    roudi: OnceCell<Roudi>,
}

impl Outside {
    /// Compiles and starts what a system needs. Why that is not possible here.
    pub(super) fn prepare(&self, system: System) -> Result<(), String> {
        let folder = self.folder().map_err(|error| error.to_string())?;
        match system {
            System::Openmpi => mpi::Mpi::Open.prepare_peer(folder),
            System::Mpich => mpi::Mpi::Mpich.prepare_peer(folder),
            System::Iceoryx => {
                iceoryx::prepare(folder)?;
                self.start_roudi(folder)
            }
            System::Cyclonedds => {
                iceoryx::prepare_dds(folder, SIZE_TRIED)?;
                self.start_roudi(folder)
            }
            System::Aeron => aeron::prepare(folder),
            // Part of this program.
            _ => Ok(()),
        }
    }

    /// What the measuring side printed: times, a line each, or a rate.
    pub(super) fn run(&self, exchange: &Exchange) -> Result<String, BenchError> {
        let folder = self.folder()?;
        match exchange.system {
            System::Openmpi => run_mpi(mpi::Mpi::Open, folder, exchange),
            System::Mpich => run_mpi(mpi::Mpi::Mpich, folder, exchange),
            System::Iceoryx => run_pair(iceoryx::commands(folder, exchange), exchange),
            System::Cyclonedds => {
                iceoryx::prepare_dds(folder, exchange.size).map_err(BenchError::Unable)?;
                run_pair(iceoryx::dds_commands(folder, exchange), exchange)
            }
            _ => {
                let place = made(&self.shared, Path::new("/dev/shm"))?;
                run_pair(aeron::commands(folder, place, exchange)?, exchange)
            }
        }
    }

    fn folder(&self) -> std::io::Result<&Path> {
        made(&self.folder, &std::env::temp_dir())
    }

    fn start_roudi(&self, folder: &Path) -> Result<(), String> {
        if self.roudi.get().is_none() {
            let started = Roudi::start(folder)?;
            // Nobody else can have been quicker: it is not shared between threads.
            let _ = self.roudi.set(started);
        }
        Ok(())
    }
}

/// The folder of this run alone, below `above`.
fn made<'a>(folder: &'a OnceCell<TempDir>, above: &Path) -> std::io::Result<&'a Path> {
    if let Some(made) = folder.get() {
        return Ok(made.path());
    }
    let prefix = format!("hythe_bench_{}_", std::process::id());
    let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(above)?;
    Ok(folder.get_or_init(|| made).path())
}

/// Whether a message of it can be made and sent shows at any size.
const SIZE_TRIED: usize = 64;

/// The pattern, as the programs know it.
fn pattern_word(exchange: &Exchange) -> String {
    word(exchange.pattern)
}

fn run_mpi(mpi: mpi::Mpi, folder: &Path, exchange: &Exchange) -> Result<String, BenchError> {
    let mut command = mpi.local_peer(folder);
    command.args(exchange.plan()).args(exchange.cpu_words());
    if exchange.pattern == Pattern::Single {
        command.arg("single");
    }
    starter::output(&mut command, exchange.bound())
}

/// The near and the far side of a pair of processes, in this order.
type Pair = [Command; 2];

fn run_pair([mut near, far]: Pair, exchange: &Exchange) -> Result<String, BenchError> {
    let mut far = Companion::start(far)?;
    let printed = starter::output(&mut near, exchange.bound())?;
    far.wait(LEAVING)?;
    Ok(printed)
}

/// For the far side, which was told that it is over, to give back what it has.
const LEAVING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(2);

/// A process that is ended when dropped.
#[derive(Debug)]
struct Companion(Child);

impl Companion {
    fn start(mut command: Command) -> Result<Self, BenchError> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // What it complains about, people shall see.
        hythe_sys::spawn::die_with_parent(&mut command);
        Ok(Self(command.spawn()?))
    }

    /// Until it ends by itself, but no longer than this: then it is ended.
    fn wait(&mut self, bound: Duration) -> std::io::Result<()> {
        let start = Instant::now();
        while start.elapsed() < bound && self.0.try_wait()?.is_none() {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        // Gone already, or ended now: either way it is waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(cpus: Option<[usize; 2]>) -> Exchange {
        Exchange {
            system: System::Mpich,
            pattern: Pattern::Filled,
            size: 64,
            count: 100,
            time: Duration::from_millis(1500),
            cpus,
        }
    }

    #[test]
    fn programs_are_told_the_plan_and_their_cpus() {
        let on_two = exchange(Some([1, 3]));
        assert_eq!(on_two.plan(), ["64", "100", "1.5"]);
        assert_eq!(on_two.cpu_words(), ["1", "3"]);
        assert_eq!(exchange(None).cpu_words(), ["-1", "-1"]);
        assert_eq!(pattern_word(&on_two), "filled");
    }

    #[test]
    fn companion_ends_with_its_run() {
        let mut sleeper = Command::new("sleep");
        sleeper.arg("600");
        let companion = Companion::start(sleeper).expect("started");
        let process = format!("/proc/{}", companion.0.id());
        assert!(Path::new(&process).exists());
        drop(companion);
        assert!(!Path::new(&process).exists());
    }
}
