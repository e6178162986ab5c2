//! `hythe preload replay`, `finish` and `report`, as a person or a unit of systemd calls them.
//!
//! Never needs a disk: what is read ahead from one is tested with the library.

use crate::support;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::support::{Ended, Root, Running};
use hythe_preload::pack::{Extent, Pack, PackFile};
use hythe_testing::ControlGroup;
use serde_json::Value;

/// A pack of one file of so many pages, and directories for its marks.
struct Case {
    root: Root,
    file: PathBuf,
    pack: PathBuf,
}

impl Case {
    fn new(pages: u32) -> Self {
        let root = Root::new();
        let file = root.path().join("needed");
        fs::write(&file, vec![b'x'; pages as usize * 4096]).expect("room");
        let pack = root.path().join("app.pack");
        record(&file, pages).write(&pack).expect("room");
        Self { root, file, pack }
    }

    fn arguments<'a>(&'a self, command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let directory = self.root.path().to_str().expect("plain");
        let mut all = vec!["preload", command, text(&self.pack)];
        if command != "report" {
            all.extend(["--run-dir", directory]);
        }
        all.extend(more);
        all
    }

    fn run(&self, command: &str, more: &[&str]) -> Ended {
        self.root.run(&self.arguments(command, more))
    }

    /// So that the verdict does not depend on how fast this machine is.
    fn make_last_run_take_an_hour(&self) {
        let path = self.root.path().join("app.pack.runs");
        let text = fs::read_to_string(&path).expect("a history");
        let mut run: Value = serde_json::from_str(&text).expect("one line");
        run["startup_ns"] = 3_600_000_000_000_u64.into();
        fs::write(&path, format!("{run}\n")).expect("own");
    }

    fn json(&self, command: &str, more: &[&str]) -> Value {
        self.root.json(&self.arguments(command, more))
    }
}

fn record(file: &Path, pages: u32) -> Pack {
    let status = fs::metadata(file).expect("own");
    Pack {
        files: vec![PackFile {
            path: file.to_owned(),
            size: status.len(),
            mtime_ns: status.mtime() * 1_000_000_000 + status.mtime_nsec(),
            inode: status.ino(),
        }],
        extents: vec![Extent {
            file: 0,
            first_page: 0,
            pages,
        }],
        ..Pack::default()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

#[test]
fn document_accounts_for_every_page() {
    let case = Case::new(5);
    let done = case.json("replay", &["--threads", "2", "--priority", "best-effort:7"]);
    // Just written: all there, unless a recording of another test has dropped the page cache.
    assert_eq!(done["pages"]["asked"], 5);
    let pages = |name: &str| done["pages"][name].as_u64().expect("a count");
    assert_eq!(pages("already_there") + pages("loaded"), 5, "{done}");
    assert_eq!(done["stopped"]["why"], "done");
    assert_eq!(done["left_unread"], Value::Null);
    fs::write(&case.file, "another").expect("own");
    let done = case.json("replay", &[]);
    assert_eq!(done["pages"]["changed"], 5);
    assert_eq!(done["changed"][0]["path"], text(&case.file));
    let ended = case.run("replay", &[]);
    let expected = format!("skipped {}: it has 7 bytes", text(&case.file));
    assert!(ended.text().contains(&expected), "{}", ended.text());
}

/// What is read is charged to the group of whoever reads it.
#[test]
fn control_group_bounds_the_budget() {
    const LIMIT: u64 = 48 << 20;
    let group = match ControlGroup::with_memory("budget", LIMIT) {
        Ok(group) => group,
        Err(why) => return eprintln!("SKIPPED (no control group with a memory limit; {why})"),
    };
    let case = Case::new(3);
    let program = Path::new(support::HYTHE);
    let arguments = case.arguments("replay", &["--json", "--budget", "100%"]);
    let command = case.root.command_by(group.command(program), &arguments);
    let ended = Running::new(command).end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let document: Value = serde_json::from_slice(&ended.output).expect("one document");
    let budget = document["budget_bytes"].as_u64().expect("bytes");
    assert!(budget > 0 && budget < LIMIT, "{budget}");
}

#[test]
fn program_is_started_as_it_was_given() {
    let case = Case::new(1);
    let script = "printf '%s|' \"$0\" \"$@\"; exit 7";
    let command = [
        "--json", "--", "sh", "-c", script, "a b", "--json", "", "--",
    ];
    let ended = case.run("replay", &command);
    assert_eq!(ended.code, Some(7), "{}", ended.errors);
    assert_eq!(ended.text(), "a b|--json||--|");
    let aside: Value = serde_json::from_str(&ended.errors).expect("one document aside");
    assert_eq!(aside["pages"]["asked"], 1);
}

#[test]
fn whatever_is_wrong_with_the_pack_the_program_is_started() {
    let case = Case::new(1);
    fs::write(&case.pack, "no pack").expect("own");
    let ended = case.run("replay", &["--", "echo", "started"]);
    assert_eq!((ended.code, ended.text().as_str()), (Some(0), "started\n"));
    assert!(
        ended.errors.contains("without reading ahead"),
        "{}",
        ended.errors
    );
    case.run("replay", &[])
        .failed(1, &["app.pack", "record it again"]);
    fs::remove_file(&case.pack).expect("own");
    let ended = case.run("replay", &["--", "echo", "started"]);
    assert_eq!((ended.code, ended.text().as_str()), (Some(0), "started\n"));
    let nothing = case.run("replay", &["--", "/no/such/program"]);
    nothing.failed(1, &["cannot start /no/such/program"]);
}

#[test]
fn wrong_use_is_said() {
    let case = Case::new(1);
    for wrong in [
        ["--budget", "0%"],
        ["--budget", "many"],
        ["--priority", "fast"],
        ["--method", "magic"],
        ["--threads", "0"],
    ] {
        case.run("replay", &wrong).failed(2, &[wrong[0]]);
    }
}

#[test]
fn start_ups_are_finished_and_reported() {
    let case = Case::new(3);
    case.run("finish", &[])
        .failed(1, &["no start-up with", "app.pack"]);
    case.json("replay", &[]);
    let finished = case.json("finish", &[]);
    assert_eq!(finished["run"]["read"], true);
    assert_eq!(finished["run"]["measured_from"], "replay");
    case.run("finish", &[]).failed(1, &["no start-up with"]);
    let report = case.json("report", &[]);
    assert_eq!(report["summary"]["with"], 1);
    assert_eq!(report["history"][0]["what"], "run");
    let shown = case.run("report", &[]);
    assert!(
        shown.text().contains("1 run with reading ahead"),
        "{}",
        shown.text()
    );
    let other = Case::new(1);
    let none = other.run("report", &[]);
    assert!(none.text().contains("no start-up of"), "{}", none.text());
}

#[test]
fn pack_that_does_not_help_is_switched_off_with_the_reason() {
    let case = Case::new(2);
    let auto = ["--auto=1"];
    assert_eq!(case.json("replay", &auto)["left_unread"], Value::Null);
    case.json("finish", &[]);
    case.make_last_run_take_an_hour();
    let left = case.json("replay", &auto);
    assert!(
        left["left_unread"]
            .as_str()
            .expect("why")
            .contains("to compare with")
    );
    assert_eq!(case.json("finish", &[])["run"]["read"], false);

    let ended = case.run("replay", &["--auto=1", "--", "echo", "started"]);
    assert_eq!((ended.code, ended.text().as_str()), (Some(0), "started\n"));
    assert!(ended.errors.contains("it did not help"), "{}", ended.errors);
    let switch = fs::read_to_string(case.root.path().join("app.pack.off")).expect("written");
    assert!(switch.contains("it did not help"), "{switch}");
    // Also without --auto.
    let honoured = case.json("replay", &[]);
    assert!(
        honoured["left_unread"]
            .as_str()
            .expect("why")
            .contains("app.pack.off")
    );
    let report = case.run("report", &[]).text();
    assert!(report.contains("switched off: it did not help"), "{report}");

    fs::remove_file(case.root.path().join("app.pack.off")).expect("there");
    assert_eq!(case.json("replay", &auto)["left_unread"], Value::Null);
}

#[test]
fn finish_sets_the_switch_for_who_cannot_judge() {
    let case = Case::new(2);
    case.json("replay", &[]);
    let finished = case.json("finish", &["--auto=1"]);
    assert!(
        finished["next"]
            .as_str()
            .expect("judged")
            .contains("left unread")
    );
    assert!(case.json("replay", &[])["left_unread"].is_string());
    // The replay in between saw the switch; the run without reading is known now, and the switch is
    // taken away or stays for good.
    let finished = case.json("finish", &["--auto=1"]);
    let next = finished["next"].as_str().expect("judged").to_owned();
    let off = case.root.path().join("app.pack.off").exists();
    assert_eq!(off, next.contains("switched off"), "{next}");
    assert!(off || next == "read ahead", "{next}");
}
