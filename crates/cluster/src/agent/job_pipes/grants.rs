//! Grants of one connection of a job.

use std::sync::Arc;

use super::super::context::Context;
use crate::HostName;
use crate::tasks::JobId;

/// Grants of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Granted {
    context: Arc<Context>,
    job: JobId,
    hosts: Vec<HostName>,
}

impl Granted {
    pub(super) fn new(context: &Arc<Context>, job: JobId, hosts: Vec<HostName>) -> Self {
        context.jobs.grant(job, &hosts);
        context.note_all_changed();
        Self {
            context: Arc::clone(context),
            job,
            hosts,
        }
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.context.jobs.withdraw(self.job, &self.hosts);
        self.context.note_all_changed();
    }
}
