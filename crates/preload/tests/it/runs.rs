//! Finishing start-ups: what was used of what was read ahead, the history, and the switch.
//!
//! Never asks how long anything took, only that a later clock shows more.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::support::{Disk, drop_pages, pack, resident, run};
use hythe_preload::PreloadError;
use hythe_preload::pack::{PAGE_BYTES, Pack};
use hythe_preload::replay::{Method, Options};
use hythe_preload::runs::{
    Advice, Entry, Finish, FinishOptions, Finished, HISTORY_MAX, Mark, MeasuredFrom, Reader,
    advise, finish, history_path, off, pack_checksum, read_history,
};
use hythe_sys::file_pages::{FilePages, Sink};
use hythe_testing::count_pages;
use rustix::fs::{Advice as Fadvice, fadvise};

/// A pack in a file, and places of its own for marks and log.
struct Place {
    disk: Disk,
    pack: PathBuf,
}

impl Place {
    fn new(disk: Disk, pack: &Pack) -> Self {
        let path = disk.path().join("a.pack");
        pack.write(&path).expect("room");
        fs::write(disk.path().join("kmsg"), "6,0,0,-;Linux\n").expect("room");
        Self { disk, pack: path }
    }

    fn marks(&self) -> PathBuf {
        self.disk.path().join("run")
    }

    fn options(&self) -> FinishOptions {
        FinishOptions {
            run_directories: vec![self.marks()],
            kernel_log: self.disk.path().join("kmsg"),
            ..FinishOptions::default()
        }
    }

    fn finish(&self) -> Result<Finished, PreloadError> {
        finish_by(&self.pack, &self.options())
    }

    /// A replay of it, which leaves its mark; it began so many nanoseconds after the machine.
    fn replay(&self, method: Option<Method>, began_ns: u64) {
        let pack = Pack::read(&self.pack).expect("good");
        let options = Options {
            method,
            ..Options::default()
        };
        let done = run(&pack, &options);
        let mark = Mark::of(&self.pack, began_ns, &done).expect("a mark");
        mark.leave(&self.marks(), &self.pack).expect("room");
    }

    fn leave_unread(&self, began_ns: u64) {
        let mark = Mark::left_unread(&self.pack, began_ns).expect("a mark");
        mark.leave(&self.marks(), &self.pack).expect("room");
    }

    fn log(&self, line: &str) {
        fs::write(self.disk.path().join("kmsg"), line).expect("room");
    }
}

/// For packs that were not recorded in this boot.
fn finish_by(pack: &Path, options: &FinishOptions) -> Result<Finished, PreloadError> {
    finish(pack, options).map(|finish| match finish {
        Finish::Entered(finished) => finished,
        Finish::Recorded => panic!("recorded in this boot"),
    })
}

/// Whether the kernel tells this user about frames; loudly, if not.
fn frames_are_told() -> bool {
    let told = File::open("/proc/kpageflags").and_then(|flags| flags.read_at(&mut [0; 8], 0));
    if let Err(error) = &told {
        println!("SKIPPED: /proc/kpageflags: {error}; run as root, with CONFIG_PROC_PAGE_MONITOR");
    }
    told.is_ok()
}

fn read_page(file: &File, page: u64) {
    file.read_exact_at(&mut [0; 100], page * PAGE_BYTES)
        .expect("there");
}

#[test]
fn used_unused_and_evicted_pages_are_told_apart() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        if !frames_are_told() {
            return;
        }
        for method in [Method::Readahead, Method::Populate, Method::Read] {
            let disk = Disk::new().unwrap_or_else(|| unreachable!("there was one"));
            let names = ["read", "mapped", "by-another", "idle", "evicted"];
            let files: Vec<PathBuf> = names.iter().map(|name| disk.file(name, 32)).collect();
            let paths: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
            let extents: Vec<_> = (0..5).map(|file| (file, 0, 32)).collect();
            let place = Place::new(disk, &pack(&paths, &extents));
            place.replay(Some(method), 1);

            // Ten pages are read, one by one.
            let read = File::open(&files[0]).expect("own");
            (0..10).for_each(|page| read_page(&read, page));
            // All of this file are mapped by a process that still runs; the next was read by one
            // that has ended.
            let touched = File::open(&files[1]).expect("own");
            let mapped = FilePages::map(&touched, 0, 32 * PAGE_BYTES as usize).expect("mappable");
            let sink = Sink::new().expect("a sink");
            (0..32).for_each(|page| mapped.fetch(page, &sink).expect("there"));
            read_by_another(&files[2]);
            let gone = File::open(&files[4]).expect("own");
            fadvise(&gone, 0, None, Fadvice::DontNeed).expect("known");

            let usage = place.finish().expect("begun").run.usage;
            assert_eq!(usage.read, 160, "{method:?} {usage:?}");
            assert_eq!(usage.evicted, 32, "{method:?} {usage:?}");
            // Of what was loaded by read, a kernel with generations shows only what is mapped; that
            // is said.
            let is_hidden = matches!(method, Method::Read) && has_generations();
            let used = if is_hidden { 32 } else { 10 + 64 };
            assert_eq!(
                (usage.used, usage.unused),
                (used, 128 - used),
                "{method:?} {usage:?}"
            );
            let limits = usize::from(is_hidden);
            assert_eq!(
                (usage.unknown, usage.limits.len()),
                (0, limits),
                "{usage:?}"
            );
            // Looking loaded nothing.
            assert_eq!(resident(&files[4]), [] as [u32; 0]);
        }
        drop(disk);
    });
}

/// Does this kernel keep pages by generations?
fn has_generations() -> bool {
    let text = fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").unwrap_or_default();
    text.trim().ends_with(['1', '3', '5', '7'])
}

/// Reads every page of a file in another process.
fn read_by_another(path: &Path) {
    let copied = std::process::Command::new("dd")
        .arg(format!("if={}", path.display()))
        .args(["of=/dev/null", "bs=4096", "status=none"])
        .status();
    assert!(copied.expect("dd is everywhere").success());
}

#[test]
fn program_that_ran_and_ended_has_used_its_pages() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        if !frames_are_told() {
            return;
        }
        let program = disk.path().join("program");
        for method in [Method::Readahead, Method::Populate, Method::Read] {
            let disk = Disk::new().unwrap_or_else(|| unreachable!("there was one"));
            hythe_testing::copy_program("/bin/ls", &program);
            drop_pages(&program);
            let pages = fs::metadata(&program)
                .expect("own")
                .len()
                .div_ceil(PAGE_BYTES);
            let pages = u32::try_from(pages).expect("small");
            let place = Place::new(disk, &pack(&[&program], &[(0, 0, pages)]));
            place.replay(Some(method), 1);
            let ended = std::process::Command::new(&program)
                .arg("--version")
                .output();
            assert!(ended.expect("it runs").status.success());
            let usage = place.finish().expect("begun").run.usage;
            assert_eq!(usage.read, u64::from(pages), "{method:?} {usage:?}");
            // Its first page at least: the kernel itself reads that.
            assert!(usage.used > 0, "{method:?} {usage:?}");
            assert_eq!(
                usage.used + usage.unused,
                usage.read,
                "{method:?} {usage:?}"
            );
            fs::remove_file(&program).expect("own");
        }
    });
}

#[test]
fn looking_marks_nothing() {
    count_pages(|| {
        let Some(disk) = Disk::new() else { return };
        if !frames_are_told() {
            return;
        }
        let file = disk.file("a", 50);
        let place = Place::new(disk, &pack(&[&file], &[(0, 0, 50)]));
        let done = run(&Pack::read(&place.pack).expect("good"), &Options::default());
        for began_ns in 1..5 {
            let mark = Mark::of(&place.pack, began_ns, &done).expect("a mark");
            mark.leave(&place.marks(), &place.pack).expect("room");
            let usage = place.finish().expect("begun").run.usage;
            assert_eq!((usage.read, usage.unused), (50, 50), "{usage:?}");
        }
    });
}

#[test]
fn start_up_is_timed_from_its_replay_and_entered_once() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.file("a", 4);
    let place = Place::new(disk, &pack(&[&file], &[(0, 0, 4)]));
    let error = place.finish().expect_err("nothing has begun");
    assert!(matches!(error, PreloadError::NoRun { .. }), "{error}");
    place.replay(None, 1);
    let finished = place.finish().expect("begun");
    assert!(finished.run.read);
    assert_eq!(finished.run.by, Reader::Replay);
    assert_eq!(finished.run.measured_from, MeasuredFrom::Replay);
    assert!(finished.run.startup_ns > finished.run.reading_ns);
    assert_eq!(read_history(&place.pack).expect("there"), finished.entries);
    place
        .finish()
        .expect_err("it has been entered, and its mark is gone");
    place.replay(None, 1);
    let error = place.finish().expect_err("the same");
    assert!(error.to_string().contains("already"), "{error}");
    assert_eq!(read_history(&place.pack).expect("there").len(), 1);
}

#[test]
fn line_of_preload_init_is_a_start_up() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.file("a", 10);
    let place = Place::new(disk, &pack(&[&file], &[(0, 0, 10)]));
    run(&Pack::read(&place.pack).expect("good"), &Options::default());
    let line = |end: &str, boottime_ns: u64| {
        let path = fs::canonicalize(&place.pack).expect("there");
        format!(
            "6,0,0,-;Linux\n15,1,0,-;preload-init: pack=/root{} end={end} pages=4 wanted=10 ns=500 boottime_ns={boottime_ns}\n",
            path.display()
        )
    };
    place.log(&line("budget", 1500));
    let first = place.finish().expect("in the log").run;
    assert_eq!((first.by, first.read), (Reader::Init, true));
    assert_eq!((first.began_ns, first.reading_ns), (1000, 500));
    assert_eq!(first.measured_from, MeasuredFrom::Replay);
    // From the front: four pages.
    assert_eq!(first.usage.read, 4);
    place.finish().expect_err("the same line");
    place.log(&line("off", 2500));
    let from_boot = FinishOptions {
        from_boot: true,
        ..place.options()
    };
    let second = finish_by(&place.pack, &from_boot).expect("another").run;
    assert!(!second.read);
    assert_eq!(
        (second.by, second.measured_from),
        (Reader::Init, MeasuredFrom::Boot)
    );
    assert_eq!(second.usage.read, 0);
    assert!(second.startup_ns > second.began_ns);
}

#[test]
fn idle_boot_is_baseline_if_log_is_whole() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.file("a", 1);
    let place = Place::new(disk, &pack(&[&file], &[(0, 0, 1)]));
    let options = FinishOptions {
        from_boot: true,
        ..place.options()
    };
    place.log("6,12,0,-;the log begins in the middle\n");
    let error = finish_by(&place.pack, &options).expect_err("who knows");
    assert!(error.to_string().contains("beginning"), "{error}");
    place.log("6,0,0,-;Linux\n");
    let done = finish_by(&place.pack, &options).expect("nobody");
    assert_eq!((done.run.by, done.run.read), (Reader::Nobody, false));
    finish_by(&place.pack, &options).expect_err("once for each boot");
}

#[test]
fn boot_that_was_recorded_is_not_judged() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.file("a", 1);
    let place = Place::new(disk, &pack(&[&file], &[(0, 0, 1)]));
    let mark = Mark::recorded(&place.pack).expect("a mark");
    mark.leave(&place.marks(), &place.pack).expect("room");
    for from_boot in [false, true] {
        let options = FinishOptions {
            from_boot,
            ..place.options()
        };
        let finish = finish(&place.pack, &options).expect("known");
        assert!(matches!(finish, Finish::Recorded), "{finish:?}");
    }
    assert_eq!(read_history(&place.pack).expect("none yet"), []);
    // Whoever reads it ahead in the same boot, to try it, is judged.
    place.replay(None, 1);
    place.finish().expect("begun");
    assert_eq!(read_history(&place.pack).expect("there").len(), 1);
}

#[test]
fn marks_that_are_damaged_or_of_another_pack_are_refused() {
    let Some(disk) = Disk::new() else { return };
    let (a, b) = (disk.file("a", 4), disk.file("b", 4));
    let place = Place::new(disk, &pack(&[&a, &b], &[(0, 0, 4), (1, 0, 4)]));
    place.replay(None, 1);
    pack(&[&a], &[(0, 0, 4)]).write(&place.pack).expect("room");
    let error = place.finish().expect_err("recorded again since");
    assert!(error.to_string().contains("another pack"), "{error}");
    let mark = fs::read_dir(place.marks())
        .expect("made")
        .next()
        .expect("one")
        .expect("read")
        .path();
    fs::write(&mark, "{").expect("own");
    let error = place.finish().expect_err("damaged");
    assert!(error.to_string().contains(".json"), "{error}");
    // One that fits by its checksum, and names a file that the pack does not have.
    place.replay(None, 1);
    let text = fs::read_to_string(&mark)
        .expect("own")
        .replace("[0,0,4]", "[9,0,4]");
    fs::write(&mark, text.replace("\"loaded\":[]", "\"loaded\":[[9,0,4]]")).expect("own");
    let error = place.finish().expect_err("no such file");
    assert!(error.to_string().contains("does not fit"), "{error}");
}

#[test]
fn history_is_bounded_and_survives_lines_of_others() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.file("a", 1);
    let place = Place::new(disk, &pack(&[&file], &[(0, 0, 1)]));
    place.leave_unread(1);
    place.finish().expect("begun");
    let line = fs::read_to_string(history_path(&place.pack)).expect("written");
    let text = "not one of ours\n".to_owned() + &line.repeat(HISTORY_MAX + 50);
    fs::write(history_path(&place.pack), text).expect("room");
    place.leave_unread(2);
    let finished = place.finish().expect("begun");
    assert_eq!(finished.entries.len(), HISTORY_MAX);
    assert_eq!(finished.entries.last(), Some(&Entry::Run(finished.run)));
}

#[test]
fn history_that_cannot_be_written_is_named_and_the_mark_stays() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.file("a", 1);
    let place = Place::new(disk, &pack(&[&file], &[(0, 0, 1)]));
    place.leave_unread(1);
    // As root, only a thing in its place stops a file from being written.
    let in_the_way = place.disk.path().join("a.pack.runs.unfinished");
    fs::create_dir(&in_the_way).expect("room");
    let error = place.finish().expect_err("in the way");
    assert!(
        error.to_string().contains("a.pack.runs.unfinished"),
        "{error}"
    );
    fs::remove_dir(in_the_way).expect("own");
    place.finish().expect("the mark is still there");
}

#[test]
fn useless_pack_is_off_until_switch_is_removed() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.file("a", 1);
    let place = Place::new(disk, &pack(&[&file], &[(0, 0, 1)]));
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now_ns = || now().tv_sec as u64 * 1_000_000_000 + now().tv_nsec as u64;
    let checksum = pack_checksum(&place.pack).expect("there");
    let advice = || advise(&read_history(&place.pack).expect("there"), checksum, 2);
    let mut kinds = String::new();
    let reason = loop {
        match advice() {
            // With it a start-up takes as long as this machine is up, without it no time. No two
            // begin at once.
            Advice::Read => place.replay(None, kinds.len() as u64),
            Advice::LeaveUnread { .. } => place.leave_unread(now_ns()),
            Advice::SwitchOff { reason } => break reason,
        }
        let run = place.finish().expect("begun").run;
        kinds.push(if run.read { 'r' } else { '-' });
    };
    assert_eq!(kinds, "r-r-");
    assert!(reason.contains("2 runs each"), "{reason}");
    assert_eq!(off::reason(&place.pack).expect("none"), None);
    off::switch_off(&place.pack, &reason).expect("room");
    let text = off::reason(&place.pack).expect("there").expect("a text");
    assert!(
        text.contains(&reason) && text.contains("Remove this file"),
        "{text}"
    );
    assert!(
        matches!(read_history(&place.pack).expect("there").last(), Some(Entry::SwitchedOff(verdict)) if verdict.reason == reason)
    );
    fs::remove_file(off::path(&place.pack)).expect("there");
    assert_eq!(advice(), Advice::Read);
}

#[test]
fn switch_for_one_run_is_taken_away_again_and_others_are_not() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.file("a", 1);
    let place = Place::new(disk, &pack(&[&file], &[(0, 0, 1)]));
    let unread = Advice::LeaveUnread {
        why: "1 run is known".to_owned(),
    };
    off::set_for_next(&place.pack, &unread).expect("room");
    let text = off::reason(&place.pack).expect("there").expect("a text");
    assert!(text.contains("1 run is known"), "{text}");
    off::set_for_next(&place.pack, &Advice::Read).expect("own");
    assert_eq!(off::reason(&place.pack).expect("none"), None);
    fs::write(off::path(&place.pack), "by hand\n").expect("room");
    off::set_for_next(&place.pack, &Advice::Read).expect("nothing to do");
    assert_eq!(
        off::reason(&place.pack).expect("there").as_deref(),
        Some("by hand")
    );
}
