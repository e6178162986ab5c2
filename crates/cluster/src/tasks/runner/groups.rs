//! Which tasks of a job are in which group, with which number.

use std::collections::BTreeMap;

use crate::tasks::id::TaskId;

/// The most groups that a job has at a time.
const GROUPS_MAX: usize = 1024;
/// The longest name.
const NAME_BYTES_MAX: usize = 64;

#[derive(Debug, Default)]
struct Members {
    tasks: BTreeMap<u32, TaskId>,
    barrier: Option<Barrier>,
    /// The last that has ended as a member since members came together, or one joined.
    ended: Option<TaskId>,
}

/// Where members wait for each other.
#[derive(Debug)]
struct Barrier {
    /// How many have to come.
    count: usize,
    come: Vec<TaskId>,
}

/// Those that waited at a barrier go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) group: String,
    pub(super) tasks: Vec<TaskId>,
    /// A member that has ended, without which they are too few.
    pub(super) missing: Option<TaskId>,
}

#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<String, Members>);

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
        group.ended = None;
        let group = &mut group.tasks;
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
        let has_left = group.remove(task);
        self.0.retain(|_, group| !group.tasks.is_empty());
        has_left
    }

    /// Takes a task that has ended out of all groups. Members that wait for more than there are
    /// now go on without it.
    pub(super) fn forget(&mut self, task: TaskId) -> Vec<Met> {
        let mut all = Vec::new();
        for (name, group) in &mut self.0 {
            let is_missing = group.remove(task);
            if is_missing {
                group.ended = Some(task);
            }
            let left = group.tasks.len();
            let ends = |barrier: &mut Barrier| is_missing && barrier.count > left;
            if let Some(barrier) = group.barrier.take_if(ends) {
                all.push(Met {
                    group: name.clone(),
                    tasks: barrier.come,
                    missing: Some(task),
                });
            }
        }
        self.0.retain(|_, group| !group.tasks.is_empty());
        all
    }

    /// A member has come to a barrier of so many. The last one opens it.
    pub(super) fn meet(
        &mut self,
        name: &str,
        task: TaskId,
        count: u32,
    ) -> Result<Option<Met>, Refusal> {
        let group = self.0.get_mut(name).ok_or(Refusal::NotAMember)?;
        if !group.tasks.values().any(|member| *member == task) {
            return Err(Refusal::NotAMember);
        }
        let count = count.max(1) as usize;
        let barrier = group.barrier.get_or_insert_with(|| Barrier {
            count,
            come: Vec::new(),
        });
        if barrier.count != count {
            let reason = format!("others wait for {} members, not for {count}", barrier.count);
            return Err(Refusal::Reason(reason));
        }
        if !barrier.come.contains(&task) {
            barrier.come.push(task);
        }
        let left = group.tasks.len();
        let missing = group.ended.filter(|_| count > left);
        let ends = |barrier: &mut Barrier| missing.is_some() || barrier.come.len() >= count;
        let opened = group.barrier.take_if(ends);
        if opened.is_some() && missing.is_none() {
            group.ended = None;
        }
        Ok(opened.map(|barrier| Met {
            group: name.to_owned(),
            tasks: barrier.come,
            missing,
        }))
    }

    /// It does not wait any more. False: it did not.
    pub(super) fn stop_waiting(&mut self, name: &str, task: TaskId) -> bool {
        self.0
            .get_mut(name)
            .is_some_and(|group| group.stop_waiting(task))
    }

    pub(super) fn members(&self, name: &str) -> Vec<(u32, TaskId)> {
        let members = self.0.get(name).map(|group| group.tasks.iter());
        let members = members.into_iter().flatten();
        members.map(|(number, task)| (*number, *task)).collect()
    }
}

/// Why a task cannot wait at a barrier.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotAMember,
    Reason(String),
}

impl Members {
    /// False: it was not in it.
    fn remove(&mut self, task: TaskId) -> bool {
        self.stop_waiting(task);
        let before = self.tasks.len();
        self.tasks.retain(|_, member| *member != task);
        self.tasks.len() < before
    }

    fn stop_waiting(&mut self, task: TaskId) -> bool {
        let Some(barrier) = &mut self.barrier else {
            return false;
        };
        let before = barrier.come.len();
        barrier.come.retain(|come| *come != task);
        let has_stopped = barrier.come.len() < before;
        // The next to come may wait for another number.
        self.barrier.take_if(|barrier| barrier.come.is_empty());
        has_stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(index: u32) -> TaskId {
        format!("1.{index}").parse().expect("in range")
    }

    #[test]
    fn least_number_that_is_free_is_given() {
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

    #[test]
    fn barrier_opens_for_as_many_as_were_asked_for() {
        let mut groups = Groups::default();
        for index in 0..3 {
            groups.join("g", task(index)).expect("joined");
        }
        assert_eq!(groups.meet("g", task(7), 2), Err(Refusal::NotAMember));
        assert_eq!(groups.meet("h", task(0), 2), Err(Refusal::NotAMember));
        for _ in 0..2 {
            assert_eq!(groups.meet("g", task(0), 2), Ok(None));
            let refused = groups.meet("g", task(1), 3);
            assert!(matches!(refused, Err(Refusal::Reason(_))), "{refused:?}");
            let met = groups.meet("g", task(2), 2).expect("a member");
            let met = met.expect("both have come");
            assert_eq!((met.tasks, met.missing), (vec![task(0), task(2)], None));
        }
        // Who gives up is not counted, and the next may ask for another number.
        assert_eq!(groups.meet("g", task(0), 2), Ok(None));
        assert!(groups.stop_waiting("g", task(0)));
        assert!(!groups.stop_waiting("g", task(0)));
        assert_eq!(groups.meet("g", task(1), 3), Ok(None));
        assert_eq!(groups.meet("g", task(2), 3), Ok(None));
        let ended = groups.forget(task(0));
        let expected = Met {
            group: "g".to_owned(),
            tasks: vec![task(1), task(2)],
            missing: Some(task(0)),
        };
        assert_eq!(ended, [expected]);
        // Who comes later learns it, too, until one joins in its place.
        let late = groups.meet("g", task(1), 3).expect("a member");
        assert_eq!(late.and_then(|met| met.missing), Some(task(0)));
        // One that is not needed may end.
        assert_eq!(
            groups
                .meet("g", task(1), 1)
                .expect("one")
                .map(|met| met.tasks.len()),
            Some(1)
        );
        groups.join("g", task(0)).expect("joined");
        assert_eq!(groups.meet("g", task(1), 2), Ok(None));
        assert_eq!(groups.forget(task(2)), []);
        assert!(groups.meet("g", task(0), 2).expect("a member").is_some());
    }
}
