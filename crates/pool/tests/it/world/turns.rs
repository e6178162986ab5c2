//! Random turns of members, for the model of the ledger.

use proptest::prelude::*;

pub(crate) const MEMBERS: usize = 4;
const TURNS: usize = 120;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Lease,
    /// One of the slots held, by its place in the list, and how many.
    Duplicate(usize, u32),
    Release(usize, u32),
    Send(usize, usize),
    Take(usize),
    Give(usize),
    Reclaim(usize),
    Connect(usize),
    /// Leaves the connection to or from that member.
    Leave(usize, bool),
}

/// Who does it, what, and before which of its stores the doer dies (most do not).
pub(crate) type Turn = (usize, Step, Option<u32>);

pub(crate) fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let pick = 0..8_usize;
    let member = 0..MEMBERS;
    let step = prop_oneof![
        4 => Just(Step::Lease),
        3 => (pick.clone(), 1..4_u32).prop_map(|(pick, more)| Step::Duplicate(pick, more)),
        3 => (pick.clone(), 1..4_u32).prop_map(|(pick, count)| Step::Release(pick, count)),
        8 => (pick.clone(), member.clone()).prop_map(|(pick, to)| Step::Send(pick, to)),
        6 => member.clone().prop_map(Step::Take),
        2 => pick.clone().prop_map(Step::Give),
        2 => pick.prop_map(Step::Reclaim),
        4 => member.clone().prop_map(Step::Connect),
        2 => (member.clone(), any::<bool>()).prop_map(|(other, out)| Step::Leave(other, out)),
    ];
    let death = prop_oneof![8 => Just(None), 1 => (1..40_u32).prop_map(Some)];
    proptest::collection::vec((member, step, death), 1..TURNS)
}
