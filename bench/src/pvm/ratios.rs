//! What is compared, and what the project wants of it.

use super::Row;
use super::case::{Case, Metric, Part, System};
use crate::bar::Bar::{self, AtLeast};
use crate::document::Ratio;
use crate::ipc::case::word;
use crate::statistics::paired_ratio;

const MIB: usize = 1 << 20;

/// All of them: others by ours, and PVM's parallel programs by those of MPI.
pub(super) fn all(rows: &[Row]) -> Vec<Ratio> {
    let below = |row: &&Row| {
        let is_program = row.case.subject.part() == Part::Programs;
        let is_mpi = matches!(row.case.system, System::Openmpi | System::Mpich);
        row.case.system.is_own() || (is_program && is_mpi)
    };
    let mut ratios = Vec::new();
    for own in rows.iter().filter(below) {
        let others = rows.iter().filter(|other| {
            let is_same = (other.metric, other.size) == (own.metric, own.size)
                && other.case.subject == own.case.subject
                && other.case.system != own.case.system;
            // Of programs by MPI, only those by PVM and by us.
            let is_mpi = !own.case.system.is_own();
            // Of our own two, one ratio is enough.
            let is_counted = own.case.system == System::Hythe && other.case.system.is_own();
            is_same && !is_counted && (!is_mpi || other.case.system == System::Pvm)
        });
        ratios.extend(others.map(|other| compared(own, other)));
    }
    ratios
}

fn compared(own: &Row, other: &Row) -> Ratio {
    Ratio {
        name: name(own.case, other.case.system, own.metric),
        size_bytes: own.size,
        value: paired_ratio(&other.medians(), &own.medians()),
    }
}

fn name(own: Case, other: System, metric: Metric) -> String {
    let systems = format!("{}/{}", word(other), word(own.system));
    let subject = own.subject.to_string().replace('/', " ");
    format!("{systems} {subject} {}", metric.name())
}

/// The bar of a ratio, if it has one: the larger, the faster we are.
pub(super) fn bar_of(ratio: &Ratio) -> Option<Bar> {
    let mut words = ratio.name.split(' ');
    let systems = words.next()?;
    let rest: Vec<&str> = words.collect();
    match (systems, rest.as_slice(), ratio.size_bytes) {
        ("pvm/hythe", ["local", "direct", "raw", "round_trip"], 64) => Some(AtLeast(5.0)),
        ("pvm/hythe", ["local", "direct", "raw", "round_trip"], MIB)
        | ("pvm/hythe", ["remote", "direct", "raw", "round_trip"], 64) => Some(AtLeast(4.0)),
        ("pvm/hythe", ["local", "direct", "default", "round_trip"], MIB) => Some(AtLeast(8.0)),
        ("pvm/hythe", ["remote", "direct", "raw", "round_trip"], MIB) => Some(AtLeast(2.0)),
        ("pvm/hythe", ["local", "direct", "inplace", "round_trip"], MIB)
        | ("pvm/hythe", [_, "spawn", _] | ["group", _, _], _)
        | ("pvm/hythe" | "pvm/hythe-native", [_, "1x1" | "2x1" | "2x2", "total"], _) => {
            Some(AtLeast(1.0))
        }
        // At most half of PVM's, at most 1.3 times as long as Open MPI.
        ("pvm/hythe" | "pvm/hythe-native", [_, "2x2", "communication"], _) => Some(AtLeast(2.0)),
        ("openmpi/hythe" | "openmpi/hythe-native", [_, "2x1" | "2x2", "total"], _) => {
            Some(AtLeast(1.0 / 1.3))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::{cases, subjects};
    use super::*;
    use crate::statistics;

    #[test]
    fn what_is_wanted_of_a_ratio_is_found_by_its_name() {
        let bar = |name: &str, size_bytes| {
            let (name, value) = (name.to_owned(), 1.0);
            bar_of(&Ratio {
                name,
                size_bytes,
                value,
            })
        };
        for (name, size, wanted) in [
            ("pvm/hythe local direct raw round_trip", 64, 5.0),
            ("pvm/hythe local direct raw round_trip", MIB, 4.0),
            ("pvm/hythe local direct default round_trip", MIB, 8.0),
            ("pvm/hythe local direct inplace round_trip", MIB, 1.0),
            ("pvm/hythe remote direct raw round_trip", 64, 4.0),
            ("pvm/hythe remote direct raw round_trip", MIB, 2.0),
            ("pvm/hythe remote spawn spawn", 0, 1.0),
            ("pvm/hythe group 4x2 barrier", 0, 1.0),
            ("pvm/hythe group 2x1 reduce", 8192, 1.0),
            ("pvm/hythe sort 2x2 communication", 0, 2.0),
            ("pvm/hythe sort 2x2 total", 0, 1.0),
            ("openmpi/hythe jacobi 2x1 total", 0, 1.0 / 1.3),
            ("openmpi/hythe-native jacobi 2x2 total", 0, 1.0 / 1.3),
            ("pvm/hythe-native jacobi 2x2 communication", 0, 2.0),
        ] {
            assert_eq!(bar(name, size), Some(AtLeast(wanted)), "{name} {size}");
        }
        // Reported only: more tasks than CPUs, and what is not ours.
        assert_eq!(bar("pvm/hythe sort 4x2 total", 0), None);
        assert_eq!(bar("pvm/openmpi sort 2x2 total", 0), None);
        assert_eq!(bar("pvm/hythe remote direct raw round_trip", 8), None);
    }

    /// Names of ratios that are made are the names that bars are found by.
    #[test]
    fn of_each_case_others_stand_above_and_ours_below() {
        let found = |case: Case, metric, time: u64| {
            let mut round = statistics::histogram();
            round.record(time).expect("in range");
            Row {
                run: 0,
                case,
                metric,
                size: 0,
                rounds: vec![round],
            }
        };
        let spawn = subjects().into_iter().find(|subject| {
            let name = subject.to_string();
            name == "remote/spawn"
        });
        let rows: Vec<Row> = cases(spawn.expect("one"))
            .map(|case| match case.system {
                System::Hythe => found(case, Metric::Spawn, 10),
                _ => found(case, Metric::Spawn, 30),
            })
            .collect();
        let ratios = all(&rows);
        assert_eq!(ratios.len(), 1);
        assert_eq!(ratios[0].name, "pvm/hythe remote spawn spawn");
        assert_eq!(ratios[0].value, 3.0);
        assert_eq!(bar_of(&ratios[0]), Some(AtLeast(1.0)));
    }
}
