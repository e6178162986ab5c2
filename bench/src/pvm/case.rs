//! What is measured: a system, and what it does.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::host::case::Reach;
use crate::ipc::case::word;

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum System {
    /// PVM 3.4.
    Pvm,
    /// The same programs, not compiled again, with Hythe's libraries.
    Hythe,
    /// Tasks of Hythe without PVM's interface: program jacobi only.
    HytheNative,
    /// Open MPI: the parallel programs and NetPIPE.
    Openmpi,
    /// MPICH: the parallel programs and NetPIPE.
    Mpich,
    /// A TCP stream: NetPIPE only.
    Tcp,
}

impl System {
    /// Is it this project's?
    pub(super) const fn is_own(self) -> bool {
        matches!(self, Self::Hythe | Self::HytheNative)
    }
}

/// Kinds of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// There and back between two tasks.
    Messages,
    /// Packing and unpacking, without sending.
    Packing,
    /// Spawning, barriers, reductions.
    Groups,
    /// The parallel programs of `bench/programs`.
    Programs,
    /// NetPIPE, between two hosts.
    Netpipe,
}

/// How tasks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Route {
    /// Connected with each other.
    Direct,
    /// By way of the daemons.
    Daemon,
}

/// How data are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Encoding {
    /// Bytes, as they are.
    Raw,
    /// Integers, by PVM's default encoding, which is XDR.
    Default,
    /// Bytes, read from where they are when they are sent.
    Inplace,
}

/// Of packing, its two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Packing {
    Pack,
    Unpack,
}

/// What a group does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Operation {
    /// None goes on before all are there.
    Barrier,
    /// A sum that all get.
    Reduce,
}

/// A file of `bench/programs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Program {
    Jacobi,
    Matrix,
    Sort,
    Gradients,
}

/// How many tasks on how many hosts; of two, each has every second task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placement {
    pub(crate) tasks: usize,
    pub(crate) is_remote: bool,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Subject {
    Messages {
        reach: Reach,
        route: Route,
        encoding: Encoding,
    },
    Packing {
        half: Packing,
        encoding: Encoding,
    },
    Spawn(Reach),
    Group(Operation, Placement),
    Program(Program, Placement),
    Netpipe,
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) system: System,
    pub(crate) subject: Subject,
}

/// What a figure of a case is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Metric {
    RoundTrip,
    Pack,
    Unpack,
    Spawn,
    Barrier,
    Reduce,
    Total,
    Communication,
    OneWay,
}

impl Metric {
    /// In a document.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::RoundTrip => "round_trip",
            Self::Pack => "pack",
            Self::Unpack => "unpack",
            Self::Spawn => "spawn",
            Self::Barrier => "barrier",
            Self::Reduce => "reduce",
            Self::Total => "total",
            Self::Communication => "communication",
            Self::OneWay => "one_way",
        }
    }
}

impl Placement {
    const fn new(tasks: usize, is_remote: bool) -> Self {
        Self { tasks, is_remote }
    }
}

impl Subject {
    pub(super) const fn part(self) -> Part {
        match self {
            Self::Messages { .. } => Part::Messages,
            Self::Packing { .. } => Part::Packing,
            Self::Spawn(_) | Self::Group(..) => Part::Groups,
            Self::Program(..) => Part::Programs,
            Self::Netpipe => Part::Netpipe,
        }
    }

    /// The systems that have it.
    const fn systems(self) -> &'static [System] {
        use System::{Hythe, HytheNative, Mpich, Openmpi, Pvm, Tcp};
        match self {
            Self::Messages { .. } | Self::Packing { .. } | Self::Spawn(_) | Self::Group(..) => {
                &[Pvm, Hythe]
            }
            Self::Program(Program::Jacobi, _) => &[Pvm, Hythe, HytheNative, Openmpi, Mpich],
            Self::Program(..) => &[Pvm, Hythe, Openmpi, Mpich],
            Self::Netpipe => &[Tcp, Openmpi, Mpich, Pvm, Hythe],
        }
    }

    /// Does it go from one host to the other?
    pub(super) const fn is_remote(self) -> bool {
        match self {
            Self::Messages { reach, .. } | Self::Spawn(reach) => matches!(reach, Reach::Remote),
            Self::Packing { .. } => false,
            Self::Group(_, placement) | Self::Program(_, placement) => placement.is_remote,
            Self::Netpipe => true,
        }
    }

    /// Tasks at one time.
    const fn tasks(self) -> usize {
        match self {
            Self::Packing { .. } => 1,
            Self::Messages { .. } | Self::Spawn(_) | Self::Netpipe => 2,
            Self::Group(_, placement) | Self::Program(_, placement) => placement.tasks,
        }
    }

    /// Do its tasks have to give their CPUs away while they wait, because there are more of them
    /// than CPUs of a run?
    pub(super) fn shares_cpus(self, cpus: Option<[usize; 2]>) -> bool {
        self.tasks() > cpus.map_or(1, |both| both.len())
    }

    /// Payloads, of those that are asked for; one of 0 bytes where a case has its own or none.
    pub(super) fn sizes(self, asked: &[usize]) -> Vec<usize> {
        match self {
            Self::Messages { .. } | Self::Packing { .. } => asked.to_vec(),
            Self::Group(Operation::Reduce, _) => vec![8, 8192],
            Self::Group(Operation::Barrier, _)
            | Self::Spawn(_)
            | Self::Program(..)
            | Self::Netpipe => vec![0],
        }
    }
}

/// All that make sense. Each is measured by all of its systems, one after the other.
pub(super) fn subjects() -> Vec<Subject> {
    // First, because NetPIPE wants a virtual machine without other tasks.
    let mut subjects = vec![Subject::Netpipe];
    for &reach in Reach::value_variants() {
        for &encoding in Encoding::value_variants() {
            let message = |route| Subject::Messages {
                reach,
                route,
                encoding,
            };
            subjects.push(message(Route::Direct));
            if encoding == Encoding::Raw {
                subjects.push(message(Route::Daemon));
            }
        }
    }
    for &encoding in Encoding::value_variants() {
        let halves = Packing::value_variants().iter();
        subjects.extend(halves.map(|&half| Subject::Packing { half, encoding }));
    }
    subjects.extend(Reach::value_variants().iter().copied().map(Subject::Spawn));
    let groups = [2, 4].map(|tasks| [false, true].map(|remote| Placement::new(tasks, remote)));
    for &operation in Operation::value_variants() {
        let of_it = groups.as_flattened().iter();
        subjects.extend(of_it.map(|&placement| Subject::Group(operation, placement)));
    }
    for &program in Program::value_variants() {
        subjects.push(Subject::Program(program, Placement::new(1, false)));
        let of_it = groups.as_flattened().iter();
        subjects.extend(of_it.map(|&placement| Subject::Program(program, placement)));
    }
    subjects
}

impl Case {
    /// Why it is not measured on these CPUs, whatever is installed.
    pub(super) fn why_not_on(self, cpus: Option<[usize; 2]>) -> Result<(), String> {
        if self.system != System::Mpich || !self.subject.shares_cpus(cpus) {
            return Ok(());
        }
        // On two CPUs four of them take thousands of times as long as two, or do not end at all.
        Err("its ranks spin while they wait, and there are more of them than CPUs".to_owned())
    }
}

/// A subject by each of its systems.
pub(super) fn cases(subject: Subject) -> impl Iterator<Item = Case> {
    let systems = subject.systems().iter();
    systems.map(move |&system| Case { system, subject })
}

impl fmt::Display for Placement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}x{}", self.tasks, 1 + usize::from(self.is_remote))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Messages {
                reach,
                route,
                encoding,
            } => {
                let (reach, route) = (word(reach), word(route));
                write!(out, "{reach}/{route}/{}", word(encoding))
            }
            // Nothing is sent: the same wherever the other task is.
            Self::Packing { encoding, .. } => write!(out, "local/direct/{}", word(encoding)),
            Self::Spawn(reach) => write!(out, "{}/spawn", word(reach)),
            Self::Group(_, placement) => write!(out, "group/{placement}"),
            Self::Program(program, placement) => write!(out, "{}/{placement}", word(program)),
            Self::Netpipe => write!(out, "remote/netpipe"),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", word(self.system), self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_the_names_that_other_tools_read() {
        let names: Vec<String> = subjects()
            .into_iter()
            .flat_map(cases)
            .map(|case| case.to_string())
            .collect();
        for name in [
            "pvm/local/direct/raw",
            "pvm/local/daemon/raw",
            "hythe/remote/direct/default",
            "hythe/remote/direct/inplace",
            "pvm/remote/spawn",
            "pvm/group/4x2",
            "pvm/jacobi/1x1",
            "openmpi/gradients/2x2",
            "hythe-native/jacobi/2x2",
            "mpich/sort/4x1",
            "tcp/remote/netpipe",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
        assert!(!names.iter().any(|name| name.ends_with("/1x2")));
        assert!(!names.iter().any(|name| name == "hythe-native/sort/2x2"));
    }

    #[test]
    fn ranks_that_spin_are_measured_only_where_each_has_a_cpu() {
        let skipped = |cpus| -> Vec<String> {
            let cases = subjects().into_iter().flat_map(cases);
            let skipped = cases.filter(|case| case.why_not_on(cpus).is_err());
            skipped.map(|case| case.to_string()).collect()
        };
        let of_each = |placements: &[&str]| -> Vec<String> {
            let programs = Program::value_variants().iter();
            let names = programs.flat_map(|&program| {
                let name = move |placement| format!("mpich/{}/{placement}", word(program));
                placements.iter().map(name)
            });
            names.collect()
        };
        assert_eq!(skipped(Some([0, 1])), of_each(&["4x1", "4x2"]));
        let mut on_one = vec!["mpich/remote/netpipe".to_owned()];
        on_one.extend(of_each(&["2x1", "2x2", "4x1", "4x2"]));
        assert_eq!(skipped(None), on_one);
    }

    #[test]
    fn subjects_of_two_hosts_say_so_in_their_names() {
        for subject in subjects() {
            let name = subject.to_string();
            let is_remote = name.starts_with("remote/") || name.ends_with("x2");
            assert_eq!(subject.is_remote(), is_remote, "{name}");
        }
    }
}
