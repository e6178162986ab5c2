//! Which tasks of a job are in which group, with which number.

use std::collections::BTreeMap;

use crate::tasks::id::TaskId;

/// The most groups that a job has at a time.
const GROUPS_MAX: usize = 1024;
/// The longest name.
const NAME_BYTES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<String, BTreeMap<u32, TaskId>>);

impl Groups {
    /// Gives a task the least number that is free in the group; one that is in it keeps its own.
    pub(super) fn join(&mut self, name: &str, task: TaskId) -> Result<(), String> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!(
                "a group's name has 1 to {NAME_BYTES_MAX} bytes, this one {}",
                name.len()
            ));
        }
        if !self.0.contains_key(name) && self.0.len() >= GROUPS_MAX {
            return Err(format!("there are {GROUPS_MAX} groups already"));
        }
        let group = self.0.entry(name.to_owned()).or_default();
        if !group.values().any(|member| *member == task) {
            let free = (0..).find(|number| !group.contains_key(number));
            group.insert(free.unwrap_or(0), task);
        }
        Ok(())
    }

    /// False: it was not in it.
    pub(super) fn leave(&mut self, name: &str, task: TaskId) -> bool {
        let Some(group) = self.0.get_mut(name) else {
            return false;
        };
        let before = group.len();
        group.retain(|_, member| *member != task);
        let has_left = group.len() < before;
        self.0.retain(|_, group| !group.is_empty());
        has_left
    }

    /// Takes a task that has ended out of all groups.
    pub(super) fn forget(&mut self, task: TaskId) {
        for group in self.0.values_mut() {
            group.retain(|_, member| *member != task);
        }
        self.0.retain(|_, group| !group.is_empty());
    }

    pub(super) fn members(&self, name: &str) -> Vec<(u32, TaskId)> {
        let group = self.0.get(name).into_iter().flatten();
        group.map(|(number, task)| (*number, *task)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(index: u32) -> TaskId {
        TaskId::new(1, index).expect("in range")
    }

    #[test]
    fn the_least_number_that_is_free_is_given() {
        let mut groups = Groups::default();
        for index in [5, 6, 7, 6] {
            groups.join("g", task(index)).expect("joined");
        }
        assert_eq!(
            groups.members("g"),
            [(0, task(5)), (1, task(6)), (2, task(7))]
        );
        assert!(groups.leave("g", task(5)));
        assert!(!groups.leave("g", task(5)));
        groups.join("g", task(8)).expect("joined");
        assert_eq!(groups.members("g")[0], (0, task(8)));
        groups.join("h", task(8)).expect("joined");
        groups.forget(task(8));
        assert_eq!(groups.members("g").len(), 2);
        assert!(groups.members("h").is_empty());
        assert!(groups.join("", task(1)).is_err());
        assert!(groups.join(&"n".repeat(65), task(1)).is_err());
    }
}
