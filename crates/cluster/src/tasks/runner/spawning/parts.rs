//! What parts on other hosts are asked to start, and what they answer.

use super::super::Job;
use super::super::part_protocol::message::FromPart;
use super::super::remote::{Asked, PROGRAM_BYTES_MAX, SharedPart};
use super::super::running::Running;
use super::{Progress, Spawning};
use crate::tasks::error::TaskError;

impl Job {
    /// Asks the part on another host to start those there, as soon as there is one.
    pub(super) fn ask_part(
        &mut self,
        spawning: &mut Spawning,
        index: usize,
    ) -> Result<(), TaskError> {
        let name = spawning.program.name();
        let Some(other) = spawning.elsewhere.get_mut(index) else {
            return Ok(());
        };
        let Some(part) = self.part(&other.host, spawning.key, &name)? else {
            return Ok(());
        };
        let (program, roles) = (&spawning.program, &other.roles);
        let mut on_hosts = spawning.on_hosts.iter();
        let on_host = on_hosts.find(|on| on.host == other.host.as_str()).cloned();
        self.start_elsewhere(&part, spawning.key, program, roles, on_host)?;
        other.progress = Progress::Asked;
        for role in &other.roles {
            if let Some(task) = self.task(role.id) {
                task.begin(Running::remote(&part, *role));
            }
        }
        Ok(())
    }

    /// This spawn has failed, if it is not over.
    pub(super) fn fail(&mut self, spawn: u64, error: TaskError) {
        let mut spawnings = self.spawnings.iter_mut();
        if let Some(spawning) = spawnings.find(|spawning| spawning.key == spawn) {
            spawning.failure.get_or_insert(error);
            self.may_go_on = true;
        }
    }

    /// A part answers. An answer to nothing is a lie: it is given up.
    pub(in crate::tasks::runner) fn take_answer(&mut self, part: &SharedPart, answer: FromPart) {
        let Some(asked) = part.borrow_mut().answered() else {
            part.borrow_mut()
                .give_up("an answer to what was not asked".to_owned());
            return;
        };
        match answer {
            FromPart::Started { pids, program }
                if pids.len() == asked.tasks.len() && program.len() <= PROGRAM_BYTES_MAX =>
            {
                self.note_started(&asked, &pids, &program, part);
            }
            FromPart::Failed { reason } => {
                for id in asked.tasks {
                    self.note_lost(id);
                }
                self.fail(asked.spawn, TaskError::Elsewhere { reason });
            }
            _ => {
                let mut part = part.borrow_mut();
                let error = part.give_up("an answer that makes no sense".to_owned());
                self.fail(asked.spawn, error);
            }
        }
    }

    fn note_started(&mut self, asked: &Asked, pids: &[u32], program: &str, part: &SharedPart) {
        for (id, pid) in asked.tasks.iter().zip(pids) {
            if let Some(task) = self.task(*id) {
                task.note_started(*pid, program);
            }
        }
        let mut spawnings = self.spawnings.iter_mut();
        if let Some(spawning) = spawnings.find(|spawning| spawning.key == asked.spawn) {
            let host = &part.borrow().host;
            let mut others = spawning.elsewhere.iter_mut();
            if let Some(other) = others.find(|other| other.host == *host) {
                other.progress = Progress::Started;
                self.may_go_on = true;
            }
        }
    }

    /// What a part was asked to start it will not, for it is gone or silent.
    pub(in crate::tasks::runner) fn fail_asked(&mut self, part: &SharedPart) {
        let (asked, host, reason) = {
            let mut part = part.borrow_mut();
            let reason = part.link.over.clone().unwrap_or_default();
            (part.take_asked(), part.host.clone(), reason)
        };
        for asked in asked {
            let reason = format!("host {host}: its part of the job: {reason}");
            self.fail(asked.spawn, TaskError::Elsewhere { reason });
        }
    }
}

#[cfg(test)]
mod tests {

    use super::super::super::fixture::{self, Asking, look};
    use super::super::super::part_protocol::link::PartLink;
    use super::super::super::part_protocol::message::ToPart;
    use super::*;
    use crate::tasks::id::TaskId;
    use crate::tasks::message::{Place, Reply, Request, Spawn};
    use hythe_testing::{Polling, eventually};

    /// A job of host a with a part on host b.
    fn with_part() -> (tempfile::TempDir, Job, SharedPart, PartLink) {
        let (root, mut job) = fixture::job();
        let (part, there) = fixture::part("b");
        fixture::add(&mut job, &part);
        (root, job, part, there)
    }

    /// Two tasks on host b, or one on each of both.
    fn spawn(job: &Job, place: Place) -> Request {
        Request::Spawn(Box::new(Spawn {
            place,
            ..fixture::spawn(job, "true")
        }))
    }

    fn on_b() -> Place {
        Place::Host("b".to_owned())
    }

    fn id(index: u32) -> TaskId {
        format!("1.1.{index}").parse().expect("in range")
    }

    fn count(asking: &mut Asking, job: &mut Job) -> usize {
        match asking.ask(job, &Request::List) {
            Reply::Tasks { tasks } => tasks.len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn runner_answers_while_another_host_starts_tasks() {
        let (_root, mut job, _part, mut there) = with_part();
        let [mut spawner, mut other] = [(); 2].map(|()| Asking::connect(&mut job));
        spawner.say(&spawn(&job, on_b()));
        assert_eq!(count(&mut other, &mut job), 0, "none runs yet");
        let watch = Request::Watch { task: id(1) };
        assert_eq!(other.ask(&mut job, &watch), Reply::Done, "it is a task");
        let (task, signal) = (id(0), 10);
        let kill = Request::Kill { task, signal };
        assert_eq!(other.ask(&mut job, &kill), Reply::Done);
        fixture::start(&mut there, &[7, 8]);
        assert_eq!(there.next(), Some(ToPart::Signal { task, signal }));
        look(&mut job);
        let (first, count) = (id(0), 2);
        assert_eq!(spawner.reply(), Reply::Spawned { first, count });
        assert_eq!(self::count(&mut other, &mut job), 2);
        let (code, signal) = (Some(0), None);
        let task = id(1);
        there.say(&FromPart::Ended { task, code, signal });
        look(&mut job);
        assert_eq!(other.reply(), Reply::Ended { task });
    }

    #[test]
    fn answer_that_is_heard_with_what_tasks_print_wakes_the_runner() {
        let (_root, mut job, _part, mut there) = with_part();
        let mut spawner = Asking::connect(&mut job);
        spawner.say(&spawn(&job, on_b()));
        look(&mut job);
        fixture::start(&mut there, &[7, 8]);
        // It came when answers had been looked for.
        let write = Box::new(|_: &super::super::super::Output| Ok(()));
        let mut writer = super::super::super::Writer::start(write).expect("a thread");
        job.hear_parts(&mut writer);
        assert!(job.may_go_on, "nothing more comes from there");
        look(&mut job);
        assert!(!job.may_go_on);
        assert!(matches!(spawner.reply(), Reply::Spawned { .. }));
    }

    #[test]
    fn part_answers_one_spawn_after_the_other() {
        let (_root, mut job, _part, mut there) = with_part();
        let mut all = [(); 3].map(|()| Asking::connect(&mut job));
        for asking in &mut all {
            asking.say(&spawn(&job, on_b()));
            look(&mut job);
        }
        let starts = |_| matches!(there.next(), Some(ToPart::Start(_)));
        assert_eq!([0, 1, 2].map(starts), [true; 3]);
        let reason = "it is missing".to_owned();
        there.say(&FromPart::Failed {
            reason: reason.clone(),
        });
        for pids in [[3, 4], [5, 6]] {
            let pids = pids.to_vec();
            let program = "/bin/x".to_owned();
            there.say(&FromPart::Started { pids, program });
        }
        look(&mut job);
        assert_eq!(all[0].reply(), Reply::Failed { reason });
        for (asking, first) in all[1..].iter_mut().zip([id(2), id(4)]) {
            let count = 2;
            assert_eq!(asking.reply(), Reply::Spawned { first, count });
        }
        look(&mut job);
        assert_eq!(count(&mut all[0], &mut job), 4);
        assert_eq!(job.tasks.iter().map(|task| task.pid()).sum::<u32>(), 18);
    }

    #[test]
    fn spawn_refused_by_one_host_starts_nothing_here() {
        let (root, mut job, _part, mut there) = with_part();
        let own = "a".parse().expect("a name");
        let own = crate::tasks::JobHost {
            name: own,
            slots: 1,
        };
        job.runner.options.hosts.insert(0, own);
        let [mut spawner, mut other] = [(); 2].map(|()| Asking::connect(&mut job));
        let file = root.path().join("begun");
        let mut wanted = fixture::spawn(&job, "touch");
        wanted.arguments = vec![file.display().to_string()];
        spawner.say(&Request::Spawn(Box::new(wanted)));
        look(&mut job);
        assert!(matches!(there.next(), Some(ToPart::Start(_))));
        for task in [id(0), id(1)] {
            assert_eq!(other.ask(&mut job, &Request::Watch { task }), Reply::Done);
        }
        let reason = "it is missing".to_owned();
        there.say(&FromPart::Failed {
            reason: reason.clone(),
        });
        look(&mut job);
        assert_eq!(spawner.reply(), Reply::Failed { reason });
        look(&mut job);
        for task in [id(0), id(1)] {
            assert_eq!(other.reply(), Reply::Ended { task });
        }
        assert!(!file.exists() && job.tasks.iter().all(|task| task.end.is_some()));
        // The next is as if there had been none.
        let mut wanted = fixture::spawn(&job, "touch");
        wanted.arguments = vec![file.display().to_string()];
        spawner.say(&Request::Spawn(Box::new(wanted)));
        look(&mut job);
        fixture::start(&mut there, &[9]);
        look(&mut job);
        let (first, count) = (id(2), 2);
        assert_eq!(spawner.reply(), Reply::Spawned { first, count });
        eventually("one of both has ended", || {
            look(&mut job);
            job.tasks.iter().filter(|task| task.end.is_none()).count() <= 1
        });
        assert!(file.exists());
    }

    #[test]
    fn part_that_goes_or_is_silent_fails_what_it_was_asked() {
        for goes in [true, false] {
            let (_root, mut job, part, there) = with_part();
            let mut asking = Asking::connect(&mut job);
            asking.say(&spawn(&job, on_b()));
            look(&mut job);
            let there = (!goes).then_some(there);
            // Its time runs out, or its end is seen.
            let mut polling = Polling::new("the end of the spawning");
            while !job.spawnings.is_empty() {
                polling.pause();
                look(&mut job);
            }
            let Reply::Failed { reason } = asking.reply() else {
                panic!("it is refused");
            };
            assert!(reason.contains("host b: its part of the job"), "{reason}");
            assert!(
                part.borrow().link.over.is_some(),
                "it ends what it starts later"
            );
            look(&mut job);
            assert!(job.tasks.iter().all(|task| task.end.is_some()));
            drop(there);
        }
    }

    /// A job with a task on host b and one on host c.
    fn with_two_parts() -> (tempfile::TempDir, Job, [SharedPart; 2], [PartLink; 2]) {
        let (root, mut job) = fixture::job();
        let (b, mut at_b) = fixture::part("b");
        let (c, mut at_c) = fixture::part("c");
        fixture::add(&mut job, &b);
        fixture::add(&mut job, &c);
        let mut asking = Asking::connect(&mut job);
        asking.say(&spawn(&job, Place::Anywhere));
        look(&mut job);
        fixture::start(&mut at_b, &[7]);
        fixture::start(&mut at_c, &[8]);
        look(&mut job);
        assert!(matches!(asking.reply(), Reply::Spawned { .. }));
        (root, job, [b, c], [at_b, at_c])
    }

    #[test]
    fn answers_to_what_was_not_asked_end_the_part_and_no_other() {
        let started = |pids| FromPart::Started {
            pids,
            program: "/bin/x".to_owned(),
        };
        let architecture = "pdp11".to_owned();
        let reason = "no".to_owned();
        for lie in [
            started(vec![1]),
            started(Vec::new()),
            FromPart::Failed { reason },
            FromPart::Here { architecture },
        ] {
            let (_root, mut job, [b, c], [mut liar, _there]) = with_two_parts();
            liar.say(&lie);
            look(&mut job);
            look(&mut job);
            assert!(b.borrow().link.over.is_some() && c.borrow().link.over.is_none());
            let ends = job.tasks.iter().map(|task| task.end.map(|end| end.is_lost));
            assert_eq!(ends.collect::<Vec<_>>(), [Some(true), None], "{lie:?}");
            while liar.next::<ToPart>().is_some() {}
            assert!(liar.over.is_some(), "it is told");
        }
    }

    #[test]
    fn wrong_answers_end_the_part_and_what_it_started() {
        let started = |pids, program: &str| FromPart::Started {
            pids,
            program: program.to_owned(),
        };
        let long = "x".repeat(PROGRAM_BYTES_MAX + 1);
        let architecture = String::new();
        for lie in [
            started(vec![1], "/bin/x"),
            started(vec![1, 2, 3], "/bin/x"),
            started(vec![1, 2], &long),
            FromPart::Here { architecture },
        ] {
            let (_root, mut job, part, mut there) = with_part();
            let mut asking = Asking::connect(&mut job);
            asking.say(&spawn(&job, on_b()));
            look(&mut job);
            there.say(&lie);
            while !job.spawnings.is_empty() {
                look(&mut job);
            }
            assert!(matches!(asking.reply(), Reply::Failed { .. }), "{lie:?}");
            look(&mut job);
            assert!(part.borrow().link.over.is_some());
            assert!(job.tasks.iter().all(|task| task.end.is_some()));
        }
    }

    #[test]
    fn reports_about_foreign_tasks_are_ignored() {
        let (_root, mut job, parts, [mut liar, _there]) = with_two_parts();
        let (code, signal) = (Some(0), None);
        let ids = [1, 7, 511].map(id).into_iter();
        for task in ids.chain(["3.1.0", "2.0"].map(|id| id.parse().expect("a task"))) {
            liar.say(&FromPart::Ended { task, code, signal });
            let (is_error, bytes) = (false, b"not mine".to_vec());
            let output = FromPart::Output {
                task,
                is_error,
                bytes,
            };
            liar.say(&output);
        }
        let (written, outputs) = std::sync::mpsc::channel();
        let write = move |output: &super::super::super::Output| {
            let _ = written.send(output.clone());
            Ok(())
        };
        let mut writer = super::super::super::Writer::start(Box::new(write)).expect("a thread");
        fixture::try_look(&mut job, &mut writer).expect("no error");
        writer.finish().expect("written");
        assert_eq!(outputs.iter().count(), 0);
        assert!(job.tasks.iter().all(|task| task.end.is_none()));
        assert!(parts.iter().all(|part| part.borrow().link.over.is_none()));
    }

    /// It says that all is over, and takes signals without a word.
    #[test]
    fn tasks_that_a_host_never_ends_are_lost_in_the_end() {
        let (_root, mut job, [b, _], [mut liar, mut there]) = with_two_parts();
        liar.say(&FromPart::Over {
            left_running: u32::MAX,
        });
        let task = id(1);
        let (code, signal) = (None, Some(15));
        there.say(&FromPart::Ended { task, code, signal });
        look(&mut job);
        let long_ago = super::super::super::job::GRACE + super::super::super::elsewhere::LAST_WORDS;
        job.asked_to_end = std::time::Instant::now().checked_sub(long_ago);
        assert!(job.asked_to_end.is_some(), "this machine runs for longer");
        job.kill_late_ones();
        look(&mut job);
        let ends = job.tasks.iter().map(|task| task.end.map(|end| end.is_lost));
        assert_eq!(ends.collect::<Vec<_>>(), [Some(true), Some(false)]);
        assert!(b.borrow().link.over.is_some());
    }
}
