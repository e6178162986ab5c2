//! The loop of a runner: what it waits for, and what it does at each look.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use super::clients::Clients;
use super::elsewhere::LAST_WORDS;
use super::errands::Errands;
use super::groups::Groups;
use super::input::Input;
use super::output::{Output, Stream, Writer};
use super::running::Running;
use super::terminal::WindowSize;
use super::{Job, Runner, answers, descendants};
use crate::tasks::error::TaskError;
use crate::tasks::id::TASKS_MAX;

/// How long tasks that were asked to end may take, before they are killed.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// How often the loop looks at what it cannot wait for.
const LOOK: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Read at one look, of one stream.
const READ_BYTES: usize = 16 << 10;

impl Job {
    pub(super) fn new(runner: Runner, signals: UnixStream) -> Result<Self, TaskError> {
        Ok(Self {
            runner,
            tasks: Vec::new(),
            places_of_ended: BTreeMap::new(),
            ends: Vec::new(),
            clients: Clients::default(),
            groups: Groups::default(),
            signals,
            asked_to_end: None,
            is_front_gone: false,
            next_index: 0,
            next_slot: 0,
            parts: Vec::new(),
            added_hosts: Vec::new(),
            input: None,
            spawnings: Vec::new(),
            may_go_on: false,
            last_spawn: 0,
            openings: Vec::new(),
            errands: Errands::new()?,
        })
    }

    /// So many numbers one behind the other that no task has. Those that the job began with keep
    /// theirs.
    pub(super) fn free_indices(&mut self, count: u32) -> Option<u32> {
        let mut is_taken = [false; TASKS_MAX as usize];
        let kept = self.tasks.iter();
        for task in kept.filter(|task| task.end.is_none() || task.is_first()) {
            is_taken[task.role.id.index() as usize] = true;
        }
        let is_free = |first: &u32| {
            let range = *first as usize..first.saturating_add(count) as usize;
            let found = is_taken.get(range);
            found.is_some_and(|range| !range.contains(&true))
        };
        let (before, behind) = (0..self.next_index, self.next_index..TASKS_MAX);
        let first = behind.chain(before).find(is_free)?;
        self.next_index = (first + count) % TASKS_MAX;
        Some(first)
    }

    /// Until all tasks have ended, and all that they printed is written.
    pub(super) fn run(&mut self, mut writer: Writer) -> Result<(), TaskError> {
        let mut last_look: Option<Instant> = None;
        self.begin_first();
        self.go_on_spawning()?;
        loop {
            let is_ready = writer.is_ready();
            let has_parts = !self.are_parts_done(last_look);
            let is_last_look = last_look.is_some();
            if !is_last_look || !is_ready || has_parts {
                self.wait(is_ready, is_last_look);
            }
            self.look_at_front();
            self.pass_on_signals();
            self.clients.accept(&self.runner.place.listener);
            self.answer_clients();
            self.hear_answers();
            self.go_on_spawning()?;
            let is_read =
                !is_ready || (self.read_output(&mut writer) & self.hear_parts(&mut writer));
            self.feed_input();
            self.take_ends()?;
            self.kill_late_ones();
            if self.is_front_gone || writer.is_broken() {
                break;
            }
            if is_last_look && is_ready && is_read && self.are_parts_done(last_look) {
                break;
            }
            self.forget_ended();
            if !is_last_look && self.is_over() {
                self.end_parts();
                // What they left running may hold their streams open.
                descendants::kill_all();
                last_look = Some(Instant::now());
            }
        }
        if self.is_front_gone {
            // Nobody may read any more: what waits to be written is left.
            return Ok(());
        }
        writer.finish().map_err(|source| TaskError::System {
            action: "write what tasks print",
            source,
        })
    }

    /// Tells who asked for tasks that these are started, or why not. An error: those are not with
    /// which the job begins.
    pub(super) fn go_on_spawning(&mut self) -> Result<(), TaskError> {
        for (client, result) in self.advance_spawnings() {
            match (client, result) {
                (Some(client), result) => self.clients.reply(client, &answers::spawned(result)),
                // Their ends say how.
                (None, Err(_)) if self.asked_to_end.is_some() => {}
                (None, result) => drop(result?),
            }
        }
        Ok(())
    }

    /// Who has enrolled does not hold the job up: that is no process of it.
    fn is_over(&self) -> bool {
        let mut children = self.tasks.iter().filter(|task| task.is_child());
        let has_ended = children.all(|task| task.end.is_some());
        let is_idle = has_ended && self.spawnings.is_empty();
        is_idle && (!self.runner.options.stays || self.asked_to_end.is_some())
    }

    /// Tasks that came later and of which all is known and written.
    pub(super) fn forget_ended(&mut self) {
        let stays =
            |task: &mut Running| task.end.is_none() || task.is_first() || task.is_printing();
        for task in self.tasks.extract_if(.., |task| !stays(task)) {
            // What it sent last may not have been received.
            let place = task.host().to_owned();
            self.places_of_ended.insert(task.role.id, place);
        }
    }

    fn wait(&self, for_output: bool, is_last_look: bool) {
        let unfinished = self.tasks.iter().filter(|task| task.end.is_none());
        let mut waited_for: Vec<PollFd<'_>> = unfinished
            .filter_map(|task| task.pidfd.as_ref())
            .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
            .collect();
        let parts: Vec<_> = self.parts.iter().map(|part| part.borrow()).collect();
        // One that is over would be ready for ever.
        let open = parts.iter().filter(|part| part.link.over.is_none());
        let wanted = open.map(|part| {
            let reads = for_output || part.is_asked();
            (part, part.link.wanted(reads))
        });
        let wanted = wanted.filter(|(_, wanted)| !wanted.is_empty());
        waited_for.extend(
            wanted.map(|(part, wanted)| PollFd::from_borrowed_fd(part.link.as_fd(), wanted)),
        );
        let stdin = io::stdin();
        if self.input.as_ref().is_some_and(Input::takes) {
            waited_for.push(PollFd::new(&stdin, PollFlags::IN));
        }
        waited_for.push(PollFd::new(&self.signals, PollFlags::IN));
        let pause = self.clients.accept_pause();
        if pause.is_none() {
            let listener = self.runner.place.listener.as_fd();
            waited_for.push(PollFd::from_borrowed_fd(listener, PollFlags::IN));
        }
        let front = self.runner.front.iter();
        waited_for.extend(front.map(|front| PollFd::new(front, PollFlags::IN)));
        waited_for.extend(self.clients.poll_fds());
        waited_for.push(PollFd::from_borrowed_fd(
            self.errands.as_fd(),
            PollFlags::IN,
        ));
        let timeout = match (for_output, self.asked_to_end) {
            (true, None) => LONGEST_WAIT,
            (true, Some(since)) => GRACE.saturating_sub(since.elapsed()).max(LOOK),
            (false, _) => LOOK,
        };
        let has_news = for_output && parts.iter().any(|part| part.has_news());
        let has_news = has_news || self.may_go_on || self.clients.has_requests();
        let timeout = match (has_news, is_last_look) {
            // Each look takes some of it in.
            (true, _) => Duration::ZERO,
            (false, true) => timeout.min(LOOK),
            (false, false) => timeout,
        };
        let due = parts.iter().filter_map(|part| part.left_for_answer());
        let timeout = due.fold(timeout, |timeout, left| timeout.min(left.max(LOOK)));
        let timeout = pause.map_or(timeout, |pause| timeout.min(pause));
        if for_output {
            let printed = self.tasks.iter().flat_map(|task| &task.printed);
            let open = printed.filter_map(|printed| printed.from.as_ref());
            waited_for.extend(open.map(|from| PollFd::new(from, PollFlags::IN)));
        }
        // What it says is found out anew. Refused, it has slept.
        let _ = hythe_sys::wait::poll_or_sleep(&mut waited_for, timeout);
    }

    fn look_at_front(&mut self) {
        if let Some(front) = &self.runner.front {
            let mut polled = [PollFd::new(front, PollFlags::IN)];
            self.is_front_gone = hythe_sys::wait::ready(&mut polled, Duration::ZERO)[0];
        }
    }

    /// A second request to end kills.
    fn pass_on_signals(&mut self) {
        let mut numbers = [0; 16];
        let read = rustix::io::read(&self.signals, &mut numbers).unwrap_or(0);
        for number in &numbers[..read] {
            let Some(signal) = Signal::from_named_raw(i32::from(*number)) else {
                continue;
            };
            match signal {
                Signal::HUP | Signal::INT | Signal::QUIT | Signal::TERM => {
                    match self.asked_to_end {
                        Some(_) => self.signal_children(Signal::KILL),
                        None => self.ask_to_end(signal),
                    }
                }
                // A program cannot miss it: one that has it ignored would run on.
                Signal::TSTP => self.signal_children(Signal::STOP),
                Signal::WINCH => self.resize_terminals(),
                signal => self.signal_children(signal),
            }
        }
    }

    /// The size of pseudoterminals that are made from now on. `None`: tasks get none.
    pub(super) fn terminal(&self) -> Option<WindowSize> {
        let has_one = self.runner.options.has_terminal;
        has_one.then(|| WindowSize::of(io::stdout()))
    }

    /// The terminal to which this process prints has another size.
    fn resize_terminals(&self) {
        if let Some(size) = self.terminal() {
            self.tasks.iter().for_each(|task| task.resize(size));
        }
        self.signal_children(Signal::WINCH);
    }

    fn signal_children(&self, signal: Signal) {
        let children = self.tasks.iter().filter(|task| task.is_child());
        children.for_each(|task| task.signal(signal));
    }

    pub(super) fn ask_to_end(&mut self, signal: Signal) {
        self.asked_to_end = Some(Instant::now());
        self.signal_children(signal);
        // One that is stopped takes it only then.
        self.signal_children(Signal::CONT);
    }

    /// True: there is nothing more to read for now.
    fn read_output(&mut self, writer: &mut Writer) -> bool {
        let is_cut = self.runner.options.whole_lines;
        let mut bytes = [0; READ_BYTES];
        let mut is_dry = true;
        for task in &mut self.tasks {
            for (stream, printed) in [Stream::Out, Stream::Error]
                .into_iter()
                .zip(&mut task.printed)
            {
                let Some((lines, read)) = printed.read(&mut bytes, is_cut) else {
                    continue;
                };
                is_dry &= read == 0;
                let output = Output {
                    rank: task.role.rank,
                    stream,
                    bytes: lines,
                };
                if !output.bytes.is_empty() && !writer.push(output) {
                    return false;
                }
            }
        }
        is_dry
    }

    pub(super) fn take_ends(&mut self) -> Result<(), TaskError> {
        let (mut has_failed, mut met) = (false, Vec::new());
        for task in &mut self.tasks {
            let taken = task.take_end().map_err(|source| TaskError::System {
                action: "wait for a task",
                source,
            })?;
            if let Some(end) = taken {
                tracing::debug!(task = %end.task, code = end.exit_code(), "a task has ended");
                self.clients.tell_end(end.task);
                met.extend(self.groups.forget(end.task));
                if task.is_first() {
                    has_failed |= end.exit_code() != 0;
                    self.ends.push(end);
                }
            }
        }
        self.tell_met(met);
        let goes_on = self.runner.options.keeps_going || self.runner.options.stays;
        if has_failed && !goes_on && self.asked_to_end.is_none() {
            self.ask_to_end(Signal::TERM);
        }
        Ok(())
    }

    pub(super) fn kill_late_ones(&self) {
        let Some(since) = self.asked_to_end else {
            return;
        };
        if since.elapsed() >= GRACE {
            self.signal_children(Signal::KILL);
        }
        // Of this host the kernel ends them.
        if since.elapsed() >= GRACE + LAST_WORDS {
            self.give_up_parts();
        }
    }
}
