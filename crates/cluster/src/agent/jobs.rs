//! What an agent knows of jobs of tasks: the numbers of hosts in the realm, and which hosts may use
//! the channels of the tasks of a job: those that take part in it, for as long as a part of it runs
//! here or there. Never connects.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, RwLock};

use super::lock::lock;
use crate::tasks::{JobId, TaskId};
use crate::{HostName, Right};

/// What the names of such channels begin with.
const PREFIX: &str = "task/";
/// What an agent knows of jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    numbers: RwLock<BTreeMap<HostName, u32>>,
    grants: Mutex<Grants>,
}

impl Jobs {
    /// The numbers of the hosts of the realm are these from now on.
    pub(crate) fn set_numbers(&self, numbers: BTreeMap<HostName, u32>) {
        *self.numbers.write().unwrap_or_else(PoisonError::into_inner) = numbers;
    }

    /// 0: it has none.
    pub(crate) fn number_of(&self, host: &HostName) -> u32 {
        let numbers = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        numbers.get(host).copied().unwrap_or(0)
    }

    /// Is it in the realm? False also where the realm's list is not known.
    pub(crate) fn has_host(&self, host: &HostName) -> bool {
        let numbers = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        numbers.contains_key(host)
    }

    pub(crate) fn host_of(&self, number: u32) -> Option<HostName> {
        let numbers = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = numbers.iter().filter(|(_, one)| **one == number);
        found.next().map(|(host, _)| host.clone())
    }

    /// May this host use that channel, since it takes part in a job?
    pub(crate) fn permit(&self, host: &HostName, channel: &str, right: Right) -> bool {
        let is_use = matches!(right, Right::Read | Right::Write);
        is_use && lock(&self.grants).permit(host, channel)
    }

    /// Does it take part in this one?
    pub(crate) fn has(&self, host: &HostName, job: JobId) -> bool {
        lock(&self.grants).has(host, job)
    }

    /// Jobs of other hosts than the one of this number.
    pub(crate) fn jobs_of_others(&self, own: u32) -> Vec<JobId> {
        lock(&self.grants).jobs_of_others(own)
    }

    pub(crate) fn grant(&self, job: JobId, hosts: &[HostName]) {
        let mut grants = lock(&self.grants);
        hosts.iter().for_each(|host| grants.add(job, host));
    }

    pub(crate) fn withdraw(&self, job: JobId, hosts: &[HostName]) {
        let mut grants = lock(&self.grants);
        hosts.iter().for_each(|host| grants.remove(job, host));
    }
}

/// Is a channel with this name that of a task?
pub(crate) fn is_of_task(channel: &str) -> bool {
    task_of(channel).is_some()
}

fn task_of(channel: &str) -> Option<TaskId> {
    channel.strip_prefix(PREFIX)?.parse().ok()
}

#[derive(Debug, Default)]
struct Grants(BTreeMap<(JobId, HostName), u32>);

impl Grants {
    fn permit(&self, host: &HostName, channel: &str) -> bool {
        task_of(channel).is_some_and(|task| self.has(host, task.job_id()))
    }

    fn has(&self, host: &HostName, job: JobId) -> bool {
        self.0.contains_key(&(job, host.clone()))
    }

    /// Jobs of other hosts than the one of this number.
    fn jobs_of_others(&self, own: u32) -> Vec<JobId> {
        let mut jobs: Vec<JobId> = self.0.keys().map(|(job, _)| *job).collect();
        jobs.dedup();
        jobs.retain(|job| job.host() != own);
        jobs
    }

    fn add(&mut self, job: JobId, host: &HostName) {
        *self.0.entry((job, host.clone())).or_default() += 1;
    }

    fn remove(&mut self, job: JobId, host: &HostName) {
        let key = (job, host.clone());
        if let Some(count) = self.0.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_the_channels_of_its_jobs_and_no_others() {
        let (b, c): (HostName, HostName) = ("b".parse().expect("a"), "c".parse().expect("a"));
        let mut grants = Grants::default();
        let job = "2.1.0".parse::<TaskId>().expect("a task").job_id();
        grants.add(job, &b);
        grants.add(job, &b);
        assert!(grants.permit(&b, "task/2.1.7"));
        for other in [
            "task/2.2.0",
            "task/1.0",
            "task/3.1.0",
            "task/",
            "frames",
            "task/2.1.x",
        ] {
            assert!(!grants.permit(&b, other), "{other}");
        }
        assert!(!grants.permit(&c, "task/2.1.7"));
        assert_eq!(grants.jobs_of_others(1), [job]);
        assert_eq!(grants.jobs_of_others(2), []);
        grants.remove(job, &b);
        assert!(grants.permit(&b, "task/2.1.7"));
        grants.remove(job, &b);
        assert!(!grants.permit(&b, "task/2.1.7"));
    }
}
