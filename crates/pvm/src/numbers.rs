//! Numbers of tasks, in Hythe and in PVM: 18 bits of job and index are the same in both; PVM has
//! the host on which the task runs in front of them, Hythe that of its job.

use hythe_cluster::tasks::TaskId;

use crate::tid::{LOCAL_BITS, LOCAL_MASK, Tid};

/// A task's number without any host: unique in a machine, whose jobs are all of one host.
pub(crate) const fn local_of(task: TaskId) -> u32 {
    task.number() & LOCAL_MASK
}

/// PVM's number of a task that runs on a host of the machine.
pub(crate) fn tid_of(task: TaskId, host: Tid) -> Option<Tid> {
    Tid::task(host, local_of(task))
}

/// The task that a number of PVM names, in a machine whose host has this number in the realm (0: it
/// has none). `None`: there can be none.
pub(crate) fn task_of(realm_number: u32, tid: Tid) -> Option<TaskId> {
    match tid.is_task() {
        true => TaskId::from_number(realm_number << LOCAL_BITS | tid.local()),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_has_the_host_of_its_job_there_and_its_own_here() {
        let second = Tid::numbered_host(2).expect("in range");
        for (text, realm_number) in [("1.3", 0), ("7.1.3", 7)] {
            let task: TaskId = text.parse().expect("a task");
            let tid = tid_of(task, second).expect("in range");
            assert_eq!(tid.number(), 2 << 18 | 1 << 9 | 3);
            assert_eq!(task_of(realm_number, tid), Some(task));
        }
        assert_eq!(task_of(7, second), None);
    }
}
