//! What the project wants of the core hop on a board, so that a person sees at once which figures
//! fall short. The document for machines has figures only.

use super::case::{Case, Payload, System, Wait};
use super::ratios::{BY_SIZE, by_agent, by_copy};
use crate::bar::Bar::{self, AtLeast, AtMost};
use crate::document::Ratio;

/// The board that the aims are for.
const BOARD: &str = "mps2-an386";
/// Where processes and the core ring each other without the agent.
const EVENTFD_BOARD: &str = "virt-a53";
/// Below, a copy is short.
const COPY_IS_SHORT_BELOW: usize = 1 << 10;
const LARGEST: usize = 1 << 20;
const SMALLEST: usize = 8;

/// The bound of a ratio, if it has one. `smallest`: of all sizes of the run.
pub(super) fn of_ratio(board: &str, ratio: &Ratio, smallest: usize) -> Option<Bar> {
    if board == EVENTFD_BOARD {
        return is_by_agent(ratio).then_some(AtLeast(1.5));
    }
    if board != BOARD {
        return None;
    }
    let is = |wait, payload| {
        let system = System::Hythe;
        let case = Case {
            system,
            wait,
            payload,
        };
        ratio.name == by_copy(case)
    };
    let poll = is(Wait::Poll, Payload::Untouched);
    let bell = is(Wait::Bell, Payload::Untouched);
    let filled = is(Wait::Poll, Payload::Filled) || is(Wait::Bell, Payload::Filled);
    let by_size = ratio.name == format!("hythe poll untouched {BY_SIZE}");
    match ratio.size_bytes {
        LARGEST if poll || bell => Some(AtLeast(10.0)),
        LARGEST if filled => Some(AtLeast(1.3)),
        LARGEST if by_size && smallest == SMALLEST => Some(AtMost(1.5)),
        size if size >= COPY_IS_SHORT_BELOW && (poll || bell) => Some(AtLeast(1.0)),
        _ if bell => Some(AtLeast(0.85)),
        _ if poll => Some(AtLeast(0.7)),
        _ => None,
    }
}

/// For short messages and long ones: only a descriptor travels. What both sides do with a payload
/// that they fill has nothing to do with the way of their rings.
fn is_by_agent(ratio: &Ratio) -> bool {
    let case = Case {
        system: System::Hythe,
        wait: Wait::Bell,
        payload: Payload::Untouched,
    };
    ratio.name == by_agent(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(board: &str, name: &str, size_bytes: usize) -> Option<Bar> {
        let name = name.to_owned();
        let ratio = Ratio {
            name,
            size_bytes,
            value: 1.0,
        };
        of_ratio(board, &ratio, 8)
    }

    #[test]
    fn aims_are_by_size_and_for_one_board() {
        let poll = "copy/hythe poll untouched p50";
        let sizes = [8, 512, 1024, 1 << 20];
        let found = sizes.map(|size| bar(BOARD, poll, size));
        let wanted = [0.7, 0.7, 1.0, 10.0].map(|bound| Some(AtLeast(bound)));
        assert_eq!(found, wanted);
        let bell = "copy/hythe bell untouched p50";
        assert_eq!(bar(BOARD, bell, 8), Some(AtLeast(0.85)));
        let filled = "copy/hythe bell filled p50";
        assert_eq!(bar(BOARD, filled, 1 << 20), Some(AtLeast(1.3)));
        assert_eq!(bar(BOARD, filled, 8), None);
        let by_size = "hythe poll untouched p50 largest/smallest size";
        assert_eq!(bar(BOARD, by_size, 1 << 20), Some(AtMost(1.5)));
        assert_eq!(bar(BOARD, by_size, 1024), None);
        assert_eq!(bar("hosted", poll, 8), None);
        let by_agent = "agent/eventfd bell untouched p50";
        assert_eq!(bar("virt-a53", by_agent, 8), Some(AtLeast(1.5)));
        assert_eq!(bar("virt-a53", bell, 8), None);
    }
}
