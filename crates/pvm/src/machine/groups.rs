//! Groups: tasks with numbers, under a name.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::tid::Tid;

const GROUPS_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) members: BTreeMap<i32, Tid>,
    /// None joins or leaves any more.
    pub(super) is_static: bool,
    /// A member of a static group has left: it is of no use any more.
    pub(super) is_defunct: bool,
}

impl Group {
    pub(super) fn instance(&self, task: Tid) -> Option<i32> {
        let mut members = self.members.iter();
        members
            .find(|(_, one)| **one == task)
            .map(|(number, _)| *number)
    }

    /// Fits: a machine has fewer tasks.
    pub(super) fn size(&self) -> i32 {
        self.members.len() as i32
    }
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<String, Group>,
}

impl Groups {
    pub(super) fn find(&self, name: &str) -> Result<&Group, Code> {
        check(name)?;
        self.groups.get(name).ok_or(Code::NO_GROUP)
    }

    pub(super) fn find_mut(&mut self, name: &str) -> Result<&mut Group, Code> {
        check(name)?;
        self.groups.get_mut(name).ok_or(Code::NO_GROUP)
    }

    /// The least number that is free.
    pub(super) fn join(&mut self, name: &str, task: Tid) -> Result<i32, Code> {
        check(name)?;
        if !self.groups.contains_key(name) && self.groups.len() == GROUPS_MAX {
            return Err(Code::OUT_OF_RESOURCES);
        }
        let group = self.groups.entry(name.to_owned()).or_default();
        // What PVM says of it, also to its members.
        if group.is_static {
            return Err(Code::NOT_IN_GROUP);
        }
        if group.instance(task).is_some() {
            return Err(Code::DUPLICATE_GROUP);
        }
        let free = (0..).find(|number| !group.members.contains_key(number));
        let number = free.ok_or(Code::OUT_OF_RESOURCES)?;
        group.members.insert(number, task);
        Ok(number)
    }

    /// A group without members is gone.
    pub(super) fn leave(&mut self, name: &str, task: Tid) -> Result<(), Code> {
        let group = self.find_mut(name)?;
        let number = group.instance(task).ok_or(Code::NOT_IN_GROUP)?;
        group.members.remove(&number);
        group.is_defunct |= group.is_static;
        if group.members.is_empty() {
            self.groups.remove(name);
        }
        Ok(())
    }

    /// All that a task is in.
    pub(super) fn of(&self, task: Tid) -> Vec<String> {
        let groups = self.groups.iter();
        let of = groups.filter(|(_, group)| group.instance(task).is_some());
        of.map(|(name, _)| name.clone()).collect()
    }
}

fn check(name: &str) -> Result<(), Code> {
    match name.len() {
        0 => Err(Code::NULL_GROUP),
        1..=NAME_BYTES_MAX => Ok(()),
        _ => Err(Code::BAD_PARAMETER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(local: u32) -> Tid {
        Tid::task(crate::tid::FIRST_HOST, local).expect("in range")
    }

    #[test]
    fn numbers_are_the_least_that_are_free() {
        let mut groups = Groups::default();
        for number in 0..3 {
            assert_eq!(groups.join("g", task(number as u32 + 1)), Ok(number));
        }
        assert_eq!(groups.join("g", task(2)), Err(Code::DUPLICATE_GROUP));
        assert_eq!(groups.leave("g", task(2)), Ok(()));
        assert_eq!(groups.leave("g", task(2)), Err(Code::NOT_IN_GROUP));
        assert_eq!(groups.join("g", task(7)), Ok(1));
        assert_eq!(groups.of(task(7)), ["g"]);
        for one in [1, 3, 7] {
            groups.leave("g", task(one)).expect("a member");
        }
        assert_eq!(groups.leave("g", task(1)), Err(Code::NO_GROUP));
        assert_eq!(groups.join("", task(1)), Err(Code::NULL_GROUP));
    }

    #[test]
    fn static_group_takes_nobody_and_ends_with_a_member() {
        let mut groups = Groups::default();
        groups.join("g", task(1)).expect("new");
        groups.join("g", task(2)).expect("new");
        groups.find_mut("g").expect("it is there").is_static = true;
        for one in [1, 3] {
            assert_eq!(groups.join("g", task(one)), Err(Code::NOT_IN_GROUP));
        }
        groups.leave("g", task(1)).expect("a member");
        assert!(groups.find("g").expect("one is left").is_defunct);
    }
}
