//! Is a task of another job reached, before the first message to it?
//!
//! A host takes messages only from tasks that run where they say ([`Senders`](super::senders)),
//! which it asks the runner of their job; and a runner answers only hosts on which its job has a
//! part. On one host all tasks reach each other. Across hosts both jobs have to have both, or the
//! message would be dropped where it arrives, and the sender would not hear of it.

use super::ends::Ends;
use crate::tasks::error::TaskError;
use crate::tasks::id::{JobId, TaskId};
use crate::tasks::message::{Reply, Request};

/// Refuses a task that would not get what this one sends. What cannot be found out is no refusal.
pub(super) fn check(ends: &mut Ends, own: TaskId, to: TaskId) -> Result<(), TaskError> {
    let (ours, theirs) = (own.job_id(), to.job_id());
    // A job that began where there was no agent has tasks on its own host only, and another name
    // for that than those that began later.
    if ours == theirs || ours.host() == 0 || theirs.host() == 0 {
        return Ok(());
    }
    let (Some(here), Some(there)) = (place(ends, own)?, place(ends, to)?) else {
        return Ok(());
    };
    let is_reached =
        here == there || (reaches(ends, ours, &there)? && reaches(ends, theirs, &here)?);
    match is_reached {
        true => Ok(()),
        false => Err(TaskError::OutOfReach {
            task: to,
            host: there,
            own: here,
        }),
    }
}

fn place(ends: &mut Ends, task: TaskId) -> Result<Option<String>, TaskError> {
    match ends.ask(task.job_id(), &Request::Where { task })? {
        Some(Reply::Place { host }) => Ok(Some(host)),
        _ => Ok(None),
    }
}

fn reaches(ends: &mut Ends, job: JobId, host: &str) -> Result<bool, TaskError> {
    let host = host.to_owned();
    let reply = ends.ask(job, &Request::Reaches { host })?;
    Ok(!matches!(reply, Some(Reply::NoSuchPlace { .. })))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;

    use hythe_node::{Pool, PoolOptions};

    use super::*;
    use crate::tasks::message::PlaceKind;
    use crate::tasks::place::socket_path;

    fn id(id: &str) -> TaskId {
        id.parse().expect("a task")
    }

    /// A runner whose job has its task 0 on the first of these hosts, and parts on the others.
    fn runner(pool: &Pool, job: JobId, hosts: &'static [&'static str]) {
        let listener = UnixListener::bind(socket_path(&pool.path(), job)).expect("bound");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.ok()?;
                let lines = BufReader::new(stream.try_clone().ok()?).lines();
                for line in lines {
                    let host = hosts[0].to_owned();
                    let reply = match serde_json::from_str(&line.ok()?).ok()? {
                        Request::Where { .. } => Reply::Place { host },
                        Request::Reaches { host } if hosts.contains(&host.as_str()) => Reply::Done,
                        Request::Reaches { host: wanted } => Reply::NoSuchPlace {
                            what: PlaceKind::Host,
                            wanted,
                            host,
                        },
                        _ => return None,
                    };
                    let reply = serde_json::to_string(&reply).ok()?;
                    writeln!(stream, "{reply}").ok()?;
                }
            }
            Some(())
        });
    }

    fn checked(ours: &'static [&'static str], theirs: &'static [&'static str]) -> String {
        let root = tempfile::tempdir().expect("a directory");
        let options = PoolOptions::new("test").root(root.path()).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("a pool");
        let (own, to) = (id("1.1.0"), id("1.2.0"));
        runner(&pool, own.job_id(), ours);
        runner(&pool, to.job_id(), theirs);
        match check(&mut Ends::new(&pool), own, to) {
            Ok(()) => "reached".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn tasks_of_two_jobs_reach_each_other_on_shared_hosts() {
        assert_eq!(checked(&["a"], &["a"]), "reached");
        assert_eq!(checked(&["a"], &["a", "b"]), "reached");
        assert_eq!(checked(&["a", "b"], &["b", "a"]), "reached");
        for refused in [checked(&["a"], &["b", "a"]), checked(&["a", "b"], &["b"])] {
            let names = "task 1.2.0 is not reached: it runs on host b, this task on host a";
            assert!(refused.starts_with(names), "{refused}");
        }
    }

    #[test]
    fn reach_asks_only_jobs_with_other_hosts() {
        let root = tempfile::tempdir().expect("a directory");
        let options = PoolOptions::new("test").root(root.path()).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("a pool");
        // No runner is there.
        for (own, to) in [("1.1.0", "1.1.5"), ("1.0", "1.1.5"), ("1.1.0", "2.0")] {
            let checked = check(&mut Ends::new(&pool), id(own), id(to));
            assert!(checked.is_ok(), "{own} {to}: {checked:?}");
        }
    }
}
