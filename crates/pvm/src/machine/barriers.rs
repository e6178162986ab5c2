//! Tasks that wait for each other at a barrier, or until a group is frozen.

use std::collections::BTreeMap;

use super::groups::Groups;
use crate::code::Code;
use crate::tid::Tid;

/// For what they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    Barrier,
    Freeze,
}

#[derive(Debug)]
struct Meeting {
    count: i32,
    waiting: Vec<Tid>,
}

#[derive(Debug, Default)]
pub(super) struct Barriers {
    meetings: BTreeMap<(String, Purpose), Meeting>,
}

impl Barriers {
    /// A task comes. Returns who goes on, itself included.
    pub(super) fn arrive(
        &mut self,
        groups: &mut Groups,
        purpose: Purpose,
        name: &str,
        task: Tid,
        count: i32,
    ) -> Result<Vec<Tid>, Code> {
        let group = groups.find_mut(name)?;
        if purpose == Purpose::Freeze && group.is_static {
            return Err(Code::DUPLICATE_GROUP);
        }
        if group.instance(task).is_none() {
            return Err(Code::NOT_IN_GROUP);
        }
        if group.is_defunct {
            return Err(Code::NO_GROUP);
        }
        let count = match count {
            -1 => group.size(),
            1.. => count,
            // As PVM's group server says.
            _ => return Err(Code::MISMATCH),
        };
        let key = (name.to_owned(), purpose);
        let meeting = self.meetings.entry(key.clone()).or_insert(Meeting {
            count,
            waiting: Vec::new(),
        });
        if meeting.count != count {
            return Err(Code::MISMATCH);
        }
        meeting.waiting.push(task);
        if (meeting.waiting.len() as i32) < meeting.count {
            return Ok(Vec::new());
        }
        let met = self.meetings.remove(&key);
        if purpose == Purpose::Freeze {
            group.is_static = true;
        }
        Ok(met.map(|meeting| meeting.waiting).unwrap_or_default())
    }

    /// A member has left a group, or is gone. Those who now would wait for more than there are go
    /// on with an error.
    pub(super) fn member_left(&mut self, groups: &Groups, name: &str, task: Tid) -> Vec<Tid> {
        let mut released = Vec::new();
        for purpose in [Purpose::Barrier, Purpose::Freeze] {
            let key = (name.to_owned(), purpose);
            let Some(meeting) = self.meetings.get_mut(&key) else {
                continue;
            };
            meeting.waiting.retain(|one| *one != task);
            let group = groups.find(name);
            let is_possible = group
                .as_ref()
                .is_ok_and(|group| !group.is_defunct && group.size() >= meeting.count);
            if is_possible && !meeting.waiting.is_empty() {
                continue;
            }
            let ended = self.meetings.remove(&key);
            released.extend(ended.into_iter().flat_map(|meeting| meeting.waiting));
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(local: u32) -> Tid {
        Tid::task(crate::tid::FIRST_HOST, local).expect("in range")
    }

    fn group_of(tasks: u32) -> (Groups, Barriers) {
        let mut groups = Groups::default();
        for one in 1..=tasks {
            groups.join("g", task(one)).expect("new");
        }
        (groups, Barriers::default())
    }

    #[test]
    fn last_one_lets_all_go_on_and_it_can_be_used_again() {
        let (mut groups, mut barriers) = group_of(3);
        let mut arrive =
            |one, count| barriers.arrive(&mut groups, Purpose::Barrier, "g", task(one), count);
        for _ in 0..2 {
            assert_eq!(arrive(1, 2), Ok(Vec::new()));
            assert_eq!(arrive(3, 2), Ok(vec![task(1), task(3)]));
        }
        assert_eq!(arrive(1, 2), Ok(Vec::new()));
        assert_eq!(arrive(2, 3), Err(Code::MISMATCH));
        assert_eq!(arrive(9, 2), Err(Code::NOT_IN_GROUP));
        assert_eq!(arrive(2, 0), Err(Code::MISMATCH));
    }

    #[test]
    fn nobody_waits_for_one_that_has_left() {
        let (mut groups, mut barriers) = group_of(3);
        for one in [1, 2] {
            let arrived = barriers.arrive(&mut groups, Purpose::Barrier, "g", task(one), -1);
            assert_eq!(arrived, Ok(Vec::new()));
        }
        groups.leave("g", task(3)).expect("a member");
        let released = barriers.member_left(&groups, "g", task(3));
        assert_eq!(released, [task(1), task(2)]);
        assert_eq!(barriers.member_left(&groups, "g", task(3)), []);
    }

    #[test]
    fn freezing_brings_all_together_once() {
        let (mut groups, mut barriers) = group_of(2);
        let mut freeze = |one| barriers.arrive(&mut groups, Purpose::Freeze, "g", task(one), 2);
        assert_eq!(freeze(1), Ok(Vec::new()));
        assert_eq!(freeze(2).map(|all| all.len()), Ok(2));
        for one in [1, 3] {
            assert_eq!(freeze(one), Err(Code::DUPLICATE_GROUP), "{one}");
        }
    }
}
