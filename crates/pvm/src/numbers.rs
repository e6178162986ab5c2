//! Numbers of tasks, in Hythe and in PVM: those of Hythe are PVM's on the machine's host.

use hythe_cluster::tasks::TaskId;

use crate::tid::{FIRST_HOST, Tid};

/// PVM's number of a task.
pub(crate) fn tid_of(task: TaskId) -> Option<Tid> {
    Tid::task(FIRST_HOST, task.number())
}

/// The task that a number of PVM names. `None`: there can be none.
pub(crate) fn task_of(tid: Tid) -> Option<TaskId> {
    match tid.is_task() && tid.host() == FIRST_HOST {
        true => TaskId::from_number(tid.local()),
        false => None,
    }
}
